"""The cost of a grammar of calls: to build and compile it, and of a mask for each token.

    python -m benchmarks.grammars [--json] [--formats hermes glm45] [--sizes 1 10 100]

For each format and number of tools, each with eight parameters: the microseconds to build the
structural tag, its bytes, the milliseconds that xgrammar takes to compile it for the first time and
from its cache, and the median microseconds of a mask on the way through a call. The vocabulary
has the printable characters and --tokens words of them; a model's has more, so that compiling and
masks cost more with it. Below are xgrammar's own tag for the same model, where it has one, and with
vLLM installed the tag that Dynamo's frontend takes from the registry of vLLM's parsers. xgrammar
refuses some of these for the tools' schemas; then the row has its reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import statistics
import string
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import xgrammar
from backedge.base.json_types import JsonObject
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.structural_tag import build_tag

from tests.parsers.families import FAMILIES

SIZES = (1, 10, 100)
BUILTIN = {
    "hermes": "qwen_3",
    "qwen3_coder": "qwen_3_coder",
    "kimi_k2": "kimi",
    "kimi_k3": "kimi_k3",
    "deepseek_v31": "deepseek_v3_1",
    "deepseek_v32": "deepseek_v3_2",
    "deepseek_v4": "deepseek_v4",
    "minimax_m2": "minimax",
    "minimax_m3": "minimax_m3",
    "glm45": "glm_4_7",
    "llama3_json": "llama",
    "openai": "harmony",
}
PROPERTIES: JsonObject = {
    "path": {"type": "string"},
    "text": {"type": "string", "maxLength": 4096},
    "mode": {"enum": ["read", "write", "append"]},
    "count": {"type": "integer", "minimum": 0, "maximum": 1000},
    "ratio": {"type": "number"},
    "exact": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "filter": {"type": "object", "properties": {"k": {"type": ["string", "null"]}}},
}
ARGUMENTS = {"path": "a/b.txt", "text": "hello there", "mode": "write", "count": 3}
SCHEMA: JsonObject = {"type": "object", "properties": PROPERTIES, "required": ["path", "text"]}


class Row(msgspec.Struct):
    """One tag.

    cached_ms: to compile it again. mask_us: of one mask, the median of a call's.
    refused: why xgrammar does not compile it; then there are no times of what follows.
    """

    format: str
    tools: int
    source: str
    tag_bytes: int
    build_us: float
    first_ms: float = 0.0
    cached_ms: float = 0.0
    mask_us: float | None = None
    refused: str = ""


def measure(
    name: str, source: str, tools: int, build: Callable[[], Any], info: Any, text: str
) -> Row:
    """Return the costs of a tag. text: an answer, along which masks are made."""
    compiler = xgrammar.GrammarCompiler(info)
    build_ns, tag = clock(build)
    row = Row(name, tools, source, len(tag), build_ns / 1e3)
    try:
        first_ns, compiled = clock(lambda: compiler.compile_structural_tag(tag))
    except RuntimeError as error:
        row.refused = str(error).rpartition(" is false: ")[2]
        return row
    cached_ns, _ = clock(lambda: compiler.compile_structural_tag(tag))
    row.first_ms, row.cached_ms = first_ns / 1e6, cached_ns / 1e6
    if masks := list(time_masks(compiled, text, info.vocab_size)):
        row.mask_us = statistics.median(masks) / 1e3
    return row


def clock(run: Callable[[], Any]) -> tuple[int, Any]:
    """Return the nanoseconds that a function takes, and its result."""
    begin = time.perf_counter_ns()
    result = run()
    return time.perf_counter_ns() - begin, result


def time_masks(compiled: Any, text: str, size: int) -> Iterator[int]:
    """Yield the nanoseconds of the mask before each character; none after a refused one."""
    matcher, mask = xgrammar.GrammarMatcher(compiled), xgrammar.allocate_token_bitmask(1, size)
    for char in text:
        yield clock(lambda: matcher.fill_next_token_bitmask(mask))[0]
        if not matcher.accept_string(char):
            return


def build_vocabulary(tokens: int) -> Any:
    """Return a tokenizer's characters and words."""
    characters = [char for char in string.printable if char not in "\r\x0b\x0c"]
    words = ("".join(word) for word in itertools.product(string.ascii_lowercase, repeat=4))
    vocabulary = ["</s>", *characters, *itertools.islice(words, tokens)]
    return xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[0])


def list_sources(format_: Format, functions: Sequence[str]) -> dict[str, Callable[[], str]]:
    """Return what builds tags of a format for functions, by whose tags they are."""
    tools: list[Any] = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in functions
    ]

    def ours() -> str:
        return json.dumps(build_tag(format_, [(name, SCHEMA) for name in functions], forced=True))

    def xgrammars() -> str:
        tag = xgrammar.get_model_structural_tag(
            BUILTIN[format_.name], tools, "required", reasoning="disabled"
        )
        return str(tag.model_dump_json())

    sources = {"ours": ours, **({"xgrammar": xgrammars} if format_.name in BUILTIN else {})}
    dynamos = find_dynamos(FAMILIES[format_.name].vllm, tools)
    return {**sources, "Dynamo": dynamos} if dynamos is not None else sources


def find_dynamos(parser: str | None, tools: Sequence[Any]) -> Callable[[], str] | None:
    """Return what builds the tag of a parser of vLLM, as Dynamo's frontend does; None for none."""
    if parser is None or importlib.util.find_spec("vllm") is None:
        return None
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
    from vllm.tool_parsers import ToolParserManager
    from vllm.tool_parsers.structural_tag_registry import get_model_structural_tag

    model = ToolParserManager.get_tool_parser(parser).structural_tag_model
    if model is None:
        return None
    declared = [ChatCompletionToolsParam.model_validate(tool) for tool in tools]

    def build() -> str:
        tag = get_model_structural_tag(
            model=model, tools=declared, tool_choice="required", reasoning=False
        )
        return str(tag.model_dump_json())

    return build


def measure_all(names: Sequence[str], sizes: Sequence[int], tokens: int) -> list[Row]:
    """Return the costs of our tags, and of xgrammar's own."""
    info = build_vocabulary(tokens)
    rows = []
    for format_, size in itertools.product(FORMATS, sizes):
        write = FAMILIES[format_.name].write if format_.name in FAMILIES else None
        if format_.spelling is None or write is None or (names and format_.name not in names):
            continue
        functions = [f"tool{number}" for number in range(size)]
        text = write("", [(functions[-1], ARGUMENTS)])

        sources = list_sources(format_, functions)
        for source, build in sources.items():
            rows.append(measure(format_.name, source, size, build, info, text))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    head = "format            tools  tag        bytes  build us  first ms  cached ms  mask us"
    lines = [
        f"{row.format:16}{row.tools:7}  {row.source:8}{row.tag_bytes:8}{row.build_us:10.0f}"
        + (f"  refused: {row.refused}" if row.refused else show_times(row))
        for row in rows
    ]
    return "\n".join([head, *lines])


def show_times(row: Row) -> str:
    """Return the columns of a tag that xgrammar compiles."""
    mask = "-" if row.mask_us is None else f"{row.mask_us:.1f}"
    return f"{row.first_ms:10.1f}{row.cached_ms:11.2f}{mask:>9}"


def main() -> None:
    """Print the table, or JSON."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grammars", description=description)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--formats", nargs="+", default=(), help="all by default")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of tools")
    parser.add_argument("--tokens", type=int, default=50_000, help="words of the vocabulary")
    arguments = parser.parse_args()
    rows = measure_all(arguments.formats, arguments.sizes, arguments.tokens)
    print(msgspec.json.encode(rows).decode() if arguments.json else table(rows))


if __name__ == "__main__":
    main()
