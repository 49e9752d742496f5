"""Encodes with transformers' tokenizers and the same results, but through `PromptEncoder`.

This adds the cache and holds the interpreter lock for a shorter time: for a prompt of 200,000
tokens, transformers makes three lists, and the library below it 200,000 strings, which blocked
all streams for 30 to 60 ms.
"""

from __future__ import annotations

from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .prompt_cache import PromptCache
from .prompt_encoder import PromptEncoder

# Methods that determine how a text is encoded. A class that overrides one may do anything.
METHODS = ("__call__", "_encode_plus", "_batch_encode_plus", "_call_one", "_switch_to_input_mode")
# Classes that pass the text on unchanged.
KNOWN_MODULES = ("transformers.tokenization_utils", "vllm.tokenizers.hf")
NO_ENCODER = "the model's tokenizer encodes texts in a way of its own"
SAMPLE = " Hello,\n\n world\t'S 1234 \u2581x \ufb01 e\u0301 \u4e16\u754c \U0001f642  "


def make_encoder(tokenizer: object, cache: PromptCache | None) -> PromptEncoder | None:
    """Return an encoder equal to `tokenizer(text, add_special_tokens=False)`.

    None if the tokenizer does more than wrap a `tokenizers.Tokenizer`.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.split_special_tokens:
        return None
    if any(_is_foreign(layer) for layer in type(tokenizer).__mro__):
        return None
    backend = tokenizer.backend_tokenizer
    # transformers does this for each text.
    backend.no_truncation()
    backend.no_padding()
    encoder = PromptEncoder(backend, cache)
    sample = SAMPLE.join(["", *tokenizer.all_special_tokens, ""])
    own = tokenizer(sample, add_special_tokens=False)["input_ids"]
    return encoder if encoder.encode_whole(sample) == own else None


def _is_foreign(layer: type) -> bool:
    """Whether a class encodes texts in a way of its own."""
    own = any(name in vars(layer) for name in METHODS)
    return own and not layer.__module__.startswith(KNOWN_MODULES)


def encode_with(tokenizer: PreTrainedTokenizerBase, encoder: PromptEncoder) -> None:
    """Make `tokenizer(text, add_special_tokens=False)` return only the ids of `encoder`.

    All other calls and methods are unchanged. Like vLLM's own thread-safe tokenizers, this
    changes the class of the object, so all its users get the new behaviour. The tokenizer must
    not be changed afterwards.
    """
    own_class: Any = type(tokenizer)

    class EncodingTokenizer(own_class):  # type: ignore[misc]  # known only now
        # transformers looks this up by its text, three times a request for vLLM and Dynamo.
        eos_token_id = tokenizer.eos_token_id

        def __call__(self, text: object = None, *args: object, **options: object) -> Any:
            if isinstance(text, str) and not args and options == {"add_special_tokens": False}:
                return BatchEncoding({"input_ids": encoder.encode(text)})
            return super().__call__(text, *args, **options)

    EncodingTokenizer.__name__ = own_class.__name__
    tokenizer.__class__ = EncodingTokenizer
