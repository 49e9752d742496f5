"""The command: checks everything, then loads the weights, then generates the rows."""

from __future__ import annotations

import pkgutil
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping

import click

from ..base.errors import BackedgeError, SetupError
from ..base.json_types import JsonObject
from ..base.terminal import print_text
from . import plugins
from .batch_file import InputScan, read_row, read_rows, scan_input
from .batch_job import BatchJob, RowReader
from .batch_output import BatchOutput
from .command_flags import EPILOG, Command, GroupedCommand, build_flags, read_command
from .contracts import EngineDiedError, suggest
from .engine import GenerationEngine
from .inference_backend import describe_model
from .interrupts import SIGNAL_EXIT_CODE, Interrupted, Interrupts, catch_interrupts
from .progress import Progress
from .results import GenerationResult

ALL_ROWS, BROKEN_OFF, NOTHING_STARTED, SOME_FAILED = 0, 1, 2, 3
# The plugins in the package, and the place of each.
SHIPPED_PLUGINS = {
    "json_stop": f"{plugins.__name__}:JsonStop",
    "no_duplicates": f"{plugins.__name__}:NoDuplicates",
}
GO_ON = "the same command resumes from there"


@click.command(
    "offline",
    cls=GroupedCommand,
    params=build_flags(),
    epilog=EPILOG,
    context_settings={"auto_envvar_prefix": "BACKEDGE_OFFLINE"},
)
@click.pass_context
def command(context: click.Context, /, **flags: object) -> None:
    """Generate the answers to a file of conversations, without a server."""
    context.exit(run(flags))


def run(flags: Mapping[str, object]) -> int:
    """Run the command with parsed flags; return its exit code."""
    with catch_interrupts() as interrupts:
        try:
            command = read_command(flags)
            _check_files(command)
            with BatchOutput(command.output) as output:
                return _run(command, output, interrupts)
        except Interrupted as interrupted:
            _say("stopped before generation began.")
            return SIGNAL_EXIT_CODE + interrupted.number
        except SetupError as error:
            _say(f"{error}")
            return NOTHING_STARTED


def _run(command: Command, output: BatchOutput, interrupts: Interrupts) -> int:
    """Check everything, and generate the rows that the output lacks."""
    engine = GenerationEngine(command.load, [load_plugin(name) for name in command.plugins])
    begun = output.record.input if output.record is not None else None
    scan = scan_input(command.input, command.shard, begun)
    done = len(output.done)
    progress = Progress(scan.rows, done, output.failed)
    with engine:
        job = _build_job(command, scan, engine, output, progress)
        job.check()
        settings = command.settings | describe_model(command.load)
        output.check_settings(settings)
        output.begin(settings, scan)
        if done:
            progress.say(f"{done:,} of {scan.rows:,} rows already have a result in {output.path}.")

        def finish(number: int) -> None:
            job.stopping = True
            progress.say(
                f"{signal.Signals(number).name}: finishing the {job.running:,} running rows "
                "first; once more to drop them."
            )

        def generate() -> None:
            # With a fallback, the back end is chosen at the first row.
            if done < scan.rows and command.load.fallback_backend is None and not scan.embeds:
                engine.load()
            progress.start()
            interrupts.first = finish
            job.run()
            if command.in_order and progress.done == progress.total:
                output.sort()

        return _generate(generate, progress, output, interrupts)


def _build_job(
    command: Command,
    scan: InputScan,
    engine: GenerationEngine,
    output: BatchOutput,
    progress: Progress,
) -> BatchJob:
    def rows() -> Iterator[tuple[int, JsonObject]]:
        for line in read_rows(scan, output.done):
            yield line.number, read_row(scan.path, line)

    written: list[tuple[bytes, GenerationResult]] = []

    def write(_: int, answer: bytes, result: GenerationResult) -> None:
        written.append((answer, result))

    def flush() -> None:
        if written:
            output.append(b"\n".join(answer for answer, _ in written))
        for _, result in written:
            progress.add(result.completion_tokens, failed=result.error is not None)
        written.clear()

    return BatchJob(
        engine,
        RowReader(command.options, command.input.parent, command.models, command.load.lora),
        rows,
        write,
        kinds=scan.kinds,
        duplicates=scan.duplicates,
        raw=command.raw,
        flush=flush,
    )


def _generate(
    generate: Callable[[], None],
    progress: Progress,
    output: BatchOutput,
    interrupts: Interrupts,
) -> int:
    """Generate until it ends for any reason; log the reason; return the exit code."""
    before = progress.done
    try:
        generate()
    except Interrupted:
        pass
    except EngineDiedError as error:
        progress.say(f"{error}")
        return _break_off(progress, output, started=True)
    except BackedgeError as error:
        progress.say(f"{error}")
        return _break_off(progress, output, started=progress.done > before)
    except Exception:  # noqa: BLE001 - an engine may raise anything; finished rows are kept
        progress.say(*traceback.format_exc().splitlines())
        return _break_off(progress, output, started=progress.done > before)
    progress.close()
    if interrupts.number is not None and progress.done < progress.total:
        progress.say(f"stopped; {output.path} has {progress.done:,} rows, and {GO_ON}.")
        return SIGNAL_EXIT_CODE + interrupts.number
    if progress.failed:
        progress.say(f"{progress.failed:,} of {progress.total:,} rows failed; see their `error`.")
        return SOME_FAILED
    return ALL_ROWS


def _break_off(progress: Progress, output: BatchOutput, *, started: bool) -> int:
    progress.close()
    if not started:
        progress.say("nothing was generated.")
        return NOTHING_STARTED
    progress.say(f"aborted; {output.path} has {progress.done:,} rows, and {GO_ON}.")
    return BROKEN_OFF


def _check_files(command: Command) -> None:
    exist = command.input.exists() and command.output.exists()
    if exist and command.output.samefile(command.input):
        raise SetupError(f"--output {command.output} is the input; name another file.")


def load_plugin(name: str) -> plugins.Plugin:
    """Load a plugin by name: one in the package, or PACKAGE.MODULE:CLASS.

    Raises `SetupError` if it does not exist or cannot be created without arguments.
    """
    place = SHIPPED_PLUGINS.get(name, name)
    if ":" not in place:
        raise SetupError(
            f"--plugin {name!r} is unknown; {suggest(name, SHIPPED_PLUGINS)} Or write "
            "PACKAGE.MODULE:CLASS for your own."
        )
    try:
        plugin: plugins.Plugin = pkgutil.resolve_name(place)()
    except Exception as error:
        raise SetupError(
            f"--plugin {name!r} cannot be created: {type(error).__name__}: {error}."
        ) from error
    return plugin


def _say(text: str) -> None:
    print_text(f"backedge.offline: {text}", err=True)
