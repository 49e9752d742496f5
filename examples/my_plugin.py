"""Your own plugin: answers of one sentence.

    python examples/my_plugin.py
    PYTHONPATH=examples python -m backedge.offline --plugin my_plugin:OneSentence ...

A plugin reads each answer's clean text while it is generated, so it works with all back ends. One
that changes logits lists its back ends in `backends`; with any other it is rejected before weights
load.
"""

from __future__ import annotations

from pathlib import Path

from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    ModelLoadConfig,
    Plugin,
    TextGenerationRequest,
)

TINY_MODEL = Path(__file__).parent / "tiny_model"
ENDS = ".!?"


class FirstSentence:
    """Reads one answer and ends it after its first sentence."""

    name = "one sentence"

    def feed(self, text: str) -> int | None:
        """Return how many characters of the new `text` to keep; None for all."""
        ends = [position for position, character in enumerate(text) if character in ENDS]
        return ends[0] + 1 if ends else None


class OneSentence(Plugin):
    """Ends each answer after its first sentence, and strips white space around it."""

    name = "one sentence"

    def watch(self) -> FirstSentence:
        """Return the reader of a new answer."""
        return FirstSentence()

    def clean(self, text: str) -> str:
        """Return the final text of a finished answer."""
        return text.strip()


def main() -> None:
    """Generate an answer that would have had two sentences."""
    request = TextGenerationRequest(messages=[{"role": "user", "content": "Say hello."}])
    config = ModelLoadConfig(TINY_MODEL, backend="replay")
    with GenerationEngine(config, plugins=[OneSentence()]) as engine:
        [result] = engine.generate_text_batch([request], GenerationOptions())
    print(f"{result.text}\n  {result.finish_reason} at {result.stop_reason!r}")


if __name__ == "__main__":
    main()
