"""Selects the transcript that a preprocessed request gets."""

from __future__ import annotations

from dynamo.llm.exceptions import HttpError

from ...base.json_types import JsonObject
from ..transcripts import Recordings, UnknownPromptError


class RecordedOutputs:
    """Finds the output for a request in the form that Dynamo sends to a worker."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    def find(self, request: JsonObject) -> list[int]:
        """Return the tokens that remain to be generated for `request`.

        Raises Dynamo's HttpError 400 if no transcript has the prompt.
        """
        guided_decoding = (request.get("sampling_options") or {}).get("guided_decoding") or {}
        in_json = not guided_decoding.keys().isdisjoint(("json", "regex"))
        try:
            return self._recordings.find(request["token_ids"], in_json=in_json)
        except UnknownPromptError as error:
            raise HttpError(400, str(error)) from error
