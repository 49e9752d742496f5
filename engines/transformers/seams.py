"""The seams in transformers."""

from __future__ import annotations

from ...base.seams import Seam, Seams, read, replaced, text

PACKAGES = ("transformers",)
ARGUMENTS = "the check of engine_args"

OFFLINE = (
    Seam(
        text(
            "transformers.modeling_utils:PreTrainedModel.from_pretrained", 'kwargs.pop("device_map"'
        ),
        why="some of its arguments are not in its signature",
        without="an argument that transformers does not know is found only when the model loads",
        feature=ARGUMENTS,
    ),
    Seam(
        read("transformers.image_processing_utils:BaseImageProcessor.valid_kwargs"),
        why="a processor does not say otherwise whether it has a budget of pixels",
        without="min_pixels and max_pixels are ignored",
        feature="budgets of pixels",
    ),
)
BATCHING = "transformers.generation.continuous_batching."
MANAGER = BATCHING + "continuous_api:ContinuousBatchingManager."
PROCESSORS = BATCHING + "cb_logits_processors:"
WORKER = (
    Seam(
        text(MANAGER + "__init__", "self.logit_processor = ", "self.output_router = "),
        text(MANAGER + "_create_batch_processor", "logit_processor=self.logit_processor"),
        text(PROCESSORS + "ContinuousBatchingLogitsProcessorList.__call__", "scores = processor("),
        text(PROCESSORS + "ContinuousBatchingLogitsProcessorList.fill_defaults", "int32_tensor[i]"),
        why="a manager takes no logits processors, and knows the settings of all requests alone",
        without="no request can have its own sampling, grammar or logprobs",
    ),
)
PARSERS = (
    Seam(
        read("transformers.utils.chat_parsing:ResponseParser.finalize"),
        why="only its tokenizers offer it in public, and a pool has other tokenizers, too",
        without="a `response_template` that no table holds has no parser",
    ),
)
FRONTEND = (
    Seam(
        replaced("transformers.utils.chat_template_utils:_compile_jinja_template", "chat_template"),
        text(
            "transformers.utils.chat_template_utils:render_jinja_template",
            "_compile_jinja_template(chat_template)",
        ),
        why="transformers takes no Jinja environment",
        without="a chat template may take any time and memory",
    ),
    Seam(
        replaced("transformers.processing_utils:_get_template_variables", "chat_template"),
        why="a processor of images reads the variables off Jinja's compiled template",
        without="a prompt with images is rejected",
        feature="images of batches with transformers",
    ),
)
SEAMS: Seams = {
    "offline": OFFLINE,
    "parsers": PARSERS,
    "worker": WORKER,
    "frontend": FRONTEND,
}
