"""What a sample of model output is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ADD_NOTE: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add_note",
        "description": "Keep a note.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["text"],
        },
    },
}
NOTE = {"text": 'Olé, "Ann"!', "count": 3}
NOTE_JSON = r'{"text": "Olé, \"Ann\"!", "count": 3}'
LEAD = "I will note it."
THOUGHT = "17 plus 25, olé."
ANSWER = "The sum is 42."
PROMPT = "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class Call:
    """A tool call; arguments is a JSON value, or the raw text where that is no JSON."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Outcome:
    """What a client gets of one answer, all deltas added up."""

    reasoning: str | None = None
    content: str | None = None
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Sample:
    """One answer of a model, in its family's own syntax.

    output: with the text of the markers; the token that ends the turn is left out.
    source: the file of vLLM's that the syntax was read from, below `vllm/`.
    markers: what the family's tokenizers have as single tokens, special ones in
        `special` (`skip_special_tokens` leaves these out).
    tokenizer: "bpe" for the example model's with these markers; "tekken",
        "sentencepiece", "harmony" and "hunyuan" where a parser needs that one.
    needs: a module that vLLM imports for this parser and that its wheels may lack.
    architecture: `model_type` of the model's config, where the parser reads it.
    """

    output: str
    expected: Outcome
    source: str
    markers: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    prompt: str = PROMPT
    tokenizer: str = "bpe"
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    needs: str | None = None
    architecture: str | None = None
