"""Which transcript's output a preprocessed request gets."""

from __future__ import annotations

from dynamo.llm.exceptions import HttpError

from ...base.json_types import JsonObject
from ..transcripts import Recordings, UnknownPromptError


class RecordedOutputs:
    """Finds the output of a request as Dynamo sends it to a worker."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    def find(self, request: JsonObject) -> list[int]:
        """Return the tokens that are still to be generated for `request`.

        Raises Dynamo's HttpError 400 for a prompt that no transcript has.
        """
        guided_decoding = (request.get("sampling_options") or {}).get("guided_decoding") or {}
        in_json = not guided_decoding.keys().isdisjoint(("json", "regex"))
        try:
            return self._recordings.find(request["token_ids"], in_json=in_json)
        except UnknownPromptError as error:
            raise HttpError(400, str(error)) from error
