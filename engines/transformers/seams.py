"""The seams in transformers."""

from __future__ import annotations

from ...base.seams import Seam

PACKAGES = ("transformers",)

WORKER: tuple[Seam, ...] = (
    Seam(
        name="transformers.modeling_utils:PreTrainedModel.from_pretrained",
        kind="text",
        role="offline",
        since="5.0",
        contains=('kwargs.pop("device_map"',),
        why="some of its arguments are not in its signature",
        without="an argument that transformers does not know is found only when the model loads",
        used_in=("engines/transformers/offline.py:list_arguments",),
        feature="the check of engine_args",
    ),
    Seam(
        name="transformers.image_processing_utils:BaseImageProcessor.valid_kwargs",
        kind="read",
        role="offline",
        since="5.0",
        why="a processor does not say otherwise whether it has a budget of pixels",
        without="min_pixels and max_pixels are ignored",
        used_in=("offline/images.py:has_pixel_budget",),
        feature="budgets of pixels",
    ),
)

FRONTEND: tuple[Seam, ...] = (
    Seam(
        name="transformers.utils.chat_template_utils:_compile_jinja_template",
        kind="replaced",
        role="frontend",
        since="4.56",
        parameters=("chat_template",),
        why="transformers takes no Jinja environment",
        without="a chat template may take any time and memory",
        used_in=("templates/transformers_templates.py:bound_templates",),
    ),
    Seam(
        name="transformers.utils.chat_template_utils:render_jinja_template",
        kind="text",
        role="frontend",
        since="4.56",
        contains=("_compile_jinja_template(chat_template)",),
        why="transformers takes no Jinja environment",
        without="a chat template may take any time and memory",
        used_in=("templates/transformers_templates.py:bound_templates",),
    ),
)
