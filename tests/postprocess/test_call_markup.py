"""Calls in content are found, whatever their format; prose and code are not taken for calls."""

from __future__ import annotations

import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.parser_lookup import known_formats
from backedge.parsers.structural_tag import find_opening
from backedge.postprocess.call_markup import holds_call

TOOLS: list[JsonObject] = [
    {"type": "function", "function": {"name": "get_weather"}},
    {"type": "function"},
]
OPENINGS = {
    format_.name: find_opening(format_)
    for entry in known_formats().values()
    if (format_ := entry.tools) is not None
}
# Formats whose calls begin with marks that other texts have as well.
COMMON = {"beam", "llama3_json", "minicpm5", "muse_glimmer", "pythonic", "xlam"}


@pytest.mark.parametrize("name", OPENINGS)
def test_the_mark_of_each_format_is_found(name: str) -> None:
    opening = OPENINGS[name]
    assert holds_call(f"Yes. {opening} and more", TOOLS) == (name not in COMMON)


@pytest.mark.parametrize(
    ("content", "holds"),
    [
        ('{"name": "get_weather", "arguments": {}}', True),
        ('[{"name" :\n"get_weather"}]', True),
        ("<function=get_weather><parameter=city>", True),
        ('{"name": "get_weather_2"}', False),
        ('{"name": "Oslo"}', False),
        ("Call get_weather(city) or [get_weather](x).", False),
        ("std::vector<function<int>> f; <tool> <call> [TOOL]", False),
        ("", False),
    ],
)
def test_a_declared_name_is_found_as_calls_have_it(content: str, holds: bool) -> None:
    assert holds_call(content, TOOLS) is holds
    if "get_weather" in content:
        assert not holds_call(content, [])
