"""Selects the transcript or the recording that a preprocessed request gets."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo.llm.exceptions import InvalidArgument

from ...base.json_types import JsonObject
from ...recording.recording import Recording
from ..transcripts import DecodesText, Recordings, UnknownPromptError


class RecordedOutputs:
    """Finds the output for a request in the form that Dynamo sends to a worker."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    def find(self, request: JsonObject) -> list[int]:
        """Return the tokens that remain to be generated for `request`.

        Raises Dynamo's InvalidArgument if no transcript has the prompt.
        """
        guided_decoding = (request.get("sampling_options") or {}).get("guided_decoding") or {}
        in_json = not guided_decoding.keys().isdisjoint(("json", "regex"))
        try:
            return self._recordings.find(request["token_ids"], in_json=in_json)
        except UnknownPromptError as error:
            raise InvalidArgument(str(error)) from None


class RecordedRequests:
    """Finds the tokens of a recorded request by the response id in the prompt's text."""

    def __init__(self, tokenizer: DecodesText, recordings: Iterable[Recording]) -> None:
        self._tokenizer = tokenizer
        self._known = {
            recording.params.response_id: [
                token_id
                for part in recording.chunks
                if part.chunk.index == 0
                for token_id in part.chunk.token_ids
            ]
            for recording in recordings
        }

    def find(self, request: JsonObject) -> list[int]:
        """Return the tokens that the recorded request's first choice generated.

        Raises Dynamo's InvalidArgument if the prompt names no recorded request.
        """
        text = self._tokenizer.decode(list(request["token_ids"]), skip_special_tokens=False)
        named = [name for name in self._known if name in text]
        if not named:
            raise InvalidArgument(
                f"There is no model here, only {len(self._known)} recorded requests, and the "
                "prompt names none of them; ask with `backedge replay FILE --url URL`."
            )
        return self._known[max(named, key=len)]
