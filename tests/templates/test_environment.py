"""Jinja for chat templates, in the process that renders them."""

from __future__ import annotations

import pytest
from backedge.templates.environment import LoadedTemplate


def test_what_a_filter_makes_becomes_json() -> None:
    template = LoadedTemplate("{{ names | map('upper') | tojson }}")
    assert template.render({"names": ["a", "b"]}) == '["A", "B"]'


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="Object of type object is not JSON"):
        LoadedTemplate("{{ value | tojson }}").render({"value": object()})
