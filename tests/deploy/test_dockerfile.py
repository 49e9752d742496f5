"""The Dockerfile and what is sent to its build."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path, PurePosixPath

from tests.deploy.manifests import ROOT, VERSION_TAG
from tests.machine import require

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
Instruction = tuple[str, str]


def read_stages() -> list[list[Instruction]]:
    """Return the instructions in front of the first FROM, then those of each stage."""
    text = DOCKERFILE.read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, (line.strip() for line in text.splitlines())):
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            stages.append([])
        stages[-1].append((keyword, " ".join(rest.split())))
    return stages


ARGUMENTS, BUILD, IMAGE = read_stages()


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [require("hadolint"), "--failure-threshold", "info", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_both_stages_stand_on_dynamos_image() -> None:
    defaults = dict(rest.split("=", 1) for keyword, rest in ARGUMENTS if keyword == "ARG")
    base = defaults["BASE"]
    for name in ("RUNTIME", "DYNAMO_VERSION"):
        base = base.replace(f"${{{name}}}", defaults[name])
    assert base == "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1"
    assert VERSION_TAG.search(base)
    assert BUILD[0] == ("FROM", "${BASE} AS wheel")
    assert IMAGE[0] == ("FROM", "${BASE}")


def test_nothing_of_the_build_stays_and_no_engine_is_touched() -> None:
    """The image takes the wheel by a mount, through the installer that pins what is there."""
    assert not [rest for keyword, rest in IMAGE if keyword in {"COPY", "ADD"}]
    (install, smoke) = (rest for keyword, rest in IMAGE if keyword == "RUN")
    assert install.count("--mount=type=bind") == 2
    assert install.endswith('python3 /install.py "$(ls /wheels/*.whl)${EXTRAS}"')
    assert smoke == "backedge doctor || test $? -eq 1"
    assert "--no-deps" in next(rest for keyword, rest in BUILD if keyword == "RUN")


def test_it_runs_as_dynamos_user() -> None:
    users = [rest for keyword, rest in IMAGE if keyword == "USER"]
    assert users == ["0", "1000"]
    keywords = [keyword for keyword, _ in IMAGE]
    assert keywords.index("USER") < keywords.index("RUN")


def test_labels_say_what_it_is() -> None:
    (labels,) = (rest for keyword, rest in IMAGE if keyword == "LABEL")
    named = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', labels))
    assert set(named) == {"title", "description", "version", "revision", "licenses", "base.name"}
    assert named["licenses"] == PROJECT["project"]["license"]
    arguments = {rest.partition("=")[0] for keyword, rest in IMAGE if keyword == "ARG"}
    assert {value.strip("${}") for value in named.values() if "$" in value} <= arguments


def is_sent(path: str) -> bool:
    """Whether a file is part of the build's context: the last line that fits it decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        parents = [path, *map(str, PurePosixPath(path).parents)]
        variants = (pattern, pattern.removeprefix("**/"))
        names = [*parents, *(PurePosixPath(parent).name for parent in parents)]
        if any(fnmatch.fnmatchcase(name, variant) for name in names for variant in variants):
            sent = line.startswith("!")
    return sent


def test_the_context_has_what_the_wheel_needs_and_little_else() -> None:
    folders = {Path(folder) for folder in PROJECT["tool"]["setuptools"]["package-dir"].values()}
    for folder in folders:
        files = [path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts]
        for file in files:
            assert is_sent(file.relative_to(ROOT).as_posix()), file
    for path in ("pyproject.toml", "README.md", "LICENSE", "deploy/docker/install.py"):
        assert is_sent(path)
    (command,) = (rest for keyword, rest in BUILD if keyword == "RUN")
    for path in re.findall(r"/source/(\S+)", command):
        assert is_sent(path), "the build reads it"
    for path in (
        ".git/HEAD",
        ".venv/bin/python",
        "tests/support.py",
        "docs/trtllm.md",
        "worker/__pycache__/a",
    ):
        assert not is_sent(path), path
