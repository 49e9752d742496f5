"""Any engine with Dynamo's own interface, post-processed; here Dynamo's sample engine.

    python examples/any_engine.py --model-name examples/tiny_model --tool-call-parser hermes

tokenspeed_engine.py does the same with TokenSpeed.
"""

from __future__ import annotations

from backedge.worker.llm_engine import postprocessed, read_flags
from dynamo.common.backend.engine import LLMEngine
from dynamo.common.backend.run import run
from dynamo.common.backend.sample_engine import SampleLLMEngine
from dynamo.common.backend.worker import WorkerConfig


async def build(argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
    """Build the engine from its own flags, and Backedge's around it."""
    settings, rest = read_flags(argv)
    engine, config = await SampleLLMEngine.from_args(rest)
    return postprocessed(engine, config, settings), config


if __name__ == "__main__":
    run(SampleLLMEngine, engine_factory=build)
