"""An image job: a caption for each picture of a folder, without a server.

    python examples/image_job.py pictures --model Qwen/Qwen2.5-VL-3B-Instruct
    python examples/image_job.py pictures --model Qwen/Qwen2.5-VL-3B-Instruct --backend vllm

If a picture cannot be read, only that request fails. `--max-pixels` limits the size of pictures for
the model, and so their number of tokens.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    ModelLoadConfig,
    VlmGenerationRequest,
    VlmPreprocessOptions,
)

QUESTION = "Describe this picture in one sentence."
PIXELS = 768 * 768


def main() -> None:
    """Caption all files of the folder, in the order of their names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="hf", choices=("hf", "vllm", "sglang"))
    parser.add_argument("--max-pixels", type=int, default=PIXELS)
    parser.add_argument("--max-new-tokens", type=int, default=60)
    flags = parser.parse_args()

    requests = [
        VlmGenerationRequest(
            id=path.name,
            messages=[
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}
            ],
            image=path,
        )
        for path in sorted(flags.folder.iterdir())
    ]
    vlm = VlmPreprocessOptions(max_pixels=flags.max_pixels)
    options = GenerationOptions(max_new_tokens=flags.max_new_tokens, temperature=0, stop=["\n"])
    with GenerationEngine(ModelLoadConfig(flags.model, backend=flags.backend, vlm=vlm)) as engine:
        for result in engine.generate_vlm_batch(requests, options):
            if result.error is None:
                caption = " ".join(result.text.split())
                print(f"{result.id}: {caption} ({result.prompt_tokens} prompt tokens)")
            else:
                print(f"{result.id}: failed ({result.error.kind}): {result.error.message}")


if __name__ == "__main__":
    main()
