"""Loads images within limits, and builds prompts with them, for all back ends with vision."""

from __future__ import annotations

import functools
import io
import math
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import override

from ..base.errors import RequestError, SetupError, show
from ..base.json_types import JsonObject
from ..base.limits import MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS
from ..templates.chat_template import find_variables, format_tools
from ..tokenization.errors import describe_error
from ..tokenization.model_files import ModelFolder, find_folder
from .contracts import (
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
    VlmGenerationRequest,
    VlmPreprocessOptions,
)
from .inference_backend import Backend
from .model_text import ModelText, apply_template, render_conversation, use_template
from .remote_images import RemoteImages, is_remote
from .rows import Prompt, RowFailure, check_image_count

if TYPE_CHECKING:
    from PIL import Image


# Others of Pillow's start programs (EPS: Ghostscript), or decode more than they show (icons).
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


NO_HOSTS = RemoteImages(())


def load_image(image: object, remote: RemoteImages = NO_HOSTS) -> Image.Image:
    """Return an image in RGB. image: a path, a URL, the bytes of a file, or a PIL image.

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
        data, name = read_file(remote.fetch(image) if is_remote(image) else image)
        try:
            opened = Image.open(io.BytesIO(data), formats=IMAGE_FORMATS)
        except Exception as error:  # a decoder of Pillow's may raise anything
            known = ", ".join(IMAGE_FORMATS)
            message = f"{name} is not an image in {known} ({describe_error(error)})."
            raise RowFailure("image", message) from error
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


def load_images(image: object, remote: RemoteImages = NO_HOSTS) -> list[Image.Image]:
    """Return the images of a row, one or a list. Raises `RowFailure`, as `load_image`."""
    given = list(image) if isinstance(image, list | tuple) else [image]
    check_image_count(len(given))
    images, pixels = [], 0
    for one in given or [None]:
        images.append(load_image(one, remote))
        pixels += images[-1].width * images[-1].height
        if pixels > MAX_IMAGE_PIXELS:
            found = f"the row's first {len(images)} images have {pixels:,} pixels"
            raise RowFailure("image", f"{found}; at most {MAX_IMAGE_PIXELS:,} are allowed.")
    return images


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
        ground = Image.new("RGB", layers.size, "white")
        ground.paste(layers, mask=layers.getchannel("A"))
        return ground
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


# The types of a part that is the placeholder of an image.
IMAGE_PARTS = ("image", "image_url", "input_image")
TEXT_PARTS = ("text", "input_text", "output_text")


class _Config(msgspec.Struct):
    """The config.json of a model that may read images."""

    vision_config: object = None


def has_vision(folder: Path) -> bool:
    """Whether the model in `folder` reads images."""
    return ModelFolder(folder).read("config.json", _Config).vision_config is not None


class VisionBackend(Backend):
    """A back end that also generates from images, if the model supports that."""

    _vision: VisionPrompts | None = None

    @override
    def check_vision(self) -> None:
        if self.config.tokenizer_module:
            raise SetupError("tokenizer_module is not for images: leave one of them out.")
        if not has_vision(find_folder(str(self.config.model), self.config.revision)):
            raise SetupError(
                f"the model {str(self.config.model)!r} does not read images (config.json has no "
                "vision_config); choose one that does, or leave the images out."
            )
        if self._vision is None:
            self._vision = VisionPrompts(self.config)

    @override
    def build_prompt(
        self, text: ModelText, request: TextGenerationRequest, options: GenerationOptions
    ) -> Prompt:
        if not isinstance(request, VlmGenerationRequest) or self._vision is None:
            return super().build_prompt(text, request, options)
        if options.truncate_prompt_tokens is not None:
            raise RowFailure(
                "request", "truncate_prompt_tokens could cut an image; leave it out of this row."
            )
        return self._vision.build(request, options)


class VisionPrompts:
    """Builds prompts with images for one model. Raises `SetupError` without a processor."""

    def __init__(self, config: ModelLoadConfig) -> None:
        import transformers

        folder = find_folder(str(config.model), config.revision)
        try:
            self.processor: Any = transformers.AutoProcessor.from_pretrained(
                folder, trust_remote_code=config.trust_remote_code
            )
        except Exception as error:
            raise SetupError(
                f"the processor of {str(config.model)!r} cannot be loaded "
                f"({describe_error(error)}); install what it requires, or check the folder."
            ) from error
        use_template(self.processor, config)
        self._options = config.vlm
        self._remote = RemoteImages(config.vlm.image_hosts)
        # The processor gives its own arguments other names.
        self._variables = find_variables(str(self.processor.chat_template or ""))
        self.arguments = build_processor_arguments(self.processor, config.vlm)

    def build(self, request: VlmGenerationRequest, options: GenerationOptions) -> Prompt:
        """Return the prompt of a row. Raises `RowFailure` and `RequestError`."""
        images = load_images(request.image, self._remote)
        if not has_pixel_budget(self.processor):
            images = [fit_pixels(image, self._options) for image in images]
        text = request.prompt
        if text is None:
            render = functools.partial(self._render, len(images))
            text = render_conversation(render, request, options)
        try:
            inputs = self.processor(
                text=[text], images=images, return_tensors="pt", **self.arguments
            )
        except Exception as error:
            raise self._describe_rejection(text, len(images), error) from error
        [token_ids] = inputs.pop("input_ids").tolist()
        self._check_places(token_ids)
        inputs.pop("attention_mask", None)
        pixels = sum(image.width * image.height for image in images)
        return Prompt(token_ids, text, images, dict(inputs), pixels)

    def _describe_rejection(self, text: str, images: int, error: Exception) -> RowFailure:
        place = getattr(self.processor, "image_token", None)
        places = text.count(place) if place else images
        if places != images:
            return RowFailure(
                "image",
                f"the prompt has {places} places for images, {place!r}, and the row {images}; a "
                "text may have that token only where an image belongs.",
            )
        what = "the image" if images == 1 else f"the {images} images"
        return RowFailure(
            "image", f"the model's processor rejects {what} ({describe_error(error)})."
        )

    def _check_places(self, token_ids: Sequence[int]) -> None:
        """Raise `RowFailure` for a prompt without a place for an image, or with one for a video."""
        image, video = (
            getattr(self.processor, f"{kind}_token_id", None) for kind in ("image", "video")
        )
        if image is not None and image not in token_ids:
            raise RowFailure(
                "image",
                f"the prompt has no place for an image; add {self.processor.image_token!r}.",
            )
        if video is not None and video in token_ids:
            raise RowFailure(
                "image", f"{self.processor.video_token!r} is a place for a video; leave it out."
            )

    def _render(
        self,
        images: int,
        messages: list[JsonObject],
        tools: list[JsonObject] | None,
        **template_kwargs: Any,
    ) -> str:
        known = {name: template_kwargs[name] for name in self._variables & template_kwargs.keys()}
        conversation, formatted = place_images(messages, images), format_tools(tools, "vllm")
        return apply_template(self.processor, conversation, formatted, known)


def place_images(messages: Sequence[JsonObject], count: int) -> list[JsonObject]:
    """Return the messages with all contents as parts, `count` of them for images.

    Without such parts, they are inserted before the last user message's text.
    Raises `RowFailure` for another number of parts, and `RequestError` for other media.
    """
    converted = [
        {**message, "content": _convert_parts(position, message.get("content"))}
        for position, message in enumerate(messages)
    ]
    places = sum(part["type"] == "image" for message in converted for part in message["content"])
    if places not in (0, count):
        found = f"the messages have {places} parts for images, and the row has {count}"
        raise RowFailure("image", f"{found}; give as many images as parts.")
    if not places:
        users = [message for message in converted if message["role"] == "user"]
        if not users:
            raise RowFailure("image", "no user message can hold the image; add one.")
        users[-1]["content"][:0] = [{"type": "image"} for _ in range(count)]
    return converted


def _convert_parts(position: int, content: object) -> list[JsonObject]:
    if not isinstance(content, list):
        return [{"type": "text", "text": content}] if content else []
    parts: list[JsonObject] = []
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in IMAGE_PARTS:
            parts.append({"type": "image"})
        elif kind in TEXT_PARTS and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        else:
            where = f"messages[{position}].content[{number}]"
            raise RequestError.wrong(where, part, "a part of text or an image")
    return parts


def join_inputs(
    prompts: Sequence[Prompt], pad: Callable[[Sequence[list[int]]], list[list[int]]]
) -> dict[str, Any]:
    """Combine the tensors of several prompts into those of one batch.

    pad: pads tensors with one entry per token. Those with one entry per patch or image are
    concatenated.
    """
    import torch

    joined = {}
    for name, first in prompts[0].inputs.items():
        tensors = [prompt.inputs[name] for prompt in prompts]
        if first.shape == (1, len(prompts[0].token_ids)):
            padded = pad([tensor[0].tolist() for tensor in tensors])
            joined[name] = torch.tensor(padded, dtype=first.dtype)
        else:
            joined[name] = torch.cat(tensors)
    return joined
