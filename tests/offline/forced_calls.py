"""Forced calls of a model with random weights: whether each is read, and its arguments are valid.

    python -m tests.offline.forced_calls [--engine hf] [--formats hermes glm45] [--schemas 20]

The example model gets random weights, and a token for each marker, so only the grammar makes its
answers calls. For each format of calls and each schema, rows have `tool_choice: required` or a
function's name, without a reasoning parser and with one: the format's own, else qwen3's. Each
answer is parsed as the back end does, and once more token by token. The table has the calls with
valid arguments, the calls made, the answers with reasoning, those whose stream differs, and those
that --tokens or another format's end cut. Engines run on the CPU here as elsewhere; run the module
once for each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from backedge.base.json_types import JsonObject
from backedge.guided.call_policy import read_reasoning_tags
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    TextGenerationRequest,
)
from backedge.parsers.base import ParserRequest
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.parser_lookup import reasoning_format
from backedge.postprocess import Chunk, PostprocessParams, postprocessor
from jsonschema import Draft202012Validator
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

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


# Markers that are one token.
TOKEN = re.compile(r"<[^<>\n=\"']+>|\[[A-Z_/]+\]")

# Checkpoints of these formats end a call and the answer with this token, this model with its own.
LAST = {"beam": "<|call|>", "openai": "<|call|>", "muse_glimmer": "<|eot|>"}
# SGLang ends every model's answer at these tokens, also in a thought. The example model has the
# markers of all formats, a real one those of its own format: token, format.
SGLANG_ENDS = {"<|content_model_end_sampling|>": "inkling", "<|ifm|im_end|>": "k2_horizon"}


class Row(msgspec.Struct):
    """The answers of a format.

    reasoned: have reasoning. unequal: are parsed to something else token by token. cut: by the
        limit of tokens. invalid: the answers that are not the calls that were asked for.
    """

    format: str
    engine: str
    calls: int = 0
    valid: int = 0
    reasoned: int = 0
    unequal: int = 0
    cut: int = 0
    invalid: list[str] = []

    def add(self, other: Row) -> None:
        """Count the answers of another format as well."""
        for field in ("calls", "valid", "reasoned", "unequal", "cut"):
            setattr(self, field, getattr(self, field) + getattr(other, field))


def list_markers(format_: Format) -> set[str]:
    """Return the markers of a format that are tokens."""
    markers = (marker.strip() for by_marker in format_.states.values() for marker in by_marker)
    return {marker for marker in markers if TOKEN.fullmatch(marker)}


def write_model(folder: Path) -> Path:
    """Return a copy of the example model with random weights, and a token for each marker."""
    shutil.copytree(TINY_MODEL, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    added = tokenizer["added_tokens"]
    known, size = {token["content"] for token in added}, max(token["id"] for token in added) + 1
    markers = sorted(set[str]().union(*map(list_markers, FORMATS)) - known)
    added += [
        {**added[-1], "id": number, "content": marker}
        for number, marker in enumerate(markers, size)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "config.json").read_text())
    old, config["vocab_size"] = config["vocab_size"], size + len(markers)
    (folder / "config.json").write_text(json.dumps(config))
    path, drawn = folder / "model.safetensors", np.random.default_rng(27)
    weights = {
        name: drawn.normal(
            0, 0.02, [config["vocab_size"] if length == old else length for length in values.shape]
        ).astype(values.dtype)
        for name, values in load_file(path).items()
    }
    save_file(weights, path, {"format": "pt"})
    return folder


ParsedText = tuple[str, str, list[tuple[str, str]]]


class Model:
    """The model's tokenizer, with the biases and parsers of rows."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._ids = self.tokenizer.get_vocab(with_added_tokens=True)

    def bias(self, name: str, reasoning: str | None) -> dict[int | str, float]:
        """Return what makes markers of a format their tokens, and ends reasoning soon.

        A model that spells them with other tokens is not understood, and random weights do.
        """
        tables = [f for f in FORMATS if name in (f.name, *f.aliases)]
        thoughts = reasoning_format(reasoning) if reasoning else None
        markers = set[str]().union(*map(list_markers, [*tables, *filter(None, [thoughts])]))
        spelt: dict[int | str, float] = {
            token: -30.0
            for text, token in self._ids.items()
            if any(marker != text and marker.startswith(text) for marker in markers)
        }
        tags = read_reasoning_tags(thoughts) if thoughts else None
        ends = {end.strip() for end in tags.ends} & self._ids.keys() if tags else ()
        return {**spelt, **{self._ids[end]: 4.0 for end in ends}}

    def stream(self, request: TextGenerationRequest, token_ids: Sequence[int]) -> ParsedText:
        """Return the answer's reasoning, content and calls, parsed token by token."""
        options = request.options or GenerationOptions()
        parser = ParserRequest(
            tools=list(request.tools or ()), tool_choice=request.tool_choice or "auto"
        )
        params = PostprocessParams(
            response_id="r", created=0, model="m", prompt_length=0, parser=parser
        )
        post = postprocessor(
            params,
            self.tokenizer,
            tool_call_parser=options.tool_call_parser,
            reasoning_parser=options.reasoning_parser,
        )
        if (end := LAST.get(options.tool_call_parser or "")) is not None:
            token_ids = [*token_ids[:-1], self._ids[end]]
        last = len(token_ids) - 1
        reasoning, content, calls = "", "", dict[int, list[str]]()
        for position, token in enumerate(token_ids):
            reason = "stop" if position == last else None
            for out in post.feed(Chunk(token_ids=[token], finish_reason=reason)):
                reasoning += out.delta.reasoning_content or ""
                content += out.delta.content or ""
                for call in out.delta.tool_calls:
                    known = calls.setdefault(call.index, [call.function.name or "", ""])
                    known[1] += call.function.arguments
        return reasoning, content, [(name, arguments) for name, arguments in calls.values()]


def ask(
    model: Model, engine: str, name: str, schema: JsonObject, seed: int, tokens: int
) -> Iterator[TextGenerationRequest]:
    """Yield the rows of a format and schema."""
    own = reasoning_format(name)
    tool = {"type": "function", "function": {"name": "do_it", "parameters": schema, "strict": True}}
    named = {"type": "function", "function": {"name": "do_it"}}
    choices: tuple[str | JsonObject, ...] = ("required", named)
    for choice, reasoning in itertools.product(choices, (None, name if own else "qwen3")):
        yield TextGenerationRequest(
            prompt="Go on.",
            tools=[tool, OTHER],
            tool_choice=choice,
            options=GenerationOptions(
                message=True,
                tool_call_parser=name,
                reasoning_parser=reasoning,
                max_new_tokens=tokens,
                # SGLang's CPU engine takes no seeds.
                seed=None if engine == "sglang" else seed,
                temperature=1,
                logit_bias=model.bias(name, reasoning),
            ),
        )


def accepts(schema: JsonObject, arguments: str) -> bool:
    """Return whether a schema accepts arguments. Bytes that are no character have no length."""
    validator = Draft202012Validator(schema)
    return any(
        validator.is_valid(json.loads(text))
        for text in (arguments, arguments.replace("\ufffd", ""))
    )


def ends_by_another_format(name: str, text: str) -> bool:
    """Whether SGLang has ended an answer of this format at another format's token."""
    return any(text.endswith(end) and name != own for end, own in SGLANG_ENDS.items())


def judge(
    model: Model,
    row: Row,
    label: str,
    schema: JsonObject,
    request: TextGenerationRequest,
    result: GenerationResult,
) -> None:
    """Count an answer."""
    if result.message is None:
        row.invalid.append(f"{label}: {result.error}")
        return
    if result.finish_reason == "length" or ends_by_another_format(row.format, result.raw_text):
        row.cut += 1
        return
    schemas = {"do_it": schema, "other": OTHER["function"]["parameters"]}
    message = result.message
    called = [(call.name, call.arguments) for call in message.tool_calls]
    whole = message.reasoning or "", message.content or "", called
    streamed = model.stream(request, result.token_ids)
    if row.format in LAST:
        whole = streamed  # the back end has not seen the marker
    reasoning, content, calls = whole
    row.calls += max(len(calls), 1)
    valid = sum(name in schemas and accepts(schemas[name], arguments) for name, arguments in calls)
    row.valid += valid
    if valid < max(len(calls), 1) or content.strip():
        row.invalid.append(f"{label}: {result.raw_text!r}")
    row.reasoned += bool(reasoning)
    if streamed != whole:
        row.unequal += 1
        row.invalid.append(f"{label}, streamed: {result.raw_text!r}: {streamed}")


def measure(
    engine: GenerationEngine, model: Model, names: Sequence[str], schemas: int, tokens: int
) -> Iterator[Row]:
    """Yield the row of each format."""
    backend = engine.config.backend
    for name in names:
        asked = [
            (label, schema, request)
            for seed, (label, schema) in enumerate([*SCHEMAS.items()][:schemas])
            for request in ask(model, backend, name, schema, seed, tokens)
        ]
        row = Row(name, backend)
        results = engine.generate_text_batch([request for *_, request in asked])
        for (label, schema, request), result in zip(asked, results, strict=True):
            judge(model, row, label, schema, request, result)
        yield row


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("hf", "vllm", "sglang"), default="hf")
    names = [format_.name for format_ in FORMATS if format_.parses_tools]
    parser.add_argument("--formats", nargs="+", choices=names, default=names, metavar="FORMAT")
    parser.add_argument("--schemas", type=int, default=len(SCHEMAS), help="the first of 20")
    parser.add_argument("--tokens", type=int, default=300, help="the limit of an answer")
    return parser.parse_args()


def main() -> None:
    """Print a line for each format as it ends, and the sum."""
    arguments = parse_arguments()
    os.environ.update(ENVIRONMENT)
    total = Row("all", arguments.engine)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_model(Path(temporary) / "model")
        config = ModelLoadConfig(
            folder, backend=arguments.engine, engine_args=ARGUMENTS[arguments.engine]
        )
        with GenerationEngine(config) as engine:
            options = arguments.formats, arguments.schemas, arguments.tokens
            for row in measure(engine, Model(folder), *options):
                show(row)
                total.add(row)
    show(total)


def show(row: Row) -> None:
    """Print a row, and the answers that are not what was asked for."""
    counts = f"reasoned {row.reasoned}, unequal {row.unequal}, cut {row.cut}"
    lines = [f"{row.format:24}{row.engine:8}{row.valid:5} of{row.calls:5}, {counts}", *row.invalid]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
