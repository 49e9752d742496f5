"""Encodes with transformers' tokenizers and the same results, but through `PromptEncoder`.

This adds the cache and holds the interpreter lock for a shorter time: for a prompt of 200,000
tokens, transformers makes three lists, and the library below it 200,000 strings, which blocked
all streams for 30 to 60 ms.
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from .prompt_cache import PromptCache
from .prompt_encoder import PromptEncoder

# Modules whose classes pass a text on unchanged. A class of the model's own may do anything.
KNOWN_MODULES = ("builtins", "transformers.", "vllm.tokenizers.hf")
NO_ENCODER = "the model's tokenizer encodes texts in a way of its own"
SAMPLE = " Hello,\n\n world\t'S 1234 \u2581x \ufb01 e\u0301 \u4e16\u754c \U0001f642  "


def make_encoder(tokenizer: object, cache: PromptCache | None) -> PromptEncoder | None:
    """Return an encoder with the token ids of `tokenizer(text, add_special_tokens=False)`.

    Returns None for a tokenizer that is not just a wrapper of a `tokenizers.Tokenizer`. Otherwise
    the tokenizer must not be changed any more.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.split_special_tokens:
        return None
    if not all(layer.__module__.startswith(KNOWN_MODULES) for layer in type(tokenizer).__mro__):
        return None
    backend = tokenizer.backend_tokenizer
    # transformers does this for each text.
    backend.no_truncation()
    backend.no_padding()
    encoder = PromptEncoder(backend, cache)
    sample = SAMPLE.join(["", *tokenizer.all_special_tokens, ""])
    own = tokenizer(sample, add_special_tokens=False)["input_ids"]
    return encoder if encoder.encode_whole(sample) == own else None
