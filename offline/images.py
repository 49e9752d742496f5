"""Loads images of requests within limits, and resizes them to a budget."""

from __future__ import annotations

import io
import math
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import show
from ..base.limits import MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS
from ..tokenization.errors import describe_error
from .contracts import VlmPreprocessOptions
from .rows import RowFailure

if TYPE_CHECKING:
    from PIL import Image


def load_image(image: object) -> Image.Image:
    """Return an image in RGB. image: a path, the bytes of a file, or a PIL image.

    Raises `RowFailure` for data that is not an image, and, before reading pixels, for an image
    beyond the limits.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise RowFailure("image", f"images need Pillow ({error}); pip install pillow.") from error

    if image is None:
        raise RowFailure("image", "the request has no image; give it a path, bytes or a PIL image.")
    if isinstance(image, Image.Image):
        opened, name = image, "the image"
    else:
        data, name = read_file(image)
        try:
            opened = Image.open(io.BytesIO(data))
        except Exception as error:  # a decoder of Pillow's may raise anything
            raise RowFailure(
                "image", f"{name} is not an image ({describe_error(error)})."
            ) from error
    width, height = opened.size
    if width * height > MAX_IMAGE_PIXELS:
        raise RowFailure(
            "image",
            f"{name} has {width} x {height} pixels; at most {MAX_IMAGE_PIXELS:,} are allowed.",
        )
    try:
        return convert_to_rgb(opened)
    except Exception as error:
        raise RowFailure("image", f"{name} cannot be read ({describe_error(error)}).") from error


def read_file(image: object) -> tuple[bytes, str]:
    """Return the bytes of a file, and its name for errors. Raises `RowFailure`."""
    if isinstance(image, bytes | bytearray):
        data, name = bytes(image), f"the image of {len(image)} bytes"
    elif isinstance(image, str | os.PathLike):
        path = Path(image)
        name = f"the image {show(str(path))}"
        try:
            # Reading a device or a pipe may never end.
            if not stat.S_ISREG(path.stat().st_mode):
                raise RowFailure("image", f"{name} is not a file; name one.")
            with path.open("rb") as file:
                data = file.read(MAX_IMAGE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RowFailure("image", f"{name} cannot be read ({reason}).") from error
    else:
        raise RowFailure(
            "image",
            f"image must be one path, bytes or PIL image, not {show(image)}.",
        )
    if len(data) > MAX_IMAGE_BYTES:
        raise RowFailure(
            "image", f"{name} has more than {MAX_IMAGE_BYTES:,} bytes; make it smaller."
        )
    return data, name


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """Return the first frame on white, as vLLM's server reads images."""
    from PIL import Image

    if image.mode == "RGB":
        return image.copy()
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layers = image.convert("RGBA")
        ground = Image.new("RGBA", layers.size, "white")
        return Image.alpha_composite(ground, layers).convert("RGB")
    return image.convert("RGB")


def fit_pixels(image: Image.Image, options: VlmPreprocessOptions) -> Image.Image:
    """Resize the image to the limits in the options, for processors without such limits.

    The aspect ratio is kept, up to rounding.
    """
    if options.do_resize is False:
        return image
    pixels = image.width * image.height
    target = max(pixels, options.min_pixels or 0)
    target = min(target, options.max_pixels or target)
    if target == pixels:
        return image
    factor = math.sqrt(target / pixels)
    round_side = math.floor if factor < 1 else math.ceil
    size = max(round_side(image.width * factor), 1), max(round_side(image.height * factor), 1)
    return image.resize(size)


def build_processor_arguments(processor: Any, options: VlmPreprocessOptions) -> dict[str, Any]:
    """Return the options as arguments for a processor of transformers.

    Processors with a pixel budget are those of Qwen's models and similar ones. They read it from
    `size`; transformers 5 ignores `max_pixels` alone.
    """
    arguments: dict[str, Any] = {}
    if options.do_resize is not None:
        arguments["do_resize"] = options.do_resize
    if not has_pixel_budget(processor) or (options.min_pixels or options.max_pixels) is None:
        return arguments
    size = dict(processor.image_processor.size)
    least = options.min_pixels or min(size["shortest_edge"], options.max_pixels or math.inf)
    most = options.max_pixels or max(size["longest_edge"], least)
    return arguments | {"size": {"shortest_edge": least, "longest_edge": most}}


def has_pixel_budget(processor: Any) -> bool:
    """Whether a processor takes `min_pixels` and `max_pixels`."""
    known = getattr(getattr(processor.image_processor, "valid_kwargs", None), "__annotations__", {})
    return "max_pixels" in known
