"""Going on where another worker stopped.

When a worker dies, Dynamo sends its request to another one, with the tokens generated so far
behind the prompt. The client has their deltas, so they bring detokenizer, stop strings and
parser up to date and send nothing, unless they end the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from .messages import ChoiceDelta, Chunk
from .postprocessor import Postprocessor


def resume(
    postprocessor: Postprocessor, token_ids: Sequence[int], index: int = 0
) -> list[ChoiceDelta]:
    """Feed tokens whose deltas the client has got from another process.

    Return nothing, unless the tokens end the choice: then its finish, which the client may not
    have got; without a stream the whole answer.
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
