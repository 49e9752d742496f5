"""`backedge doctor`: the kind of target determines the checks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import click
import msgspec
from typing_extensions import override

from ...base.errors import SetupError
from ...base.limits import ANSWER_TIMEOUT_S
from ...base.terminal import print_json, print_text
from ...parsers.api import Engine
from ..http_answer import waiting_at_most
from .discovery import FleetWorker, read_fleet
from .findings import EXIT_CODES, Finding, build_report, show_finding
from .fleet import check_frontend, check_system_port, check_workers
from .installation import check_engine, check_installation
from .model import check_model, names_for_stock, read_model, suggest_flags
from .server_command import check_server, find_server, parse_server_command
from .start import check_frontend_command, check_worker_start
from .worker_command import (
    FRONTENDS,
    REPLAY,
    SIDECAR,
    check_command,
    check_vllm_parsers,
    parse_worker_command,
    read_names,
)

COMMAND_LINE = "backedge.doctor.command_line"


class Target(NamedTuple):
    """The arguments of doctor; all are optional. target: a model or a URL. seams: list them."""

    target: str | None
    command_line: list[str]
    engine: Engine | None
    chat_template: str | None
    revision: str | None
    discovery: str | None
    workers: tuple[str, ...]
    seams: bool = False

    @property
    def passes(self) -> str:
        """Describe a target without errors."""
        if self.target and "://" in self.target:
            return "this fleet answers"
        if self.command_line:
            return "this command passes its flags"
        return "this model can be served" if self.target else "this machine is ready"


class WithCommandLine(click.Command):
    """A command whose arguments may end with `--` and another command line."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            position = args.index("--")
            ctx.meta[COMMAND_LINE] = args[position + 1 :]
            args = args[:position]
        elif "-m" in args or "serve" in args:
            ctx.fail("put -- in front of the command: backedge doctor -- " + " ".join(args))
        return super().parse_args(ctx, args)


def examine_all(target: Target) -> Iterator[Finding]:
    """Yield each finding once, the last one for a target that cannot be read."""
    seen = set()
    try:
        for finding in examine(target):
            if finding not in seen:
                yield finding
            seen.add(finding)
    except SetupError as error:
        yield Finding("error", "target", str(error))


def examine(target: Target) -> Iterator[Finding]:
    """Yield the findings. Raises `SetupError` for a target that cannot be read."""
    is_server = find_server(target.command_line) is not None
    yield from check_installation(needs_dynamo=not is_server)
    if target.target and "://" in target.target:
        yield from examine_fleet(target, target.target)
    elif target.command_line:
        yield from examine_command(target)
    elif target.target:
        yield from examine_model(target, target.target)
    if not target.command_line and target.engine is not None:
        yield from check_engine(target.engine, lists=target.seams)
    for url in target.workers:
        yield from check_system_port(url)


def examine_model(target: Target, model: str) -> Iterator[Finding]:
    """Check a model's files, and suggest flags for it."""
    facts = read_model(model, target.chat_template, target.revision)
    yield from check_model(facts)
    yield from names_for_stock(facts)
    if target.engine == "vllm":
        yield from check_vllm_parsers(facts, facts.names)
    if flags := suggest_flags(facts):
        yield Finding("ok", "flags", flags)


def examine_command(target: Target) -> Iterator[Finding]:
    """Check a worker's command line against its model."""
    if not {*FRONTENDS}.isdisjoint(target.command_line):
        yield from check_frontend_command(target.command_line)
        return
    if (server := find_server(target.command_line)) is not None:
        yield from examine_server(target, *server)
        return
    command = parse_worker_command(target.command_line)
    template = target.chat_template or command.chat_template
    model = command.model or target.target
    facts = read_model(str(model), template, target.revision or command.revision)
    yield from check_model(facts)
    yield from check_command(command, facts)
    yield from check_worker_start(command)
    if command.module in (REPLAY, SIDECAR):
        return
    if command.engine == "vllm" and command.is_on:
        yield from check_vllm_parsers(facts, facts.resolve(read_names(command)))
    yield from check_engine(command.engine, lists=target.seams)


def examine_server(target: Target, engine: Engine, arguments: list[str]) -> Iterator[Finding]:
    """Check the command line of an engine's own server against its model."""
    command = parse_server_command(engine, arguments)
    template = target.chat_template or command.chat_template
    facts = read_model(command.model, template, target.revision or command.revision)
    for finding in check_model(facts):
        # The parsers that fit are named as a worker's flags do.
        is_fine = finding.severity == "ok"
        yield msgspec.structs.replace(finding, fix="") if is_fine else finding
    yield from check_server(command, facts)


def examine_fleet(target: Target, url: str) -> Iterator[Finding]:
    """Check a frontend and its discovery."""
    workers: list[FleetWorker] = []
    unread: SetupError | None = None
    try:
        workers = read_fleet(target.discovery)
    except SetupError as error:
        unread = error
    yield from check_frontend(url, workers)
    if unread is not None:
        yield Finding(
            "note",
            "discovery",
            f"which workers post-process is unknown: {unread}",
            "pass --discovery with the workers' DYN_FILE_KV, or with etcd's URL",
        )
    yield from check_workers(workers)


@click.command(
    "doctor",
    cls=WithCommandLine,
    epilog="""\b
backedge doctor Qwen/Qwen3-8B
backedge doctor -- python -m dynamo.vllm --model Qwen/Qwen3-8B --vllm-processing
backedge doctor -- vllm serve Qwen/Qwen3-8B --tool-call-parser backedge
backedge doctor http://localhost:8000

Exit code: 0 if nothing is wrong, 1 with warnings, 2 with errors.""",
)
@click.argument("target", required=False, metavar="[MODEL|URL] [-- COMMAND ...]")
@click.option(
    "--engine",
    type=click.Choice(["vllm", "sglang", "trtllm"]),
    help="Also check Dynamo and this engine, which imports both.",
)
@click.option("--chat-template", help="A Jinja file instead of the model's own.")
@click.option("--revision", help="Model revision on the hub.")
@click.option(
    "--discovery",
    help="Where workers register: the folder of DYN_FILE_KV, or etcd's URL. Default: as "
    "Dynamo's own variables say.",
)
@click.option(
    "--worker", "workers", multiple=True, metavar="URL", help="A worker's system port; repeatable."
)
@click.option("--seams", is_flag=True, help="List each place in the engine that is relied on.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **flags: Any) -> None:
    """Check compatibility.

    With a MODEL (a folder, or a name on the hub): its parsers, and the flags for a worker. With
    the command line of a worker, or of vLLM's or SGLang's own server, after `--`: what it would
    do, before you pay for a GPU. With the
    URL of a frontend: its models and workers, and differences. With none of these: what is
    installed.
    """
    findings = []
    target = Target(command_line=ctx.meta.get(COMMAND_LINE, []), **flags)
    with waiting_at_most(ANSWER_TIMEOUT_S):
        for finding in examine_all(target):
            findings.append(finding)
            if not as_json and finding.severity == "ok":  # others last, where they are seen
                print_text(*show_finding(finding))
    report = build_report(findings, target.passes)
    if as_json:
        print_json(report)
    else:
        for severity in EXIT_CODES:
            shown = [one for one in findings if one.severity == severity != "ok"]
            print_text(*chain.from_iterable(map(show_finding, shown)))
        print_text("", report.verdict)
    ctx.exit(report.exit_code)
