"""The seams in transformers."""

from __future__ import annotations

from ...base.seams import read_table

PACKAGES = ("transformers",)

WORKER = read_table(
    "engines/transformers/",
    """\
== offline 5.0
text transformers.modeling_utils:PreTrainedModel.from_pretrained `kwargs.pop("device_map"`
    why: some of its arguments are not in its signature
    without: an argument that transformers does not know is found only when the model loads
    used_in: offline.py:list_arguments
    feature: the check of engine_args
read transformers.image_processing_utils:BaseImageProcessor.valid_kwargs
    why: a processor does not say otherwise whether it has a budget of pixels
    without: min_pixels and max_pixels are ignored
    used_in: offline/vision.py:has_pixel_budget
    feature: budgets of pixels

== parsers 5.17
read transformers.utils.chat_parsing:ResponseParser.finalize
    why: only its tokenizers offer it in public, and a pool has other tokenizers, too
    without: a `response_template` that no table holds has no parser
    used_in: parsers.py:DescribedParser
""",
)
FRONTEND = read_table(
    "engines/transformers/",
    """\
== frontend 4.56
replaced _compile_jinja_template(chat_template)
text render_jinja_template `_compile_jinja_template(chat_template)`
    of: transformers.utils.chat_template_utils:
    why: transformers takes no Jinja environment
    without: a chat template may take any time and memory
    used_in: templates/transformers_tokenizers.py:bound_templates
""",
)
