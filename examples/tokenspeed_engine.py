"""TokenSpeed's engine by Dynamo's own interface, post-processed; it needs a GPU.

python examples/tokenspeed_engine.py MODEL --tool-call-parser hermes --reasoning-parser qwen3
"""

from __future__ import annotations

from backedge.worker.llm_engine import postprocessed, read_flags
from dynamo.common.backend.engine import LLMEngine
from dynamo.common.backend.run import run
from dynamo.common.backend.worker import WorkerConfig
from dynamo.tokenspeed.llm_engine import TokenspeedLLMEngine


async def build(argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
    """Build the engine from its own flags, and Backedge's around it."""
    settings, rest = read_flags(argv)
    engine, config = await TokenspeedLLMEngine.from_args(rest)
    return postprocessed(engine, config, settings), config


if __name__ == "__main__":
    run(TokenspeedLLMEngine, engine_factory=build)
