"""The flags of `--keep-turns`."""

import argparse
import importlib.util

import pytest
from backedge.base.errors import SetupError
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
        (
            ("--keep-turns=exact", "--keep-turns-store", "valkey://h:1/0"),
            TurnSettings("exact", store="redis://h:1/0"),
        ),
        (
            ("--keep-turns=exact", "--keep-turns-store=valkeys://h", "--keep-turns-expiry=9"),
            TurnSettings("exact", store="rediss://h", expiry_s=9),
        ),
    ],
)
def test_flags_become_settings(arguments, settings):
    assert read(*arguments) == settings


@pytest.mark.parametrize(
    "arguments",
    [
        ("--keep-turns", "all"),
        ("--keep-turns-mb", "0"),
        ("--keep-turns-mb", "x"),
        ("--keep-turns-expiry", "0"),
        ("--keep-turns-store", "h:1"),
        ("--keep-turns-store", "http://h:1"),
    ],
)
def test_a_wrong_value_is_refused(arguments):
    with pytest.raises(SystemExit):
        read(*arguments)


def test_a_wrong_url_is_not_repeated_because_it_may_have_a_password(capsys):
    with pytest.raises(SystemExit):
        read("--keep-turns-store", "http://:secret@h")
    assert "secret" not in capsys.readouterr().err


def test_a_store_without_a_client_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match="turns"):
        read("--keep-turns", "exact", "--keep-turns-store", "valkey://h")


@pytest.mark.parametrize("header", ["authorization", "x-dynamo-meta-"])
def test_a_header_that_dynamo_hides_is_refused(header, capsys):
    with pytest.raises(SystemExit):
        read("--keep-turns", "exact", "--keep-turns-scope", header)
    assert f"'{header}': Dynamo shows a frontend only the headers" in capsys.readouterr().err
