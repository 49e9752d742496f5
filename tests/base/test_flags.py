"""Flags in tables, and the sizes that they take."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.base.flags import (
    PREFIX,
    add_to,
    advise,
    check_variables,
    end_briefly,
    flag,
    list_variables,
    parse_megabytes,
    read_variable,
    run_parser,
)
from backedge.frontend import flags as frontend
from backedge.frontend.turns import flags as turn_flags
from backedge.offline.command import command as offline
from backedge.recording import flags as record_flags
from backedge.tokenization import tokenizer_selection as tokenizer_flags
from backedge.worker.flags import list_names

ADVICE = [
    ("unrecognized arguments: --sise", "; did you mean --size?"),
    ("argument -x: invalid choice: 'kv2' (choose from 'kv', 'random')", "; did you mean kv?"),
    ("invalid choice: 'kv2' (choose from 'kv'); did you mean kv?", ""),
    ("argument --sise: expected one argument", ""),
]


@pytest.mark.parametrize(("problem", "advice"), ADVICE)
def test_the_nearest_is_named_once(problem: str, advice: str) -> None:
    assert advise(problem, ["--size"]) == problem + advice


def test_an_error_has_no_usage(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser("p")
    parser.add_argument("--size")
    with pytest.raises(SystemExit):
        end_briefly(parser, "unrecognized arguments: --sise 5")
    said = "p: error: unrecognized arguments: --sise 5; did you mean --size?\n"
    assert capsys.readouterr().err == said


def test_a_parser_that_would_exit_raises_unless_it_was_asked_for_help() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size")
    with pytest.raises(SetupError, match=r"^the command line: .*--sise; did you mean --size\?$"):
        run_parser(parser.parse_args, ["--sise"])
    with pytest.raises(SystemExit):
        run_parser(parser.parse_args, ["--help"])


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


TABLE = (*frontend.FLAGS, frontend.PARSERS, *tokenizer_flags.FLAGS, *record_flags.FLAGS)
ROLES = {
    "worker": list_names(),
    "frontend": {name for names, _ in (*TABLE, *turn_flags.FLAGS) for name in names},
}
OFFLINE = [f"--offline-{parameter.name}" for parameter in offline.params]
FOREIGN = ("SERVICE_HOST", "PORT", "PORT_8000_TCP_ADDR", "TEST_DEVICE", "FRONTEND_SERVICE_PORT")


@pytest.mark.parametrize("role", ROLES)
def test_a_process_takes_the_variables_of_the_others_and_of_kubernetes(role, monkeypatch):
    for variable in (*list_variables({*OFFLINE, *set().union(*ROLES.values())}), *FOREIGN):
        monkeypatch.setenv(variable if variable[:9] == PREFIX else f"{PREFIX}{variable}", "1")
    check_variables(ROLES[role])


@pytest.mark.parametrize("role", ROLES)
def test_a_misspelt_variable_is_refused_with_the_right_one(role, monkeypatch):
    for variable in list_variables(ROLES[role]):
        middle = (len(PREFIX) + len(variable)) // 2
        misspelt = variable[:middle] + variable[middle + 1 :]
        with monkeypatch.context() as patch:
            patch.setenv(misspelt, "1")
            with pytest.raises(SystemExit, match=f"{misspelt}: no such .* mean {PREFIX}"):
                check_variables(ROLES[role])


# what argparse says, what is added
PROBLEMS = [
    ("unrecognized arguments: --nme x --oter", "; did you mean --name, --other?"),
    ("unrecognized arguments: --xyzzy", ""),
    ("argument --a: invalid choice: 'linnear' (choose from 'linear', 'auto')", "; did you mean li"),
    ("argument --name: expected one argument", ""),
]


@pytest.mark.parametrize(("problem", "added"), PROBLEMS)
def test_the_nearest_name_is_suggested(problem, added):
    said = advise(problem, ["--name", "--other"])
    assert said.startswith(problem + added)
    assert bool(added) == (said != problem)
