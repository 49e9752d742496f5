"""Builds prompts with images with transformers' processor, for all back ends with vision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from ..base.errors import RequestError, SetupError
from ..base.json_types import JsonObject
from ..templates.chat_template import find_variables, format_tools
from ..tokenization.errors import describe_error
from .backend import Backend, ModelText
from .contracts import (
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from .conversation import render_conversation
from .images import build_processor_arguments, fit_pixels, has_pixel_budget, load_image
from .model_text import find_folder, refuse_reserved
from .rows import Prompt, RowFailure

# The types of a part that is the placeholder of the image.
IMAGE_PARTS = ("image", "image_url", "input_image")
TEXT_PARTS = ("text", "input_text", "output_text")


class _Config(msgspec.Struct):
    """The config.json of a model that may read images."""

    vision_config: object = None


def has_vision(folder: Path) -> bool:
    """Whether the model in `folder` reads images."""
    path = folder / "config.json"
    if not path.is_file():
        return False
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Config).vision_config is not None
    except msgspec.DecodeError as error:
        raise SetupError(f"{path} cannot be used: {error}.") from error


class VisionBackend(Backend):
    """A back end that also generates from images, if the model supports that."""

    _vision: VisionPrompts | None = None

    @override
    def check_vision(self) -> None:
        if not has_vision(find_folder(self.config)):
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

        folder = find_folder(config)
        try:
            self.processor: Any = transformers.AutoProcessor.from_pretrained(
                folder, trust_remote_code=config.trust_remote_code
            )
        except Exception as error:
            raise SetupError(
                f"the processor of {str(config.model)!r} cannot be loaded "
                f"({describe_error(error)}); install what it requires, or check the folder."
            ) from error
        self._options = config.vlm
        # The processor gives its own arguments other names.
        self._variables = find_variables(str(self.processor.chat_template or ""))
        self.arguments = build_processor_arguments(self.processor, config.vlm)

    def build(self, request: VlmGenerationRequest, options: GenerationOptions) -> Prompt:
        """Return the prompt of a row. Raises `RowFailure` and `RequestError`."""
        image = load_image(request.image)
        if not has_pixel_budget(self.processor):
            image = fit_pixels(image, self._options)
        text = request.prompt
        if text is None:
            text = render_conversation(self._render, request, options)
        try:
            inputs = self.processor(
                text=[text], images=[image], return_tensors="pt", **self.arguments
            )
        except Exception as error:
            raise RowFailure(
                "image", f"the model's processor rejects the image ({describe_error(error)})."
            ) from error
        [token_ids] = inputs.pop("input_ids").tolist()
        inputs.pop("attention_mask", None)
        return Prompt(token_ids, text, image, dict(inputs))

    def _render(
        self, messages: list[JsonObject], tools: list[JsonObject] | None, **template_kwargs: Any
    ) -> str:
        refuse_reserved(template_kwargs)
        conversation = place_image(messages)
        try:
            text = self.processor.apply_chat_template(
                conversation,
                tools=format_tools(tools, "vllm"),
                tokenize=False,
                add_generation_prompt=True,
                **{
                    name: template_kwargs[name] for name in self._variables & template_kwargs.keys()
                },
            )
        except Exception as error:
            # A template is the model's code: any exception means that it rejects the messages.
            raise RequestError.rejected(error) from error
        return str(text)


def place_image(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the messages with all contents as parts, one of them for the image.

    Without such a part, it is inserted before the last user message's text.
    Raises `RowFailure` for several images, and `RequestError` for other media.
    """
    converted = [
        {**message, "content": _convert_parts(position, message.get("content"))}
        for position, message in enumerate(messages)
    ]
    images = sum(part["type"] == "image" for message in converted for part in message["content"])
    if images > 1:
        raise RowFailure("image", f"the messages have {images} images; only one is supported.")
    if not images:
        users = [message for message in converted if message["role"] == "user"]
        if not users:
            raise RowFailure("image", "no user message can hold the image; add one.")
        users[-1]["content"].insert(0, {"type": "image"})
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
