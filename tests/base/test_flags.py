"""Flags in tables, and the sizes that they take."""

from __future__ import annotations

import argparse

import pytest
from backedge.base.flags import add_to, flag, parse_megabytes


def test_a_table_of_flags_is_added() -> None:
    parser = argparse.ArgumentParser()
    add_to(parser, [flag("--size", "-s", type=parse_megabytes, default=1), flag("--name")])
    assert vars(parser.parse_args(["-s", "5"])) == {"size": 5, "name": None}


@pytest.mark.parametrize("text", ["-1", "x", "\u0665", "1" * 10, "", "1.5"])
def test_a_size_is_a_whole_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of MiB from 0"):
        parse_megabytes(text)


def test_a_size_has_a_least_value() -> None:
    assert (parse_megabytes("0"), parse_megabytes("1", 1)) == (0, 1)
    with pytest.raises(argparse.ArgumentTypeError, match="from 1"):
        parse_megabytes("0", 1)
