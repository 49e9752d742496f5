"""What the model writes at its first attempt, in Hermes' format."""

from __future__ import annotations

from tests.support import encode

FIRST_SEED = 7000
# Outputs with one slip each, and why their call is generated again.
SLIPS = {
    'I look.</think>\n<tool_call>\n{"name": "get_weather", "arguments": {"place": "Rome"}}\n'
    "</tool_call>": "missing_parameter",
    '<tool_call>\n{"name": "get_whether", "arguments": {"city": "Rome"}}\n</tool_call>': (
        "undeclared_function"
    ),
    '</think>Hm.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"]}\n'
    "</tool_call>": "invalid_json",
    '</think><tool_call>\n{"name": "get_weather", "arguments": {"city": ': "unfinished",
    '</think><tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": "3"}}\n'
    "</tool_call>": "schema",
}
# The first of its calls is right.
TWO = (
    '</think>Two.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n'
    '</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
)
RIGHT = (
    '</think>Good.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n'
    "</tool_call>"
)
TEXT = "</think>Calls begin with <tool_call>, I think."
OUTPUTS = (*SLIPS, TWO, RIGHT, TEXT)
# The beginning of a call, which the model then goes on with as it likes; for each of these seeds.
BEGINNING = '</think><tool_call>\n{"name": "get_weather", "arguments": {"city": "'
BEGINNING_SEEDS = range(FIRST_SEED + len(OUTPUTS), FIRST_SEED + len(OUTPUTS) + 12)


def find_script(seed: int | None) -> list[int] | None:
    """Return the tokens that a request with this seed writes; None: what it likes."""
    number = -1 if seed is None else seed - FIRST_SEED
    return encode(OUTPUTS[number] + "<|im_end|>") if 0 <= number < len(OUTPUTS) else None
