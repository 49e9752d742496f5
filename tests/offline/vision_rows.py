"""Requests with images for the tiny vision model, and how many tokens they have."""

from __future__ import annotations

import random
from typing import Any

from backedge.offline import VlmGenerationRequest
from PIL import Image

# Width and height in pixels, and the image's tokens: one for each 28 x 28, after resizing to
# multiples of 28.
SIZES = (((280, 140), 50), ((224, 140), 40), ((140, 140), 25), ((30, 30), 1), ((56, 27), 2))
# The same with at most 4 tokens for an image.
BUDGET = 4 * 28 * 28


def make_image(width: int, height: int) -> Image.Image:
    return Image.frombytes(
        "RGB", (width, height), random.Random(width).randbytes(width * height * 3)
    )


def ask_image(text: str, image: Any, **fields: Any) -> VlmGenerationRequest:
    return VlmGenerationRequest(messages=[{"role": "user", "content": text}], image=image, **fields)


def rows() -> list[VlmGenerationRequest]:
    return [
        ask_image("What is it? " * number, make_image(*size))
        for number, (size, _) in enumerate(SIZES, 1)
    ]


def row_of_two() -> VlmGenerationRequest:
    return ask_image("What are they?", [make_image(*size) for size, _ in SIZES[:2]])
