"""CPU time of a token in the parser of `vllm serve`: ours beside vLLM's own, in one process.

    python -m benchmarks.server_parsers

One call with a long string argument, a token a delta, as the server feeds its parser. vLLM's parser
gets the text that its detokenizer has made; ours makes it from the ids, which is part of its time.
The server's own work (its detokenizer, JSON, HTTP) is in neither.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from backedge.engines.vllm.serve import find_parser
from transformers import AutoTokenizer
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser import ParserManager

from tools.stack import TINY_MODEL

NAMES = ("hermes", "qwen3_coder")
LENGTHS = (100, 1_000, 16_000)
ROUNDS = 3
TOOL = {
    "type": "function",
    "function": {
        "name": "write",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
}
CALLS = {
    "hermes": (
        '<tool_call>\n{"name": "write", "arguments": {"text": "',
        '"}}\n</tool_call>',
    ),
    "qwen3_coder": (
        "<tool_call>\n<function=write>\n<parameter=text>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
}


def load(name: str, tokenizer: Any) -> Callable[..., Any]:
    """Return a server's class of parsers, which has been loaded if it is ours."""
    if not name.startswith("backedge_"):
        found: Callable[..., Any] = ParserManager.get_parser(name, enable_auto_tools=True)
        return found
    served = find_parser(tool_parser_name=name, enable_auto_tools=True)
    config = SimpleNamespace(
        tokenizer=str(TINY_MODEL), tokenizer_revision=None, try_get_generation_config=dict
    )
    served.model.load(tokenizer, config)
    return served


def measure(parsers: Callable[..., Any], tokenizer: Any, ids: list[int]) -> float:
    """Return the CPU time of a token in microseconds."""
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "Hi"}], tools=[TOOL])
    texts = [tokenizer.decode([token]) for token in ids]
    parser = parsers(tokenizer, request.tools)
    arguments = []
    began = time.process_time()
    for at, (token, text) in enumerate(zip(ids, texts, strict=True), 1):
        delta = parser.parse_delta(text, [token], request, [], finished=at == len(ids))
        if delta is not None:
            arguments += [call.function.arguments or "" for call in delta.tool_calls]
    spent = time.process_time() - began
    if len("".join(arguments)) < len(ids) // 2:
        raise RuntimeError("the call was not read")
    return spent * 1e6 / len(ids)


def main() -> None:
    """Print a table: the median of some rounds, both parsers in turn in each."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    print("| parser | tokens | vLLM's, us per token | ours |\n|---|---|---|---|")
    for name in NAMES:
        before, after = (tokenizer.encode(part) for part in CALLS[name])
        word = tokenizer.encode(" word")
        classes = [load(each, tokenizer) for each in (name, f"backedge_{name}")]
        for length in LENGTHS:
            ids = before + word * (length // len(word)) + after
            rounds = [[measure(each, tokenizer, ids) for each in classes] for _ in range(ROUNDS)]
            theirs, ours = map(statistics.median, zip(*rounds, strict=True))
            print(f"| `{name}` | {length:,} | {theirs:.1f} | {ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
