"""Forced calls of a model with random weights: whether each is read, and its arguments are valid.

    python -m benchmarks.forced_calls [--engine hf] [--formats hermes glm45] [--schemas 20] [--json]

The example model gets random weights, so only the grammar makes its answers calls. Formats whose
markers must be tokens are left out, since this model spells them with others. For each format
of calls and each schema, one row has `tool_choice: required` and one a function's name. The table
has the calls with valid arguments, the calls made, and the answers that --tokens cut. Engines run
on the CPU here as elsewhere; run the module once for each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from backedge.base.errors import UnusableParserError
from backedge.base.json_types import JsonObject
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    TextGenerationRequest,
)
from backedge.parsers.formats.catalog import FORMATS
from jsonschema import Draft202012Validator
from safetensors.numpy import load_file, save_file

from tests.e2e.offline_batch import ARGUMENTS, ENVIRONMENT
from tests.support import TINY_MODEL

WORD: JsonObject = {"type": "string", "maxLength": 12}
SMALL: JsonObject = {"type": "integer", "minimum": -9, "maximum": 99}
LEVEL: JsonObject = {"enum": ["low", "high", 'it\'s "so"']}


def declare(*required: str, **properties: Any) -> JsonObject:
    """Return the schema of an object without other members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


POINT = declare("x", "y", x=SMALL, y=SMALL)
SCHEMAS: dict[str, JsonObject] = {
    "no parameters": declare(),
    "a string": declare("text", text=WORD),
    "an optional string": declare(text=WORD),
    "two strings": declare("path", "text", path=WORD, text=WORD),
    "a string with a least length": declare("s", s={"type": "string", "minLength": 3, **WORD}),
    "an enum": declare("level", level=LEVEL),
    "an enum of several types": declare("value", value={"enum": ["1", 1, True, None, 2.5]}),
    "a constant": declare("kind", kind={"const": "circle"}),
    "a pattern": declare("code", code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}),
    "a date": declare("day", day={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
    "an integer with limits": declare("n", n=SMALL),
    "a number with limits": declare("r", r={"type": "number", "minimum": 0, "maximum": 1}),
    "a boolean": declare("exact", exact={"type": "boolean"}),
    "a union": declare("value", value={"anyOf": [SMALL, WORD, {"type": "null"}]}),
    "types": declare("value", value={"type": ["boolean", "null"]}),
    "an object": declare("at", at=POINT),
    "nested objects": declare("a", a=declare("b", b=declare("c", c=POINT, d=LEVEL))),
    "an array": declare("tags", tags={"type": "array", "items": LEVEL, "maxItems": 3}),
    "an array of objects": declare(
        "points", points={"type": "array", "items": POINT, "minItems": 1, "maxItems": 2}
    ),
    "all at once": declare(
        *("path", "level", "at"),
        path=WORD,
        level=LEVEL,
        n=SMALL,
        at=POINT,
        exact={"type": "boolean"},
    ),
}
OTHER: JsonObject = {
    "type": "function",
    "function": {"name": "other", "parameters": declare("n", n=SMALL)},
}


class Row(msgspec.Struct):
    """The answers of a format.

    cut: by the limit of tokens. left_out: the markers must be tokens. invalid: the answers that are
        not the calls that were asked for.
    """

    format: str
    engine: str
    calls: int = 0
    valid: int = 0
    cut: int = 0
    left_out: bool = False
    invalid: list[str] = []


def write_model(folder: Path) -> Path:
    """Return a copy of the example model with random weights, and without tokens for markers."""
    shutil.copytree(TINY_MODEL, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        if not token["special"]:
            token["content"] = f"<unused {token['id']}>"
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    path, drawn = folder / "model.safetensors", np.random.default_rng(27)
    weights = {
        name: drawn.normal(0, 0.02, values.shape).astype(values.dtype)
        for name, values in load_file(path).items()
    }
    save_file(weights, path, {"format": "pt"})
    return folder


def ask(name: str, schema: JsonObject, seed: int, tokens: int) -> Iterator[TextGenerationRequest]:
    """Yield the rows of a format and schema."""
    tool = {"type": "function", "function": {"name": "do_it", "parameters": schema, "strict": True}}
    named = {"type": "function", "function": {"name": "do_it"}}
    for choice in ("required", named):
        yield TextGenerationRequest(
            messages=[{"role": "user", "content": "Go on."}],
            tools=[tool, OTHER],
            tool_choice=choice,
            options=GenerationOptions(
                message=True, tool_call_parser=name, max_new_tokens=tokens, seed=seed, temperature=1
            ),
        )


def accepts(schema: JsonObject, arguments: str) -> bool:
    """Return whether a schema accepts arguments. Bytes that are no character have no length."""
    validator = Draft202012Validator(schema)
    return any(
        validator.is_valid(json.loads(text))
        for text in (arguments, arguments.replace("\ufffd", ""))
    )


def judge(row: Row, label: str, schema: JsonObject, result: GenerationResult) -> None:
    """Count an answer."""
    if result.message is None:
        row.invalid.append(f"{label}: {result.error}")
        return
    if result.finish_reason == "length":
        row.cut += 1
        return
    schemas = {"do_it": schema, "other": OTHER["function"]["parameters"]}
    calls = result.message.tool_calls
    row.calls += max(len(calls), 1)
    valid = sum(
        call.name in schemas and accepts(schemas[call.name], call.arguments) for call in calls
    )
    row.valid += valid
    if valid < max(len(calls), 1) or (result.message.content or "").strip():
        row.invalid.append(f"{label}: {result.raw_text!r}")


def measure(
    engine: GenerationEngine, backend: str, names: Sequence[str], schemas: int, tokens: int
) -> Iterator[Row]:
    """Yield the row of each format."""
    for name in names:
        asked = [
            (label, schema, request)
            for seed, (label, schema) in enumerate([*SCHEMAS.items()][:schemas])
            for request in ask(name, schema, seed, tokens)
        ]
        row = Row(name, backend)
        try:
            results = engine.generate_text_batch([request for *_, request in asked])
        except UnusableParserError:
            yield Row(name, backend, left_out=True)
            continue
        for (label, schema, _), result in zip(asked, results, strict=True):
            judge(row, label, schema, result)
        yield row


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("hf", "vllm", "sglang"), default="hf")
    names = [format_.name for format_ in FORMATS if format_.parses_tools]
    parser.add_argument("--formats", nargs="+", choices=names, default=names, metavar="FORMAT")
    parser.add_argument("--schemas", type=int, default=len(SCHEMAS), help="the first of 20")
    parser.add_argument("--tokens", type=int, default=300, help="the limit of an answer")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Print a line for each format as it ends, and the sum."""
    arguments = parse_arguments()
    os.environ.update(ENVIRONMENT)
    total = Row("all", arguments.engine)
    with tempfile.TemporaryDirectory() as folder:
        config = ModelLoadConfig(
            write_model(Path(folder) / "model"),
            backend=arguments.engine,
            engine_args=ARGUMENTS[arguments.engine],
        )
        with GenerationEngine(config) as engine:
            options = arguments.formats, arguments.schemas, arguments.tokens
            for row in measure(engine, arguments.engine, *options):
                show(row, as_json=arguments.json)
                total.calls += row.calls
                total.valid += row.valid
                total.cut += row.cut
    show(total, as_json=arguments.json)


def show(row: Row, *, as_json: bool) -> None:
    """Print a row, and the answers that are not what was asked for."""
    if as_json:
        print(msgspec.json.encode(row).decode(), flush=True)
        return
    if row.left_out:
        print(f"{row.format:24}{row.engine:8}left out", flush=True)
        return
    print(f"{row.format:24}{row.engine:8}{row.valid:5} of{row.calls:5}, cut {row.cut}", flush=True)
    for answer in row.invalid:
        print(f"    {answer}")


if __name__ == "__main__":
    main()
