"""An engine behind Dynamo's interface that replays the example transcripts, post-processed.

python -m tests.e2e.contract_engine --model FOLDER --served-model-name NAME [Backedge's flags]
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from backedge.templates.chat_template import ModelPrompts
from backedge.testing.replay_worker.engine import ReplayEngine
from backedge.testing.replay_worker.outputs import RecordedOutputs
from backedge.testing.transcripts import EXAMPLES, Recordings, read_transcripts
from backedge.worker.llm_engine import postprocessed, read_flags
from dynamo.common.backend.engine import EngineConfig, LLMEngine, LlmRegistration
from dynamo.common.backend.run import run
from dynamo.common.backend.worker import WorkerConfig


class Transcripts(LLMEngine):
    """Answers with the transcript of a prompt."""

    def __init__(self, folder: Path, transcripts: Path) -> None:
        self.folder = folder
        self.files = ModelPrompts(folder)
        find = RecordedOutputs(Recordings(self.files, read_transcripts(transcripts)))
        self.engine = ReplayEngine(find.find, eos_token_ids=self.files.eos_token_ids)

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
        """Build the engine that the flags name, with post-processing."""
        settings, rest = read_flags(argv)
        parser = argparse.ArgumentParser(allow_abbrev=False)
        parser.add_argument("--model", type=Path, default=EXAMPLES / "tiny_model")
        parser.add_argument("--transcripts", type=Path, default=EXAMPLES / "transcripts")
        parser.add_argument("--served-model-name", default="tiny")
        parser.add_argument("--namespace", default="dynamo")
        flags = parser.parse_args(rest)
        config = WorkerConfig(
            namespace=flags.namespace,
            model_name=str(flags.model),
            served_model_name=flags.served_model_name,
            discovery_backend="file",
        )
        return postprocessed(cls(flags.model, flags.transcripts), config, settings), config

    async def start(self, worker_id: int) -> EngineConfig:
        """Return what Dynamo registers."""
        registration = LlmRegistration(
            context_length=self.files.context_length, kv_cache_block_size=32
        )
        return EngineConfig(model=str(self.folder), llm=registration)

    async def generate(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        """Yield the transcript's tokens, one by one."""
        async for output in self.engine.start(request, context).outputs():
            yield output

    async def cleanup(self) -> None:
        """Do nothing: there is nothing to release."""


if __name__ == "__main__":
    run(Transcripts)
