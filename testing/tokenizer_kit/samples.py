"""Texts for the checks, all in Unicode NFC, because a tokenizer may normalize to it."""

from __future__ import annotations

MULTILINGUAL = (
    "Grüße aus Köln, naïve café",
    "Съешь же ещё этих мягких французских булок",
    "我能吞下玻璃而不伤身体。",
    "いろはにほへと ちりぬるを",
    "다람쥐 헌 쳇바퀴에 타고파",
    "نص حكيم له سر قاطع",
    "עטלף אבק נס דרך מזגן",
    "ऋषियों को सताने वाले दुष्ट राक्षसों",
    "นายสังฆภัณฑ์ เฮงพิทักษ์ฝั่ง",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
)
EMOJI = ("😀", "ok 👍🏽!", "👩‍👩‍👧‍👦 and 🏳️‍🌈", "🇳🇴🇯🇵", "a😀b😀c")
CODE = (
    'def f(x: int) -> str:\n    """Doc."""\n\treturn f"{x!r:>10}"\n',
    '{"a": [1, 2.5e-3, null], "b": "\\n\\u00e9"}',
    "for (int i = 0; i < n; ++i) { a[i] <<= 2; }\r\n",
    "  two  spaces, three   and a tab\t.",
)
# Text that a template may produce, whether or not the tokenizer has it as tokens.
MARKERS = (
    "<s>",
    "</s>",
    "<|im_start|>user\n",
    "<think>",
    "</think>",
    "[INST]",
    "<tool_call>{}</tool_call>",
)
# One byte per character, so only the streaming itself is tested.
STREAM = ("one two three", "", "four, five (6)", "seven\neight", "nine nine nine", "ten")
OTHER_STREAM = ("alpha", "beta gamma", "delta", "", "epsilon; zeta")
LONG_CHARACTERS = 200_000
# Each line has more than 25 characters.
LONG = "".join(f"Line {number}: the quick brown fox.\n" for number in range(LONG_CHARACTERS // 25))[
    :LONG_CHARACTERS
]
SHORT = "Hello, world. 1 + 1 = 2"
CONVERSATION = [
    {"role": "user", "content": "Name a prime number."},
    {"role": "assistant", "content": "Seven."},
    {"role": "user", "content": "And another one?"},
]
