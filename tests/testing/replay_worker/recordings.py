"""What the tests of the replay worker share: recordings, requests, and a context."""

import asyncio

from backedge.templates.chat_template import ModelPrompts
from backedge.testing.replay_worker.engine import ReplayEngine
from backedge.testing.replay_worker.outputs import RecordedOutputs
from backedge.testing.transcripts import EXAMPLES, Recordings, read_transcripts

from tests.support import TINY_MODEL, TRANSCRIPTS, encode

FILES = ModelPrompts(TINY_MODEL)
RECORDINGS = RecordedOutputs(Recordings(FILES, read_transcripts(EXAMPLES / "transcripts")))
COUNT = TRANSCRIPTS["cut_text"]
TOKENS = encode(COUNT["output"])


class Context:
    """stop_after: how often the client is still there."""

    def __init__(self, stop_after=10**6):
        self._asked, self._stop_after = 0, stop_after

    def id(self):
        return "request-1"

    def stop_generating(self):
        self._stop_after = 0

    def is_stopped(self):
        self._asked += 1
        return self._asked > self._stop_after


def prompt(transcript):
    variables = transcript.get("chat_template_kwargs", {})
    return FILES.encode(
        FILES.template.render(transcript["messages"], transcript.get("tools"), **variables)
    )


def request(transcript=COUNT, *, stop_conditions=None, **groups):
    return {"token_ids": prompt(transcript), "stop_conditions": stop_conditions or {}, **groups}


def replay(asked, context=None, end=(), **options):
    """Return the outputs. end: choices that are aborted after their first output."""

    async def run():
        engine = ReplayEngine(RECORDINGS.find, eos_token_ids=FILES.eos_token_ids, **options)
        running = engine.start(asked, context or Context())
        outputs = []
        async for output in running.outputs():
            outputs.append(output)
            if output["index"] in end:
                await running.abort(output["index"])
        return outputs

    return asyncio.run(run())


def tokens(outputs, index=0):
    return [
        token_id
        for output in outputs
        if output["index"] == index
        for token_id in output["token_ids"]
    ]
