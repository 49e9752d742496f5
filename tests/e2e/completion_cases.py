"""Requests of `/v1/completions`, and what is compared of their answers."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.client import HTTP
from tests.support import TRANSCRIPTS, encode
from tools.stack import MODEL_NAME

# With several choices Dynamo wants a temperature above 0; this one is too low to matter.
COLD = 0.001


def render(name: str) -> str:
    """Return a transcript's prompt, as the chat template of the model writes it."""
    question = TRANSCRIPTS[name]["messages"][-1]["content"]
    thinks = TRANSCRIPTS[name].get("chat_template_kwargs", {}).get("enable_thinking", True)
    closed = "" if thinks else "<think>\n\n</think>\n\n"
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{closed}"


LETTERS, WORDS, THINKS = render("stop_string"), render("plain_text"), render("reasoning_text")
SCRIPTS = render("multilingual_text")
IDS = encode(LETTERS)
COMMA = encode(",")[0]


def build_cases() -> dict[str, dict[str, Any]]:
    """Return the requests by name; each is asked for with a stream and without."""
    wholes: dict[str, dict[str, Any]] = {
        "text": {"prompt": LETTERS, "max_tokens": 60},
        "ids": {"prompt": IDS, "max_tokens": 60},
        "texts": {"prompt": [LETTERS, WORDS], "max_tokens": 30},
        "lists of ids": {"prompt": [IDS, encode(WORDS)], "max_tokens": 30},
        "reasoning is text": {"prompt": THINKS, "max_tokens": 60},
        "scripts": {"prompt": SCRIPTS, "max_tokens": 80},
        "cut in a character": {"prompt": SCRIPTS, "max_tokens": 21},
        "cut": {"prompt": LETTERS, "max_tokens": 7},
        "one token": {"prompt": LETTERS, "max_tokens": 1},
        "no limit": {"prompt": LETTERS, "max_tokens": 1000},
        "stop": {"prompt": LETTERS, "max_tokens": 60, "stop": "gamma"},
        "stops": {"prompt": LETTERS, "max_tokens": 60, "stop": ["zeta", "gamma", "delta"]},
        "stop across tokens": {"prompt": LETTERS, "max_tokens": 60, "stop": [" beta, gamma, d"]},
        "stop in reasoning": {"prompt": THINKS, "max_tokens": 60, "stop": ["plus"]},
        "stop that is not there": {"prompt": LETTERS, "max_tokens": 60, "stop": ["omega"]},
        "stop that is begun": {"prompt": LETTERS, "max_tokens": 60, "stop": ["theta.!"]},
        "stop in scripts": {"prompt": SCRIPTS, "max_tokens": 80, "stop": ["世"]},
        "stop, shown": {
            "prompt": LETTERS,
            "max_tokens": 60,
            "stop": ["gamma"],
            "include_stop_str_in_output": True,
        },
        "stop behind a minimum": {
            "prompt": LETTERS,
            "max_tokens": 60,
            "stop": ["a"],
            "min_tokens": 12,
        },
        "stop ids": {"prompt": LETTERS, "max_tokens": 60, "stop_token_ids": [COMMA]},
        "logprobs 0": {"prompt": LETTERS, "max_tokens": 12, "logprobs": 0},
        "logprobs 1": {"prompt": LETTERS, "max_tokens": 12, "logprobs": 1},
        "logprobs 5": {"prompt": LETTERS, "max_tokens": 12, "logprobs": 5},
        "logprobs of scripts": {"prompt": SCRIPTS, "max_tokens": 30, "logprobs": 2},
        "logprobs to the end": {"prompt": WORDS, "max_tokens": 60, "logprobs": 1},
        "logprobs and a stop": {
            "prompt": LETTERS,
            "max_tokens": 60,
            "logprobs": 1,
            "stop": ["gamma"],
        },
        "n": {"prompt": LETTERS, "max_tokens": 20, "n": 3, "temperature": COLD},
        "n of texts": {
            "prompt": [LETTERS, WORDS],
            "max_tokens": 20,
            "n": 2,
            "temperature": COLD,
        },
        "special tokens": {
            "prompt": WORDS,
            "max_tokens": 60,
            "skip_special_tokens": False,
            "ignore_eos": True,
        },
        "behind the end": {"prompt": WORDS, "max_tokens": 40, "ignore_eos": True},
        "echo": {"prompt": LETTERS, "max_tokens": 9, "echo": True},
    }
    cases: dict[str, dict[str, Any]] = {}
    for name, body in wholes.items():
        cases[name] = body
        cases[f"{name}, streamed"] = {**body, "stream": True}
    usage = {"include_usage": True}
    cases["usage, streamed"] = {
        **wholes["stop"],
        "stream": True,
        "stream_options": usage,
    }
    cases["usage of texts, streamed"] = {
        **wholes["texts"],
        "stream": True,
        "stream_options": usage,
    }
    return cases


CASES = build_cases()


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer's status, its choices by index, and its usage; streams put together."""
    request = {"model": MODEL_NAME, "temperature": 0, **body}
    response = HTTP.post(url + "/v1/completions", json=request)
    if response.is_error:
        return {"status": response.status_code}
    text = response.text
    if not body.get("stream"):
        return collect([json.loads(text)])
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert events[-1] == "[DONE]"
    return collect([json.loads(event) for event in events[:-1]])


def collect(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields that are compared, of all events together."""
    answer: dict[str, Any] = {"status": 200, "usage": None}
    for event in events:
        assert "error" not in event, event
        if event.get("usage"):
            names = ("prompt_tokens", "completion_tokens", "total_tokens")
            answer["usage"] = {name: event["usage"][name] for name in names}
        for choice in event["choices"]:
            add_choice(answer, choice)
    return answer


def add_choice(answer: dict[str, Any], choice: dict[str, Any]) -> None:
    """Add what an event says of one choice."""

    def add(name: str, value: Any) -> None:
        key = f"{choice['index']}.{name}"
        answer[key] = answer[key] + value if key in answer else value

    add("text", choice["text"])
    for name in ("finish_reason", "stop_reason"):
        if choice.get(name) is not None:
            answer[f"{choice['index']}.{name}"] = choice[name]
    logprobs = choice.get("logprobs") or {}
    for name in ("tokens", "text_offset"):
        if logprobs.get(name):
            add(name, logprobs[name])
    if logprobs.get("token_logprobs"):
        add("token_logprobs", [shorten(value) for value in logprobs["token_logprobs"]])
        add("top_logprobs", [
            # Parts of characters have no names of their own, and some have the same.
            {token: shorten(top[token]) for token in top if token.strip("\ufffd")}
            for top in logprobs["top_logprobs"]
        ])  # fmt: skip


def shorten(logprob: float | None) -> float | None:
    """Return a log probability as far as two runs of an engine agree."""
    return None if logprob is None else round(logprob, 3)
