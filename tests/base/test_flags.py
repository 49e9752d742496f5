"""Flags in tables, and the sizes that they take."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from backedge.base.flags import add_to, flag, parse_megabytes, read_variable


def test_a_table_of_flags_is_added() -> None:
    parser = argparse.ArgumentParser()
    add_to(parser, [flag("--size", "-s", type=parse_megabytes, default=1), flag("--name")])
    assert vars(parser.parse_args(["-s", "5"])) == {"size": 5, "name": None}


# options of a flag, the value of its variable, the default that this gives or the error
VARIABLES = [
    ({}, "x", "x"),
    ({"type": int}, "5", 5),
    ({"action": "store_true"}, "On", True),
    ({"action": "store_true"}, "false", False),
    ({"action": "append"}, "a,b", ["a", "b"]),
    ({"choices": ("a", "b")}, "b", "b"),
    ({"type": parse_megabytes}, "x", "'x' is not a number of MiB from 0"),
    ({"type": int}, "x", "invalid literal"),
    ({"action": "store_true"}, "x", "'x' is not one of 1, true, on, 0, false, off"),
    ({"choices": ("a", "b")}, "x", "'x' is not one of a, b"),
]


@pytest.mark.parametrize(("options", "text", "expected"), VARIABLES)
def test_a_variable_gives_the_default(
    options: dict[str, Any], text: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("--keep-turns", "-k")
    assert read_variable(names, options) == {}
    monkeypatch.setenv("BACKEDGE_KEEP_TURNS", text)
    if text == "x" and options:
        with pytest.raises(SystemExit, match=f"BACKEDGE_KEEP_TURNS: {expected}"):
            read_variable(names, options)
    else:
        assert read_variable(names, options) == {"default": expected}


@pytest.mark.parametrize("text", ["-1", "x", "\u0665", "1" * 10, "", "1.5"])
def test_a_size_is_a_whole_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of MiB from 0"):
        parse_megabytes(text)


def test_a_size_has_a_least_value() -> None:
    assert (parse_megabytes("0"), parse_megabytes("1", 1)) == (0, 1)
    with pytest.raises(argparse.ArgumentTypeError, match="from 1"):
        parse_megabytes("0", 1)
