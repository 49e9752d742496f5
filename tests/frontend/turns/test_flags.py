"""The flags of `--keep-turns`."""

import argparse

import pytest
from backedge.base.errors import SetupError
from backedge.frontend.turns.flags import TurnSettings, add_to, read_turn_settings


def read(*arguments):
    parser = argparse.ArgumentParser()
    add_to(parser)
    return read_turn_settings(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ((), None),
        (("--keep-turns", "off", "--keep-turns-mb", "1"), None),
        (("--keep-turns", "reasoning"), TurnSettings("reasoning")),
        (("--keep-turns", "exact", "--keep-turns-mb", "7"), TurnSettings("exact", 7)),
        (
            ("--keep-turns=exact", "--keep-turns-scope", "X-Dynamo-Meta-Tenant"),
            TurnSettings("exact", scope="tenant"),
        ),
    ],
)
def test_flags_become_settings(arguments, settings):
    assert read(*arguments) == settings


@pytest.mark.parametrize(
    "arguments", [("--keep-turns", "all"), ("--keep-turns-mb", "0"), ("--keep-turns-mb", "x")]
)
def test_a_wrong_value_is_refused(arguments):
    with pytest.raises(SystemExit):
        read(*arguments)


def test_a_header_that_dynamo_hides_is_refused():
    with pytest.raises(SetupError, match=r"authorization.*x-dynamo-meta-"):
        read("--keep-turns", "exact", "--keep-turns-scope", "authorization")
