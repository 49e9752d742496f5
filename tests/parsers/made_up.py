"""A checkpoint whose format no table has: it is described in its tokenizer_config.json alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from backedge.parsers.response_template import name_description

from tests.parsers.families.family import function
from tests.support import TINY_MODEL

# Requests with these seeds get `ANSWER` or `THOUGHT` from tests/e2e/scripted.py.
SEED, THINKING_SEED = 27, 28
TOOL = function("get_time", zone="string", days="integer")
CALL = {"name": "{name}", "arguments": "{content}"}
# Text outside its messages is dropped.
MADE_UP: dict[str, Any] = {
    "start_anchor": "<|bot|>",
    "fields": {
        "thinking": {"open": "<|muse|>", "close": "<|hush|>"},
        "content": {"open": "<|say|>", "close_pattern": r"<\|hush\|>\s*"},
        "tool_calls": {
            "open_pattern": r"<\|act\|>(?P<name>\w+)<\|with\|>",
            "close": "<|hush|>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<arg (?P<key>\w+)>\s*(?P<value>.*?)\s*</arg>"},
            "transform": {"type": "function", "function": CALL},
        },
    },
}
THOUGHT = "<|muse|>Which zone?<|hush|>\n"
ANSWER = (
    f"{THOUGHT}<|say|>A moment.<|hush|>\n<|act|>get_time<|with|>"
    "<arg zone> Rome </arg>\n<arg days>3</arg><|hush|> rest"
)
# The end of a call takes twice as long to miss for each "x" of it.
ENDLESS = {
    **{name: part for name, part in MADE_UP["fields"]["tool_calls"].items() if name != "close"},
    "close_pattern": "(?:x|xx)+[y!]z",
    "content": "json",
}
ENDLESS_NAME = name_description({**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": ENDLESS}})
STUCK = "<|say|>I ask.<|hush|><|act|>get_time<|with|>" + "x" * 64 + "!"
TALK = "<|muse|>Which zone?<|hush|>\n<|say|>A moment, please.<|hush|>"
TEMPLATE = """
{%- for tool in tools or [] %}<|tool|>{{ tool | tojson }}<|hush|>{% endfor %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}<|hush|>{% endfor %}
{%- if add_generation_prompt %}<|bot|>{% endif %}
"""


def write_model(folder: Path, description: object = MADE_UP) -> Path:
    """Return a copy of the example model that has this description."""
    shutil.copytree(TINY_MODEL, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE.strip())
    path = folder / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), "response_template": description}
    path.write_text(json.dumps(config))
    return folder
