"""mistral-common as a tokenizer: tekken or SentencePiece, with Mistral's own chat template.

    --tokenizer-module backedge.tokenization.mistral --tokenizer-class MistralTokenizer

For models with a tekken.json or a tokenizer.model.v* but without tokenizer.json. Prompts and text
equal those of vLLM with `--tokenizer-mode mistral`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from weakref import WeakValueDictionary

from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy, SpecialTokens
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer as MistralCommon
from mistral_common.tokens.tokenizers.tekken import is_tekkenizer
from mistral_common.tokens.tokenizers.utils import get_one_valid_tokenizer_file
from typing_extensions import override

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from .protocol import BaseTokenizer, TokenizerProtocol

# Special tokens that stay in the text, because parsers need them to find calls and reasoning.
# Source: vllm/tokenizers/mistral.py, convert_ids_to_tokens.
ALWAYS_SHOWN = (
    SpecialTokens.tool_calls,
    SpecialTokens.args,
    SpecialTokens.begin_think,
    SpecialTokens.end_think,
)
# The length of Mistral's own ids. Of a longer id, vLLM and this class keep the end.
TOOL_CALL_ID_CHARACTERS = 9
# Template arguments for other models.
ADDED_BY_DYNAMO = ("thinking", "enable_thinking", "thinking_mode")
TEXT_PARTS = ("text", "thinking")


class MistralTokenizer(BaseTokenizer, TokenizerProtocol):
    """Encodes, decodes and applies the template with mistral-common.

    model_path: a folder with a tokenizer file of mistral-common, or that file.
    Special tokens in a text are encoded as plain text, as always in mistral-common, so no
    message can fake one; only `tokenize` writes them.
    Raises FileNotFoundError for a folder without such a file.
    """

    thread_safe = True

    def __init__(self, model_path: str) -> None:
        self._loaded = load_file(tokenizer_file(Path(model_path)))
        self._mistral = self._loaded.mistral
        # The worker's detokenizer for tekken reads this attribute and the next.
        self.tokenizer = self._loaded.tokenizer
        self.is_tekken = bool(is_tekkenizer(self.tokenizer))
        self.all_special_ids = self._loaded.special_ids
        self.special_toks = [
            self.tokenizer.id_to_piece(token_id) for token_id in self.all_special_ids
        ]
        shown = {
            self.tokenizer.get_special_token(token)
            for token in ALWAYS_SHOWN
            if self.tokenizer.is_special(token)
        }
        self._special = frozenset(self.all_special_ids)
        self._hidden = self._special - shown

    @override
    def encode(self, text: str) -> list[int]:
        token_ids: list[int] = self.tokenizer.encode(text, bos=False, eos=False)
        return token_ids

    @override
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        # `ALWAYS_SHOWN` are never skipped.
        if self.is_tekken:
            return self.convert_tokens_to_string(
                self.convert_ids_to_tokens(token_ids, skip_special_tokens)
            )
        # Each run separately, as in vLLM: SentencePiece has no text for its control tokens.
        runs = groupby(self._shown(token_ids, skip_special_tokens), self._special.__contains__)
        return "".join(
            (self._join_pieces if special else self.tokenizer.decode)(list(run))
            for special, run in runs
        )

    @override
    def tokenize(
        self,
        messages: list[JsonObject],
        model: str = "",
        tools: list[JsonObject] | None = None,
        *,
        continue_final_message: bool = False,
        reasoning_effort: str | None = None,
        **template_kwargs: object,
    ) -> list[int]:
        """Return the prompt's token ids.

        continue_final_message: the last message is the beginning of the answer.
        reasoning_effort: ignored by tokenizers before version 15.
        template_kwargs: `ADDED_BY_DYNAMO`, and only beside a reasoning_effort.
        Raises `RequestError` for a part that is not text, and if mistral-common raises.
        """
        for name in template_kwargs:
            if reasoning_effort is None or name not in ADDED_BY_DYNAMO:
                why = "mistral-common has no such argument; set reasoning_effort"
                raise RequestError.unsupported(f"chat_template_kwargs.{name}", why)
        settings: JsonObject = {}
        if self._mistral.version.supports_model_settings:
            settings["reasoning_effort"] = reasoning_effort
        try:
            conversation = [
                _convert_message(position, message) for position, message in enumerate(messages)
            ]
            request = ChatCompletionRequest.from_openai(
                conversation, tools, continue_final_message, model=model, **settings
            )
            token_ids: list[int] = self._mistral.encode_chat_completion(request).tokens
        except RequestError:
            raise
        except Exception as error:
            # mistral-common rejects messages with its own errors, pydantic's, and AssertionErrors.
            raise RequestError.rejected(error, "mistral-common") from error
        return token_ids

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of the pieces' texts.

        Several parts of characters have the same text, U+FFFD; it gets the lowest id.
        """
        return {
            piece: token_id for token_id, piece in reversed(list(enumerate(self.tokenizer.vocab())))
        }

    def convert_ids_to_tokens(
        self, token_ids: Sequence[int], skip_special_tokens: bool = False
    ) -> list[bytes]:
        """Return tekken's pieces for the worker's detokenizer; they may be parts of characters."""
        shown = self._shown(token_ids, skip_special_tokens)
        return [
            self.tokenizer.id_to_byte_piece(token_id, SpecialTokenPolicy.KEEP) for token_id in shown
        ]

    def convert_tokens_to_string(self, tokens: Sequence[bytes]) -> str:
        """Return the text of tekken's pieces, with U+FFFD for invalid bytes."""
        return b"".join(tokens).decode("utf-8", "replace")

    def _shown(self, token_ids: Sequence[int], skip_special_tokens: bool) -> Sequence[int]:
        if not skip_special_tokens:
            return token_ids
        return [token_id for token_id in token_ids if token_id not in self._hidden]

    def _join_pieces(self, token_ids: list[int]) -> str:
        return "".join(map(self.tokenizer.id_to_piece, token_ids))


class LoadedFile:
    """The data that all tokenizers of a file share; it takes seconds to read."""

    def __init__(self, path: Path) -> None:
        self.mistral = MistralCommon.from_file(path, mode=ValidationMode.test)
        self.tokenizer = self.mistral.instruct_tokenizer.tokenizer
        self.special_ids = [
            token_id
            for token_id in range(self.tokenizer.n_words)
            if self.tokenizer.is_special(token_id)
        ]


def load_file(path: Path) -> LoadedFile:
    """Read a file once while any tokenizer uses it; return its content."""
    with _loading:
        loaded = _loaded.get(path)
        if loaded is None:
            loaded = _loaded[path] = LoadedFile(path)
        return loaded


_loading = threading.Lock()
_loaded: WeakValueDictionary[Path, LoadedFile] = WeakValueDictionary()


def tokenizer_file(path: Path) -> Path:
    """Return the tokenizer file of a model's folder. Raises FileNotFoundError."""
    if path.is_file():
        return path
    try:
        name: str = get_one_valid_tokenizer_file([file.name for file in path.iterdir()])
    except ValueError as error:
        raise FileNotFoundError(f"{path} has neither tekken.json nor tokenizer.model.v*") from error
    return path / name


def _convert_message(position: int, message: JsonObject) -> JsonObject:
    """Return `message` with ids that Mistral's template accepts.

    Raises `RequestError` for a part that is not text.
    """
    content = message.get("content")
    for number, part in enumerate(content if isinstance(content, list) else []):
        kind = part.get("type") if isinstance(part, dict) else None
        # mistral-common would load an image from any URL that the client gives.
        if kind not in TEXT_PARTS:
            allowed = " or ".join(TEXT_PARTS) + " (media need --tokenizer-backend vllm)"
            raise RequestError.wrong(f"messages[{position}].content[{number}].type", kind, allowed)
    changed = dict(message)
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "id": _shorten_id(call["id"])} for call in message["tool_calls"]
        ]
    if "tool_call_id" in message:
        changed["tool_call_id"] = _shorten_id(message["tool_call_id"])
    return changed


def _shorten_id(tool_call_id: str) -> str:
    return tool_call_id[-TOOL_CALL_ID_CHARACTERS:]
