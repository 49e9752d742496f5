"""A text job: answers to a list of questions, without a server, each as soon as it is done.

    python examples/text_job.py                                   # recorded answers, no model
    python examples/text_job.py --backend hf --model Qwen/Qwen3-0.6B
    python examples/text_job.py --backend vllm --model Qwen/Qwen3-8B

For a whole file of conversations use `python -m backedge.offline`, which can resume after an
interruption.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
)

TINY_MODEL = Path(__file__).parent / "tiny_model"
QUESTIONS = ["Say hello.", "Greet the world.", "List the letters."]
# The text ends before the first of these strings, with every back end.
STOPS = [", epsilon", "\n\n"]


def main() -> None:
    """Ask all questions and print the answers in the order of their completion."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="replay", choices=("replay", "hf", "vllm", "sglang"))
    parser.add_argument("--model", default=str(TINY_MODEL))
    flags = parser.parse_args()

    requests = [
        TextGenerationRequest(id=question, messages=[{"role": "user", "content": question}])
        for question in QUESTIONS
    ]
    options = GenerationOptions(max_new_tokens=200, temperature=0, stop=STOPS)
    with GenerationEngine(ModelLoadConfig(flags.model, backend=flags.backend)) as engine:
        for _, result in engine.iterate_text_batch(requests, options):
            if result.error is not None:
                print(f"{result.id}\n  failed: {result.error.message}")
                continue
            print(f"{result.id}\n  {result.text}")
            print(f"  {result.completion_tokens} tokens, {result.finish_reason}", end="")
            print(f" at {result.stop_reason!r}" if result.stop_reason else "")


if __name__ == "__main__":
    main()
