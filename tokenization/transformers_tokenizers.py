"""Encodes with the tokenizers of transformers as they do, but by `PromptEncoder`.

Besides using the cache, that keeps the interpreter's lock for a shorter time: for a prompt of
200,000 tokens, transformers makes three lists, and the library below it 200,000 strings, which
held up all streams for 30 to 60 ms.
"""

from __future__ import annotations

from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .prompt_cache import PromptCache
from .prompt_encoder import PromptEncoder

# What decides how a text is encoded. A tokenizer whose class has one of its own may do anything.
METHODS = ("__call__", "_encode_plus", "_batch_encode_plus", "_call_one", "_switch_to_input_mode")
# Their classes pass the text on unchanged.
KNOWN_MODULES = ("transformers.tokenization_utils", "vllm.tokenizers.hf")
NO_ENCODER = "the model's tokenizer has a way of its own to encode texts"
SAMPLE = " Hello,\n\n world\t'S 1234 \u2581x \ufb01 e\u0301 \u4e16\u754c \U0001f642  "


def make_encoder(tokenizer: object, cache: PromptCache | None) -> PromptEncoder | None:
    """Return what gives the ids of `tokenizer(text, add_special_tokens=False)`.

    Returns None for a tokenizer that is not just transformers' shell of a `tokenizers.Tokenizer`.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.split_special_tokens:
        return None
    if any(_is_foreign(layer) for layer in type(tokenizer).__mro__):
        return None
    backend = tokenizer.backend_tokenizer
    # As transformers does with each text.
    backend.no_truncation()
    backend.no_padding()
    encoder = PromptEncoder(backend, cache)
    sample = SAMPLE.join(["", *tokenizer.all_special_tokens, ""])
    own = tokenizer(sample, add_special_tokens=False)["input_ids"]
    return encoder if encoder.encode_whole(sample) == own else None


def _is_foreign(layer: type) -> bool:
    """Whether a class has its own way to encode a text."""
    own = any(name in vars(layer) for name in METHODS)
    return own and not layer.__module__.startswith(KNOWN_MODULES)


def encode_with(tokenizer: PreTrainedTokenizerBase, encoder: PromptEncoder) -> None:
    """Have `tokenizer(text, add_special_tokens=False)` give the ids of `encoder`, and only these.

    Any other call, and any other method, stays what it was. As vLLM's own thread-safe tokenizers,
    it changes the class of this object: whoever has it already gets the new behaviour. The
    tokenizer must not be changed any more.
    """
    own_class: Any = type(tokenizer)

    class EncodingTokenizer(own_class):  # type: ignore[misc]  # known only now
        # transformers looks it up by its text, which vLLM and Dynamo have done thrice a request.
        eos_token_id = tokenizer.eos_token_id

        def __call__(self, text: object = None, *args: object, **options: object) -> Any:
            if isinstance(text, str) and not args and options == {"add_special_tokens": False}:
                return BatchEncoding({"input_ids": encoder.encode(text)})
            return super().__call__(text, *args, **options)

    EncodingTokenizer.__name__ = own_class.__name__
    tokenizer.__class__ = EncodingTokenizer
