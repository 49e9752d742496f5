"""Stop cases: of every kind, in texts that the example model knows by heart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from backedge.offline import TextGenerationRequest

from tests.offline.batches import request
from tests.support import TRANSCRIPTS, encode, tiny_tokenizer

# All without reasoning. The second has characters of several tokens each.
TEXTS = ("plain_text", "multilingual_text", "stop_string", "cut_text", "count")
MULTILINGUAL = "multilingual_text"


class StopCase(NamedTuple):
    """A row and its name. options: those that say when to stop."""

    name: str
    transcript: str
    options: dict[str, Any]

    @property
    def row(self) -> TextGenerationRequest:
        fields = {"stop": [], "max_new_tokens": None, **self.options}
        asked = request(TRANSCRIPTS[self.transcript], **fields)
        return TextGenerationRequest(id=self.name, messages=asked.messages, options=asked.options)


def pieces(name: str) -> list[str]:
    """Return the texts of the output's tokens; those of half a character are "\\ufffd"."""
    decode = tiny_tokenizer().decode
    return [decode([token_id]) for token_id in encode(text_of(name))]


def text_of(name: str) -> str:
    return str(TRANSCRIPTS[name]["output"].removesuffix("<|im_end|>"))


def kinds(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    text, tokens = text_of(name), encode(text_of(name))
    whole = [piece for piece in pieces(name) if "\ufffd" not in piece]
    half = len(text) // 2
    yield "none", {}
    yield "not_there", {"stop": ["zebra", "\n\n\n"]}
    yield "one_token", {"stop": [whole[3]]}
    yield "several_tokens", {"stop": [text[half - 6 : half + 6]]}
    yield "middle_of_tokens", {"stop": [text[half + 1 : half + 4]]}
    yield "one_character", {"stop": [text[half]]}
    yield "first_character", {"stop": [text[0]]}
    yield "all_of_it", {"stop": [text]}
    yield "several_at_once", {"stop": [text[half : half + 5], text[half - 2 : half + 1], "zebra"]}
    yield "tie", {"stop": [text[half - 4 : half], text[half - 2 : half]]}
    # The prompt ends in the first part of it.
    yield "in_the_prompts_tail", {"stop": ["\n\n" + text[:3], "</think>", "assistant"]}
    yield "included", {"stop": [text[half - 3 : half + 2]], "include_stop": True}
    yield "stop_token", {"stop_token_ids": [tokens[len(tokens) // 2]]}
    yield (
        "stop_token_included",
        {
            "stop_token_ids": [tokens[len(tokens) // 2]],
            "include_stop": True,
        },
    )
    yield "special_token", {"stop": ["<|im_end|>"]}
    yield "limit_before_stop", {"stop": [text[-2:]], "max_new_tokens": 5}


CASES = [
    StopCase(f"{name}-{kind}", name, options) for name in TEXTS for kind, options in kinds(name)
]
for number, stop in enumerate(("你", "世界", "👋", "\U0001f3fd", "üß", "ç", "。こ", "ん")):
    CASES.append(StopCase(f"inside_a_character-{number}", MULTILINGUAL, {"stop": [stop]}))
