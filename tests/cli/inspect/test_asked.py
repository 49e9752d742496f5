"""The page's request, its held texts and its first difference; the list's filter."""

from __future__ import annotations

import threading

import msgspec
from backedge.cli.inspect.server import build_server
from backedge.cli.inspect.summary import summarize

from tests.cli.browser import Browser
from tests.cli.inspect.inspecting import OTHER, inspect_it
from tests.cli.recorded import record_text, record_transcript


def test_the_request_can_be_unfolded(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    assert browser.js("document.getElementById('asked').open") is False
    shown = browser.js("document.getElementById('asked').textContent")
    assert "get_weather" in shown
    for name in ("prompt", "tools", "parameters"):
        assert name in browser.js(
            "[...document.querySelectorAll('#asked h3')].map(each => each.textContent)"
        )


def test_held_text_is_shown_whole(show) -> None:
    browser = show(record_text("</think>" + "y" * 90 + "z", 1, stop=["y" * 100]))
    browser.js("PAGE.goTo(PAGE.choice.texts.length - 3)")
    shown = browser.js("document.getElementById('details').textContent")
    assert "\u2026" not in shown
    assert "y" * 85 in shown


def test_two_parsers_are_opened_at_their_first_difference(show) -> None:
    recording = record_transcript("reasoning_call")
    browser = show(recording, OTHER)
    difference = inspect_it(recording, OTHER).choices[0].difference
    assert difference is not None
    assert browser.js("PAGE.token") == difference.step


def test_the_button_of_colours_says_what_it_is(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    assert browser.js("document.getElementById('theme').textContent") == "Colours: auto"


def test_the_list_has_a_filter(browser: Browser) -> None:
    rows = [summarize(1, record_transcript(name)) for name in ("reasoning_call", "plain_text")]
    server, address = build_server(0, rows_with_numbers(rows), str)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    browser.open(address)
    browser.js(
        "(box => { box.value = 'plain'; box.dispatchEvent(new Event('input')) })"
        "(document.getElementById('filter'))"
    )
    seen = "[...document.querySelectorAll('tbody tr')].map(row => row.hidden)"
    assert browser.js(seen) == [True, False]
    assert browser.errors == []
    server.shutdown()


def rows_with_numbers(rows):
    return [msgspec.structs.replace(row, number=number) for number, row in enumerate(rows, 1)]
