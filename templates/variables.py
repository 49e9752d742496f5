"""What of a request a chat template reads: parts of messages, and variables with their names.

`chat_template_kwargs` are a client's words. Renderers take them as keyword arguments of Python
functions, beside arguments of their own: `padding` with a `max_length` reserves memory, `tokenize`
and `chat_template` change what is rendered.
"""

from __future__ import annotations

# Types of parts that are text, and the field with the text.
TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}

# Parameters of transformers' `apply_chat_template` and of the functions that it calls. `documents`
# is one as well, but a variable of templates above all.
_TRANSFORMERS = frozenset(
    {
        *("conversation", "conversations", "messages", "tools", "chat_template", "tokenize"),
        *("add_generation_prompt", "continue_final_message", "padding", "truncation", "max_length"),
        *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
        *("compiled_template", "self", "args", "kwargs"),
    }
)
# Of vLLM's and SGLang's functions around it, of mistral-common's, and of users' tokenizers.
_ENGINES = frozenset({"model", "model_config", "tokenizer", "request", "processor"})
# What templates find without being given it: Jinja's functions, and those for chat templates.
_GLOBALS = frozenset(
    {
        *("range", "dict", "lipsum", "cycler", "joiner", "namespace"),
        *("raise_exception", "strftime_now"),
    }
)
# A request may not set these.
RESERVED = _TRANSFORMERS | _ENGINES | _GLOBALS
