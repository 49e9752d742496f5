"""A sample of model output, and the texts that all samples share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backedge.base.json_types import JsonObject

ADD_NOTE: JsonObject = {
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
HARMONY_SPECIAL = (
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|return|>",
    "<|call|>",
)


@dataclass(frozen=True)
class Call:
    """A tool call. arguments: a JSON value, or the raw text if it is not JSON."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Outcome:
    """One answer as the client gets it, the sum of its deltas."""

    reasoning: str | None = None
    content: str | None = None
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Sample:
    """One answer of a model, in its family's own syntax.

    output: the text, markers included, without the token that ends the turn.
    expected: the answer as the client should get it.
    source: the file that the syntax was read from, below `vllm/`.
    markers, special: the family's single tokens; `skip_special_tokens` drops `special`.
    tokenizer: "bpe" for the example model's tokenizer with these markers; "tekken",
        "sentencepiece", "harmony" or "hunyuan" if a parser needs that one.
    needs: a module that vLLM imports for this parser and that its wheels may lack.
    architecture: `model_type` of the model's config, if the parser reads it.
    """

    output: str
    expected: Outcome
    source: str
    markers: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    tools: tuple[JsonObject, ...] = ()
    prompt: str = PROMPT
    tokenizer: str = "bpe"
    chat_template_kwargs: JsonObject = field(default_factory=dict)
    needs: str | None = None
    architecture: str | None = None
