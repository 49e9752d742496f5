"""What a chat template may call has a price, and the price is about the size of what is made."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.templates import prices
from backedge.templates.chat_template import create_environment
from backedge.templates.prices import weigh
from jinja2.sandbox import ImmutableSandboxedEnvironment


@pytest.mark.parametrize(
    ("kind", "priced", "default", "refused"),
    [
        ("filters", prices.FILTERS, "DEFAULT_FILTERS", {"urlize"}),
        ("tests", prices.TESTS, "DEFAULT_TESTS", set()),
        ("globals", dict.fromkeys(prices.GLOBALS), "DEFAULT_NAMESPACE", {"lipsum"}),
    ],
)
def test_what_has_no_price_is_refused(
    kind: str,
    priced: dict[str, Any],
    default: str,
    refused: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = getattr(ImmutableSandboxedEnvironment(), kind)
    assert installed.keys() == priced.keys() | refused
    monkeypatch.setattr(f"jinja2.environment.{default}", {**installed, "of_a_new_version": str})
    ours = {"raise_exception", "strftime_now"} if kind == "globals" else set()
    assert getattr(create_environment(), kind).keys() == priced.keys() | ours


def test_a_weight_is_about_the_length_of_the_text() -> None:
    value = {"a": ["x" * 100, {"b": "y" * 100}]}
    assert len(str(value)) <= weigh(value) <= 2 * len(str(value))
    shared: list[object] = ["x"]
    for _ in range(60):
        shared = [shared, shared]
    assert weigh(shared) > 2**60
