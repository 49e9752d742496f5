"""The parts of a request that a chat template may read: parts of messages, and variables.

`chat_template_kwargs` come from clients. Renderers take them as keyword arguments of Python
functions, next to their own: `padding` with a `max_length` reserves memory, `tokenize` and
`chat_template` change what is rendered.
"""

from __future__ import annotations

# Types of text parts -> the field with the text.
TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}

# Parameters of transformers' `apply_chat_template` and of functions that it calls. `documents` is
# one as well, but primarily a variable of templates.
_TRANSFORMERS = frozenset(
    "conversation conversations messages tools chat_template tokenize "
    "add_generation_prompt continue_final_message padding truncation max_length "
    "return_tensors return_dict return_assistant_tokens_mask tokenizer_kwargs "
    "compiled_template self args kwargs".split()
)
# Parameters of the functions around it: vLLM's, SGLang's, mistral-common's, users' tokenizers'.
_ENGINES = frozenset({"model", "model_config", "tokenizer", "request", "processor"})
# Names that are defined in templates: Jinja's functions, and those for chat templates.
_GLOBALS = frozenset(
    "range dict lipsum cycler joiner namespace raise_exception strftime_now".split()
)
# Variables that a request must not set.
RESERVED = _TRANSFORMERS | _ENGINES | _GLOBALS
