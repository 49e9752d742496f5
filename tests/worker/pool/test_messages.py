"""What the pool sends arrives as it was."""

import pytest
from backedge.postprocess import Chunk
from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.messages import ChoiceDelta, Delta, Usage
from backedge.worker.pool import messages

from tests.support import params

REQUESTS = [
    messages.OpenRequest(
        1, params(stop=["x"]), [1, 2], 3, [2, 1], [messages.DisableParser(0, 2, "slow")], True
    ),
    messages.Feed(1, Chunk(token_ids=[5], finish_reason="stop", logprobs=[-0.5]), 12.5, 0.25),
    messages.Flush(1),
    messages.Close(1),
]
ANSWERS = [
    messages.Ready(),
    messages.Progress(1, 4),
    messages.Result(
        1, 4, ScheduledChunk(0, [5], [ChoiceDelta(0, Delta(content="a"))], usage=Usage(1, 2))
    ),
    messages.Failure(1, "hermes", 4, "KeyError: 'x'", fatal=True),
]


@pytest.mark.parametrize(
    ("sent", "decode"),
    [(REQUESTS, messages.decode_requests), (ANSWERS, messages.decode_answers)],
    ids=["requests", "answers"],
)
def test_a_list_of_messages_survives_the_wire(sent, decode):
    assert decode(messages.encode(sent)) == sent
    assert decode(messages.encode([])) == []
