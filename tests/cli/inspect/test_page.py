"""The page, seen in a real browser: headless Chromium. Without one, only its text is looked at."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import msgspec
import pytest
from backedge.cli.inspect.inspection import inspect_recording
from backedge.cli.inspect.page import KINDS, delta_parts, page_data, render_page, write_json
from backedge.cli.inspect.server import build_server
from backedge.cli.inspect.summary import Chosen, summarize
from backedge.parsers.base import ParserNames
from backedge.postprocess import Chunk
from backedge.postprocess.messages import ChoiceDelta, Delta
from backedge.recording.recording import DiscardedCall, Recording

from tests.cli.browser import Browser
from tests.cli.inspect.inspecting import OTHER, inspect_it
from tests.cli.recorded import record_chunks, record_text, record_transcript
from tests.cli.replay.recordings import redact
from tests.support import encode
from tools import inspect_pictures

HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1><!--\u202e\u200b"
)
LONG = 100_000


def rows(browser: Browser) -> dict[int, list[str]]:
    """Return the texts of the cells of the rows that are there, by token."""
    found = browser.js(
        "[...document.querySelectorAll('#body .row')].map(row => "
        "[row.token, [...row.children].map(cell => cell.textContent)])"
    )
    return dict(found)


def chosen(browser: Browser) -> int:
    number: int = browser.js("document.querySelector('.row.chosen').token")
    return number


def test_shows_tokens_states_and_deltas(show) -> None:
    recording = record_transcript("reasoning_call")
    steps = inspect_it(recording).choices[0].sides[0].steps
    found = rows(show(recording))
    assert [found[number][4] for number in sorted(found)] == [
        step.state for step in steps[: len(found)]
    ]
    assert [found[0][place] for place in (0, 1, 2, 3)] == ["1", "10.00", "558", "<think>"]
    assert found[2][5].split() == ["reasoning", "I"]
    assert "possible call" in found[20][5]
    assert found[2][6] == "10.25 ms, 2 ch"


def test_cuts_of_chunks_are_marked(show) -> None:
    browser = show(record_transcript("reasoning_call", 3))
    cut = browser.js("[...document.querySelectorAll('.row.cut')].map(row => row.token)")
    assert sorted(cut)[:4] == [0, 3, 6, 9]


def test_discarded_tokens_are_struck_out(show) -> None:
    recording = record_transcript("reasoning_call", 3)
    call = DiscardedCall("slip", 2, recording.chunks[2:3])
    browser = show(msgspec.structs.replace(recording, discarded=[call]))
    struck = browser.js(
        "[...document.querySelectorAll('.row')].filter(row => getComputedStyle("
        "row.children[3]).textDecorationLine === 'line-through').map(row => row.token)"
    )
    assert sorted(struck) == [6, 7, 8]
    assert rows(browser)[6][4:6] == ["discarded", "slip "]
    assert rows(browser)[9][4] != "discarded"
    browser.js("PAGE.goTo(7)")
    assert "slip: the call was generated again" in browser.js(
        "document.getElementById('details').innerText"
    )


def test_details_explain_what_is_held_back(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    browser.js("PAGE.goTo(19)")
    text = browser.js("document.getElementById('details').innerText")
    assert "START → JSON_CALLS" in text
    assert "A call may have begun" in text


# Each key, and the token that is chosen behind it.
KEYS = [
    *[("j", 1), ("ArrowDown", 2), ("k", 1), ("ArrowUp", 0), ("ArrowUp", 0), ("G", 38), ("g", 0)],
    *[("s", 16), ("n", 19), ("p", 16), ("c", 18), ("h", 17), ("d", 31), ("End", 38), ("Home", 0)],
]


def test_keys_move_and_jump(show) -> None:
    browser = show(record_transcript("reasoning_call", 3))
    visited = []
    for key, _ in KEYS:
        browser.press(key)
        visited.append((key, chosen(browser)))
    assert visited == KEYS


def test_an_address_names_token_and_search(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    browser.press("j", "j")
    assert browser.js("location.hash") == "#t3"
    browser.press("/", "w", "e")
    browser.press("Enter")
    assert browser.js("location.hash").endswith("&q=we")
    browser.js("location.hash = '#t9&q=the'; 0")
    browser.settle()
    assert chosen(browser) == 8
    assert browser.js("[byId('search').value, PAGE.search.query]") == ["the", "the"]
    browser.js("location.hash = '#t99999&c7&q=%'; 0")
    browser.settle()
    assert chosen(browser) == browser.js("PAGE.choice.count") - 1


def test_without_javascript_the_page_says_so(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    assert "--text" in browser.js("document.querySelector('noscript').textContent")


def test_a_phone_shows_tokens(show) -> None:
    browser = show(record_transcript("reasoning_call"), ParserNames("pythonic", "qwen3"))
    browser.press("g")
    browser.resize(390, 844)
    browser.settle()
    try:
        assert browser.js("document.documentElement.scrollWidth") == 390
        assert browser.js("PAGE.rows.page") >= 8
        shown = "[...document.querySelectorAll('#token-0 > *')].filter(cell => cell.offsetWidth)"
        assert browser.js(f"{shown}.slice(0, 2).map(cell => cell.textContent)") == ["1", "<think>"]
    finally:
        browser.resize(1280, 800)


def test_held_text_comes_before_its_reason(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    texts = browser.js("[...document.querySelectorAll('#body .holds')].map(part => part.innerText)")
    assert texts
    assert all(text.index(" holds ") > 0 for text in texts)


def test_help_opens_and_closes(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    browser.press("?")
    assert browser.js("document.getElementById('help').open")
    assert "next token" in browser.js("document.getElementById('keys').innerText")
    browser.press("j")
    assert chosen(browser) == 0
    browser.press("Escape")
    assert not browser.js("document.getElementById('help').open")


SEARCHES = [
    ("weather", [11, 26]),
    (" the weather in", [10]),
    ("534", [14, 35]),
    ("json_calls", [19]),
    ("nowhere", []),
]


@pytest.mark.parametrize(("query", "tokens"), SEARCHES)
def test_search_finds_text_ids_and_states(show, query: str, tokens: list[int]) -> None:
    browser = show(record_transcript("reasoning_call"))
    browser.press("/", *query)
    browser.press("Enter")
    assert browser.js("PAGE.search.found") == tokens
    assert f"{len(tokens)} found" in browser.js("document.getElementById('found').textContent")
    if tokens:
        assert chosen(browser) == tokens[0]
        browser.press("Enter")
        assert chosen(browser) == tokens[1 % len(tokens)]
    browser.press("Escape")
    assert browser.js("document.activeElement.id") == "grid"


@pytest.mark.parametrize(
    ("query", "text"),
    [("\N{SNOWMAN}", "a\N{SNOWMAN}b"), ("é", "éé"), ("b", "\N{SNOWMAN}b"), ("x", "x")],
)
def test_search_finds_characters_of_several_tokens(show, query: str, text: str) -> None:
    recording = record_text(f"</think>{text}", 1, "length")
    browser = show(recording)
    whole = bytearray()
    starts = []
    for step in inspect_it(recording).choices[0].sides[0].steps:
        starts.append(len(whole))
        whole += step.text.encode("utf-8", "surrogateescape")
    wanted = query.encode()
    places = [at for at in range(len(whole)) if whole.startswith(wanted, at)]
    expected = sorted({max(n for n, start in enumerate(starts) if start <= at) for at in places})
    assert browser.js(f"PAGE.find({query!r})") == expected


def background(browser: Browser) -> str:
    colour: str = browser.js("getComputedStyle(document.body).backgroundColor")
    return colour


def test_dark_and_light_follow_the_system_and_the_switch(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    seen = {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        seen[scheme] = background(browser)
    assert seen["light"] != seen["dark"]
    browser.press("t")
    assert background(browser) == seen["light"]
    browser.press("t")
    assert background(browser) == seen["dark"]
    browser.prefer("light")
    assert background(browser) == seen["dark"]
    browser.press("t")
    assert background(browser) == seen["light"]


# The lightness that WCAG 2 gives a colour, and the least contrast it wants of text.
CONTRASTS = """
(() => {
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour) => {
    pen.fillStyle = colour; pen.clearRect(0, 0, 1, 1); pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = rgb(colour).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgb(colour)[3] === 255) return colour;
    }
    return 'white';
  };
  const low = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility()) continue;
    const pair = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    const name = element.className;
    if (ratio < 4.5 && name !== 'space') low.add(`${name} ${ratio.toFixed(2)}`);
  }
  return [...low];
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(show, scheme: str) -> None:
    browser = show(record_transcript("reasoning_call"), OTHER)
    browser.prefer(scheme)
    browser.press("s", "s", "x")
    assert browser.js(CONTRASTS) == []


def test_every_control_has_a_name(show) -> None:
    browser = show(record_transcript("reasoning_call"), OTHER)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "combobox", "searchbox", "grid", "image", "row", "gridcell", "columnheader"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value"))
        for node in nodes
        if node.get("role", {}).get("value") in roles and not node.get("ignored")
    ]
    assert {"grid", "row", "gridcell", "columnheader", "searchbox"} <= {role for role, _ in named}
    controls = {"button", "combobox", "searchbox", "grid", "image"}
    assert [role for role, name in named if role in controls and not name] == []


def test_two_parsers_stand_side_by_side_with_the_first_difference(show) -> None:
    recording = record_transcript("reasoning_call")
    difference = inspect_it(recording, OTHER).choices[0].difference
    assert difference is not None
    browser = show(recording, OTHER)
    assert "First difference at token 32" in browser.js(
        "document.getElementById('notes').innerText"
    )
    browser.press("x")
    assert chosen(browser) == difference.step == 31
    cells = rows(browser)[31]
    assert cells[0].startswith("≠")
    assert "call 0 get_weather" in cells[5]
    assert "get_weather" not in cells[7]


def hostile_recording() -> Recording:
    text = f"</think>{HOSTILE} \x1b[31m"
    recording = record_text(
        text, 2, response_id=HOSTILE, model=HOSTILE, stop=[HOSTILE + "never"], path="examples"
    )
    return msgspec.structs.replace(recording, outcome="failed", error=HOSTILE)


def test_hostile_text_is_shown_as_text(show) -> None:
    browser = show(hostile_recording())
    browser.press("G")
    assert browser.js("window.hacked") is None
    assert browser.js("document.querySelectorAll('main script, main img, header img').length") == 0
    answer = browser.js("document.getElementById('answer').textContent")
    assert "</script><script>window.hacked=1</script><img" in answer
    assert "U+202E" in answer
    assert "U+001B" in answer
    # Only in the data, which is never shown as it is.
    shown = browser.js("document.body.innerText + document.title")
    assert not {"\u202e", "\u200b", "\x1b"} & set(shown)


@pytest.mark.parametrize(
    "data", [HOSTILE, {"a": [HOSTILE, "&", ">"]}, "\u2028\u2029", "\ud800", "]]>", "<!--<script>"]
)
def test_data_ends_no_block(data: object) -> None:
    text = write_json(data)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert msgspec.json.decode(text.replace("\\ud800", "?")) is not None


def test_the_policy_allows_nothing_but_the_pages_own() -> None:
    page = render_page(inspect_it(hostile_recording()))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert page.count("<script") == 2
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http"):
        assert name not in page.partition("</style>")[2].partition('id="data"')[0]
        assert name not in page.rpartition("<script>")[2]


def test_shows_a_hundred_thousand_tokens(show) -> None:
    ids = (encode("<think>\nI look.\n</think>An answer of some words, again. ") * LONG)[:LONG]
    parts = [
        Chunk(token_ids=ids[at : at + 8], finish_reason="length" if at + 8 >= LONG else None)
        for at in range(0, LONG, 8)
    ]
    browser = show(record_chunks(parts))
    assert browser.js("PAGE.choice.count") == LONG
    browser.press("G")
    assert chosen(browser) == LONG - 1
    assert len(rows(browser)) < 100
    browser.js("document.getElementById('grid').scrollTop = 50000 * 26")
    browser.settle()
    assert 50_000 in rows(browser)
    assert rows(browser)[50_000][2] == str(ids[50_000])
    browser.js("PAGE.find('look')")
    assert browser.js("PAGE.search.found.length") > 1000
    browser.press("g", "n")
    assert chosen(browser) == 1


def test_paper_gets_a_table(show) -> None:
    browser = show(record_transcript("reasoning_call"))
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.js("document.querySelectorAll('#print tbody tr').length") == 39
    assert browser.js("document.querySelectorAll('#print tr')[20].cells[2].textContent") == "554"
    browser.js("window.dispatchEvent(new Event('afterprint'))")
    assert browser.js("document.getElementById('print').childElementCount") == 0


def test_pages_are_served(browser: Browser) -> None:
    inspection = inspect_it(record_transcript("reasoning_call"))
    rows_ = [msgspec.structs.replace(inspection.request, number=number) for number in (1, 2)]
    server, address = build_server(0, rows_, lambda _: render_page(inspection))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        browser.open(address)
        browser.js("document.querySelectorAll('tbody a')[2].click()")
        browser.wait("typeof PAGE === 'object' && PAGE.choice.count === 39")
        assert browser.js("location.href") == f"{address}2"
        assert set(browser.requested) == {address, f"{address}2"}
        assert browser.errors == []
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_request_without_tokens_has_a_page(show) -> None:
    browser = show(msgspec.structs.replace(record_chunks([]), outcome="cancelled"))
    browser.press("j", "n", "G", "/", "a", "Enter")
    assert browser.js("document.getElementById('details').innerText") == "The choice has no tokens."


def test_without_a_tokenizer_there_are_ids(show, browser: Browser, tmp_path: Path) -> None:
    recording = record_transcript("reasoning_call")
    inspection = inspect_recording(Chosen(summarize(1, recording), recording), [], "no tokenizer")
    path = tmp_path / "ids.html"
    path.write_text(render_page(inspection), encoding="utf-8")
    browser.open(path)
    browser.settle()
    assert [rows(browser)[0][place] for place in (2, 3, 4)] == ["558", "", ""]
    assert "no tokenizer" in browser.js("document.getElementById('notes').innerText")


def test_of_a_redacted_recording_sizes_are_shown(show) -> None:
    recording = redact(record_transcript("reasoning_call"))
    browser = show(recording)
    assert "redacted" in browser.js("document.getElementById('notes').innerText")
    assert rows(browser)[2][6] == "10.25 ms, 2 ch"
    browser.js("PAGE.goTo(5)")
    assert "6 characters, not recorded" in browser.js(
        "document.getElementById('details').innerText"
    )
    states = [cells[4] for _, cells in sorted(rows(browser).items())]
    assert list(dict.fromkeys(states)) == ["REASONING", "START", "JSON_CALLS"]


def test_choices_can_be_changed(show) -> None:
    ids = encode("</think>one two")
    browser = show(
        record_chunks(
            [Chunk(index=index, token_ids=ids, finish_reason="stop") for index in (0, 1)], n=2
        )
    )
    assert browser.js("document.getElementById('choice').checkVisibility()")
    browser.js(
        "const choice = document.getElementById('choice'); choice.value = '1';"
        "choice.dispatchEvent(new Event('change'))"
    )
    assert browser.js("PAGE.choice.index") == 1


def test_the_pictures_of_the_docs_are_made(browser: Browser, tmp_path: Path) -> None:
    made = inspect_pictures.make_pictures(browser, tmp_path, "tool=qwen3_coder")
    assert {path.name for path in made} == {"inspect-light.png", "inspect-dark.png"}
    for path in made:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert (inspect_pictures.DOCS / path.name).is_file()


def test_data_has_each_string_once() -> None:
    data = page_data(inspect_it(record_transcript("reasoning_call")))
    assert len(data["strings"]) == len(set(data["strings"]))
    [choice] = data["choices"]
    assert len(choice["ids"]) == len(choice["texts"]) == 39


def test_a_delta_lists_what_it_holds() -> None:
    delta = ChoiceDelta(0, Delta(content="a", reasoning_content="b"), "stop", "END")
    assert [(KINDS[kind], text) for kind, _, text in delta_parts(delta)] == [
        ("reasoning", "b"),
        ("content", "a"),
        ("finish", "stop by 'END'"),
    ]
