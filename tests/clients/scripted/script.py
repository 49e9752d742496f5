"""What the model writes: as the parsers read it, but neither spelt nor cut as its template does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.support import encode

CALLS = 5
CITIES = ("Paris", "Rome", "Oslo", "Lima", "Paris")
# The template writes one for each result of a tool.
[RESULT] = encode("<tool_response>")
[END] = encode("<|im_end|>")


def write_answer(number: int) -> str:
    """Return an answer: calls, and after them a text."""
    thought = f"<think>\nStep {number}: I compare what I know.\n</think>\n\n"
    if number == CALLS:
        return f"{thought}It is warmest in Paris."
    arguments = f'{{"city":"{CITIES[number]}"}}'
    # Up to the arguments, the grammar of a strict tool allows one spelling.
    call = f'{{"name": "get_weather", "arguments": {arguments}}}'
    return f"{thought}<tool_call>\n{call}\n</tool_call>"


def cut(text: str) -> list[int]:
    parts = re.findall(r"</?\w+>|[^<]{1,3}|<", text)
    return [token_id for part in parts for token_id in encode(part)]


SCRIPT = [[*cut(write_answer(number)), END] for number in range(CALLS + 1)]


def next_token(prompt: Sequence[int], output: Sequence[int]) -> int:
    """Return the token that follows `output`."""
    script = SCRIPT[min(prompt.count(RESULT), CALLS)]
    return script[min(len(output), len(script) - 1)]
