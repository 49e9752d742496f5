"""What the pool sends arrives as it was."""

import pytest
from backedge.base.errors import ProtocolError
from backedge.postprocess import Chunk
from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.messages import ChoiceDelta, Delta, Usage, encode
from backedge.worker.pool import messages

from tests.support import params

REQUESTS = [
    messages.OpenRequest(
        1,
        encode(params(stop=["x"])),
        [1, 2],
        3,
        [2, 1],
        [1, 1],
        2,
        True,
    ),
    messages.Feed(1, Chunk(token_ids=[5], finish_reason="stop", logprobs=[-0.5]), 12.5, 0.25),
    messages.Flush(1),
    messages.Close(1),
]
ANSWERS = [
    messages.Ready(),
    messages.Progress(1, 4),
    messages.Result(
        1, 4, 5, ScheduledChunk(0, [5], [ChoiceDelta(0, Delta(content="a"))], usage=Usage(1, 2))
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


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        messages.encode(ANSWERS)[:-1],
        messages.encode(REQUESTS),
        messages.encode([["Progress", "1", 4]]),
        b"\x91" * 100_000,
    ],
    ids=["empty", "no list", "torn", "requests", "wrong types", "deep"],
)
def test_what_is_no_list_of_answers_is_refused(message):
    with pytest.raises(ProtocolError):
        messages.decode_answers(message)


def test_a_message_of_unlikely_length_is_refused(monkeypatch):
    monkeypatch.setattr(messages, "MAX_MESSAGE_BYTES", 10)
    with pytest.raises(ProtocolError, match="at most 10"):
        messages.decode_answers(messages.encode(ANSWERS))
