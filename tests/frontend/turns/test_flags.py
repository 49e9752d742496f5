"""The flags of `--keep-turns`."""

import argparse

import pytest
from backedge.base.flags import add_to
from backedge.frontend.turns.flags import FLAGS, TurnSettings, read_turn_settings


def read(*arguments):
    parser = argparse.ArgumentParser()
    add_to(parser, FLAGS)
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


@pytest.mark.parametrize("header", ["authorization", "x-dynamo-meta-"])
def test_a_header_that_dynamo_hides_is_refused(header, capsys):
    with pytest.raises(SystemExit):
        read("--keep-turns", "exact", "--keep-turns-scope", header)
    assert f"'{header}': Dynamo shows a frontend only the headers" in capsys.readouterr().err
