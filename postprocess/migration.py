"""Continues a request that another worker started.

When a worker dies, Dynamo sends its request to another worker and appends the tokens generated so
far to the prompt. The client already has their deltas, so these tokens only bring detokenizer,
stop strings and parser up to date; nothing is sent unless they end the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from .messages import ChoiceDelta, Chunk
from .postprocessor import Postprocessor


def resume(
    postprocessor: Postprocessor, token_ids: Sequence[int], index: int = 0
) -> list[ChoiceDelta]:
    """Feed tokens whose deltas the client already got from another process.

    Return no deltas unless the tokens end the choice: then its finish, which the client may not
    have got, or the whole answer if it is not streamed.
    Raises as `Postprocessor.feed`.
    """
    if not token_ids:
        return []
    postprocessor.usage_counter.resume(len(token_ids))
    deltas = postprocessor.feed(Chunk(index=index, token_ids=list(token_ids)))
    if not postprocessor.choices[index].finished:
        return []
    if not postprocessor.params.stream:
        return deltas
    last = deltas[-1]
    return [ChoiceDelta(index, finish_reason=last.finish_reason, stop_reason=last.stop_reason)]
