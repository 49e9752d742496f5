"""Slips in front of a real engine, which generates a malformed call again, held to its grammar.

    python -m tests.slips.engines [--engine sglang] [--families hermes glm45] [--every 16]
        [--streams-calls]

For each format a real worker of vLLM or SGLang, behind our frontend, serves the example model with
the format's markers in its vocabulary. The model writes two calls with a slip, and at another
attempt prefers what it meant; the grammar decides. The table has what the official client gets.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai
from backedge.parsers.events import Event, ToolCallArguments, ToolCallStarted
from safetensors.numpy import load_file, save_file

from benchmarks.samples.tokenizers import encode
from tests.e2e.client import Client, Response
from tests.parsers.families.family import TURN, Family
from tests.slips.regeneration import Got, Model, sample
from tests.slips.scripts import FIRST_SEED, VARIABLE, Script
from tests.slips.slips import TOOLS, Slip
from tests.slips.systems import WRITERS
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, TINY_MODEL, Stack, StackError

EVERY = 16  # one of so many slips is tried
END = "<|im_end|>"
AT_ONCE = 16
MODES: dict[str, dict[str, Any]] = {
    "open": {"stream": False, "metadata": {"backedge": {"malformed_calls": "open"}}},
    "whole": {"stream": False},
    "streamed": {"stream": True},
}
FIELDS = {"nvext": {"extra_fields": ["malformed_calls", "discarded_tokens"]}}


def write_model(model: Model, folder: Path) -> Path:
    """Write the example model with a family's vocabulary and prompt, and return its folder."""
    shutil.copytree(TINY_MODEL, folder)
    model.tokenizer.save_pretrained(folder)
    prompt = model.family.prompt or TURN
    (folder / "chat_template.jinja").write_text("{{ " + json.dumps(prompt) + " }}")
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    rows = tensors["model.embed_tokens.weight"]
    size = max(len(rows), len(model.tokenizer))
    drawn = np.random.default_rng(0).normal(scale=0.02, size=(size - len(rows), rows.shape[1]))
    tensors["model.embed_tokens.weight"] = np.vstack([rows, drawn.astype(rows.dtype)])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config["vocab_size"] = size
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_scripts(model: Model, slips: Sequence[Slip], path: Path) -> Path:
    """Write what the model writes for each slip, and return the file."""
    path.write_text(json.dumps([build_script(model, slip) for slip in slips]))
    return path


def build_script(model: Model, slip: Slip) -> Script:
    """Return what the model writes: the slip, and the calls that are missing after it."""
    write = model.family.write
    assert write is not None
    end = encode(model.tokenizer, END)
    first = encode(model.tokenizer, slip.output)
    parser = model.parsers(model.request, model.prompt)
    texts = [write("", slip.calls[count:]) for count in range(len(slip.calls))]
    started, complete, outside, done, rest = 0, 0, 0, [], []
    events: list[Event] = []
    for count, token_id in enumerate(first, 1):
        events += parser.feed(model.read([token_id]), (token_id,))
        started = sum(isinstance(event, ToolCallStarted) for event in events)
        if parser.outside_calls:
            complete, outside = started, count
        begun, meant = model.read(first[outside:count]), texts[min(complete, len(texts) - 1)]
        left = find_rest(meant, begun, events if started > complete else ())
        done.append(complete)
        rest.append([*encode(model.tokenizer, left), *end] if left else [])
    return Script(
        first=[*first, *end],
        done=[*done, *(done[-1:] * len(end))],
        rest=[*rest, *([[]] * len(end))],
        again=[[*encode(model.tokenizer, text), *end] for text in texts],
    )


def find_rest(meant: str, begun: str, events: Sequence[Event]) -> str:
    """Return what is left of `meant`, of which `begun` is written; "" after a slip.

    events: of a call that has begun. Where the parser has read its arguments past the slip, their
    rest is left.
    """
    if begun and meant.startswith(begun):
        return meant.removeprefix(begun)
    starts = [each for each in events if isinstance(each, ToolCallStarted)]
    if not starts:
        return ""
    name, index = starts[-1].name, starts[-1].index
    own = (each for each in events if isinstance(each, ToolCallArguments) and each.index == index)
    arguments = "".join(each.text for each in own)
    place = meant.find("{", meant.find(name) + len(name))
    if not arguments or place < 0 or not meant.startswith(arguments, place):
        return ""
    return meant[place + len(arguments) :]


def is_open(client: Client) -> bool:
    """Whether Dynamo has opened its endpoint, which it does some time after it lists the model."""
    try:
        client.ask({"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1})
    except openai.NotFoundError:
        return False
    return True


def ask(client: Client, number: int, slip: Slip, mode: str) -> Got:
    """Return what a client gets of a slip."""
    request = {
        "messages": [{"role": "user", "content": "Go."}],
        "tools": TOOLS,
        "max_tokens": 700,
    }
    fields = {"seed": FIRST_SEED + number, "extra_body": FIELDS, "lenient": True, **MODES[mode]}
    try:
        response = client.ask(request, **fields)
    except openai.APIError as error:
        print(f"{slip.family} {mode} {slip.changes}: {error}", flush=True)  # noqa: T201 - a report
        return Got.LOST
    got = classify(response, slip)
    if got is Got.WRONG or (got is Got.LOST and mode != "open"):
        print(f"{slip.family} {mode} {got} {slip.changes}: {response.message}", flush=True)  # noqa: T201 - a report
    return got


def classify(response: Response, slip: Slip) -> Got:
    """Return what a client has got. A call that is open is none."""
    meant = [(name, arguments) for name, arguments in slip.calls]
    calls = [call for each in response.message["tool_calls"] if (call := read_call(each))]
    if calls == meant:
        return Got.RIGHT
    if any(call not in meant for call in calls):
        return Got.WRONG
    if calls:
        return Got.SOME
    shown = response.message["content"] or response.message["tool_calls"]
    return Got.TEXT if shown else Got.LOST


def read_call(call: dict[str, Any]) -> tuple[str, Any] | None:
    """Return a call's name and arguments; None if it is open."""
    try:
        return call["name"], json.loads(call["arguments"])
    except ValueError:
        return None


def start_worker(stack: Stack, engine: str, model: Path, flags: Sequence[str]) -> None:
    """Start the worker of an engine, whose model slips."""
    shared = ("--postprocess-malformed-calls", "regenerate", *flags)
    if engine == "sglang":
        own = ("--enable-custom-logit-processor", "--disable-overlap-schedule")
        module = "tests.slips.slipping_sglang"
        stack.sglang("--sglang-processing", *own, *shared, model=model, module=module)
    else:
        logits = ("--logits-processors", "tests.slips.slipping_vllm:Slipping")
        stack.worker("--vllm-processing", *logits, *shared, model=model)


def measure(
    family: Family, engine: str, every: int, flags: Sequence[str]
) -> dict[str, Counter[Got]]:
    """Return what a client gets of a family's slips in each mode."""
    model = Model(family, tuple(TOOLS))
    slips = list(sample(family, every))
    with tempfile.TemporaryDirectory(prefix="slips-") as name:
        folder = Path(name)
        scripts = write_scripts(model, slips, folder / "scripts.json")
        path = write_model(model, folder / "model")
        variables = {"PYTHONPATH": str(ROOT), VARIABLE: str(scripts)}
        with Stack(folder / "stack", **variables) as stack:
            names = {"tool-call": family.names.tool_call, "reasoning": family.names.reasoning}
            named = [part for kind, n in names.items() if n for part in (f"--{kind}-parser", n)]
            start_worker(stack, engine, path, [*named, *flags])
            frontend = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
            stack.wait_for_model(frontend)
            client = Client(frontend.url, "tiny")
            frontend.wait_for(lambda: is_open(client))
            with ThreadPoolExecutor(AT_ONCE) as pool:
                asked = {
                    mode: [pool.submit(ask, client, *each, mode) for each in enumerate(slips)]
                    for mode in MODES
                }
                return {
                    mode: Counter(each.result() for each in answers)
                    for mode, answers in asked.items()
                }


def list_rows(
    families: Sequence[Family], engine: str, every: int, flags: Sequence[str]
) -> Iterator[tuple[str, dict[str, Counter[Got]]]]:
    """Yield each family's counts, and their sum."""
    totals: dict[str, Counter[Got]] = {mode: Counter() for mode in MODES}
    for family in families:
        try:
            counts = measure(family, engine, every, flags)
        except StackError as error:
            print(f"{family.name}: {str(error).splitlines()[-1]}", flush=True)  # noqa: T201 - a report
            continue
        for mode, found in counts.items():
            totals[mode] += found
        yield family.name, counts
    yield "all", totals


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=("vllm", "sglang"), default="vllm")
    parser.add_argument("--families", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--every", type=int, default=EVERY, help="one of so many slips is tried")
    parser.add_argument("--streams-calls", action="store_true", help="arguments leave as written")
    arguments = parser.parse_args()
    flags = ("--postprocess-stream-calls", "arguments") if arguments.streams_calls else ()
    wanted = arguments.families or [family.name for family in WRITERS]
    # The vocabulary of gpt-oss is not in the form of a model's file here.
    families = [
        each for each in WRITERS if each.name in wanted and each.names.tool_call != "openai"
    ]
    print(f"{'':18}" + "".join(f"{mode:>50}" for mode in MODES))  # noqa: T201 - the table
    print(f"{'format':18}" + "".join(f"{got:>10}" for _ in MODES for got in Got))  # noqa: T201 - as above
    for name, counts in list_rows(families, arguments.engine, arguments.every, flags):
        cells = (f"{counts[mode][got]:>10,}" for mode in MODES for got in Got)
        print(f"{name:18}" + "".join(cells), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
