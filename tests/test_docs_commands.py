"""The commands in the pages' code blocks: their modules, flags, files, targets and extras exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

import click
import pytest
from backedge.cli.main import main as backedge_command
from backedge.parsers.api import Engine
from backedge.worker.flags import enabling_flags

from tests.test_docs import PAGES, ROOT, is_missing, is_module, read
from tests.test_house import SOURCES

# Kinds of blocks that hold commands.
SHELL = {"", "sh", "bash", "console", "text"}
# What comes in front of a command: variables, a prompt.
IN_FRONT = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*")
PYTHON_MODULE = re.compile(r"^(?:\S*/)?python3? -m ([\w.]+)")
FLAG = re.compile(r"^--[a-z][\w-]*")
# Where a module's flags stand, besides its own folder.
SHARED_FLAGS = ("tokenization/tokenizer_selection.py", "worker/flags.py", "recording", "parsers")
# Flags of vLLM, SGLang and TensorRT-LLM, which Dynamo's workers pass on.
ENGINE_FLAGS = {"--model", "--model-path", "--reasoning-parser", "--tool-call-parser"}
ENABLING_FLAGS = {flag for engine in get_args(Engine) for flag in enabling_flags(engine)}
# Other projects' programs, whose flags are not looked at.
OTHER_MODULES = {"pytest", "venv", "pip", "http.server"}


class Command(NamedTuple):
    """A command of a page; words as a shell splits them, without what follows a pipe."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        words = shlex.split(self.text, comments=True)
        ends = [words.index(end) for end in ("|", ">", "<", "&&", "&") if end in words]
        return words[: min(ends, default=len(words))]

    @property
    def flags(self) -> list[str]:
        return [found.group() for word in self.words if (found := FLAG.match(word))]


def find_commands(page: str) -> Iterator[Command]:
    """Yield the lines of the blocks of a page that can be read as commands."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)
    for kind, block in blocks:
        if kind not in SHELL:
            continue
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            command = IN_FRONT.sub("", line.strip())
            try:
                shlex.split(command, comments=True)
            except ValueError:
                continue  # a drawing, or a string over several lines
            # `backedge doctor -- COMMAND` looks at another command.
            for part in command.split(" -- ") if command.startswith("backedge ") else [command]:
                if part:
                    yield Command(page, part)


COMMANDS = [command for page in PAGES for command in find_commands(page)]


# Where the programs are that have another name as well.
OTHER_NAMES = {
    "backedge.worker.demo": "testing/replay_worker",
    "backedge.tokenization.kit": "testing/tokenizer_kit",
}


@cache
def read_sources(place: str) -> str:
    """Return the text of a Python file or of all in a folder. place: from the root, or absolute."""
    path = ROOT / place
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def list_sources(module: str) -> list[str]:
    """Return where the flags of `python -m module` stand."""
    top, *rest = module.split(".")
    if top == "backedge":
        return [OTHER_NAMES.get(module, rest[0]), *SHARED_FLAGS]
    if top in {"benchmarks", "tools", "tests"}:
        return [top]
    found = importlib.util.find_spec("dynamo." + rest[0]) if top == "dynamo" and rest else None
    if found is None or found.origin is None:
        return []
    # The common arguments lie beside the engines'.
    return [str(Path(found.origin).parent), str(Path(found.origin).parents[1] / "common")]


def knows_flag(sources: list[str], flag: str) -> bool:
    """Whether a flag, or the field that it is made of, stands in the sources."""
    field = flag.removeprefix("--").replace("-", "_")
    texts = [read_sources(source) for source in sources]
    return any(f'"{flag}"' in text or re.search(rf"\b{field}: ", text) for text in texts)


def unknown_flags(command: Command) -> list[str]:
    """Return the flags of a `python -m` command that its program does not have."""
    found = PYTHON_MODULE.match(command.text)
    if found is None or found.group(1) in OTHER_MODULES:
        return []
    module = found.group(1)
    sources = list_sources(module)
    known: set[str] = set()
    if module.startswith("sglang."):
        known = ENGINE_FLAGS
    if module.startswith("dynamo."):
        known = ENGINE_FLAGS | ENABLING_FLAGS
        sources = [*sources, "worker", "frontend", *SHARED_FLAGS]
    if module == "backedge.worker.sidecar":
        known = ENABLING_FLAGS
    if module == "backedge.frontend":
        sources += list_sources("dynamo.frontend")
    return [flag for flag in command.flags if flag not in known and not knows_flag(sources, flag)]


def unknown_options(command: Command) -> list[str]:
    """Return the subcommand or the flags that a call of `backedge` names and that do not exist."""
    words = command.words
    if len(words) < 2 or Path(words[0]).name != "backedge":
        return []
    group: click.Command | None = backedge_command
    context = click.Context(backedge_command)
    for word in words[1:]:
        if isinstance(group, click.Group) and not word.startswith("-"):
            group = group.get_command(context, word)
            if group is None:
                return [word]
    assert group is not None
    if group.context_settings.get("ignore_unknown_options"):
        return []  # passes them on
    options = {
        option
        for parameter in [*group.params, *backedge_command.params]
        for option in [*parameter.opts, *parameter.secondary_opts]
    } | {"--help"}
    return [flag for flag in command.flags if flag not in options]


def missing_files(command: Command) -> list[str]:
    """Return the files of the repository that a command names and that are not there."""
    words = [word for word in command.words[1:] if "/" in word and not word.startswith("-")]
    return [word for word in words if is_missing(word) and not Path(word).name.startswith("my_")]


def ids(command: Command) -> str:
    return f"{command.page}: {command.text[:60]}"


@pytest.mark.parametrize("command", COMMANDS, ids=ids)
def test_what_a_command_names_exists(command: Command) -> None:
    found = PYTHON_MODULE.match(command.text)
    if found and found.group(1).partition(".")[0] in {"backedge", "benchmarks", "tools", "tests"}:
        assert is_module(found.group(1))
    assert unknown_flags(command) == []
    assert unknown_options(command) == []
    assert missing_files(command) == []
    target = re.match(r"make ([\w-]+)", command.text)
    if target:
        assert re.search(rf"^{target.group(1)}:", read("Makefile"), re.MULTILINE)


def test_extras_exist() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    named = {
        extra
        for page in PAGES
        for extras in re.findall(r"pip install '\.\[([\w,]+)\]'", read(page))
        for extra in extras.split(",")
    }
    assert named
    assert named <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("path", [*PAGES, "CHANGELOG.md", *map(str, SOURCES)])
def test_extras_are_installed_from_a_checkout(path: str) -> None:
    """The project is on no index, where anybody may take its name."""
    assert not re.search(r"backedge\[", read(path))


# A command, and what is found wrong in it
WRONG = [
    ("python -m backedge.worker.demo --tokens-per-hour 5", ["--tokens-per-hour"]),
    ("python -m dynamo.vllm --model x --vllm-procesing", ["--vllm-procesing"]),
    ("python -m backedge.frontend --router-mode kv --router-moda kv", ["--router-moda"]),
    (".venv/bin/python -m benchmarks.parsers --familes x", ["--familes"]),
    ("backedge nonsense x", ["nonsense"]),
    ("backedge parsers --jsn", ["--jsn"]),
    ("kubectl apply -k deploy/nowhere", ["deploy/nowhere"]),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_what_does_not_exist_is_found(text: str, expected: list[str]) -> None:
    command = Command("x.md", text)
    found = [*unknown_flags(command), *unknown_options(command), *missing_files(command)]
    assert found == expected
