"""A model with Mistral's own tokenizer alone: each worker with each back end of the frontend.

Every cell is served, or refused by the name of what is missing. docs/tokenizers.md has the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest

from tests.e2e.client import Client, Response
from tests.e2e.conftest import CLASS, MODULE
from tests.e2e.forked import ForkingStack
from tools.stack import Process

# A Mistral of random weights; only its vocabulary's size matters.
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 131072,
    "max_position_embeddings": 2048,
}
CONFIG = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    **SIZES,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# The same as Mistral writes it.
PARAMS = {
    "dim": 64,
    "hidden_dim": 128,
    "n_layers": 1,
    "n_heads": 2,
    "n_kv_heads": 1,
    "head_dim": 32,
    "norm_eps": 1e-5,
    "rope_theta": 1e4,
    "vocab_size": 131072,
    "max_position_embeddings": 2048,
}
PARSERS = ("--tool-call-parser", "mistral")
REASONS = ("--reasoning-parser", "mistral")
DUMMY = ("--load-format", "dummy")
MODE = ("--tokenizer-mode", "mistral")
# Engine and flags of each kind of worker.
WORKERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "vllm": ("vllm", ("--vllm-processing", *PARSERS, *DUMMY, *MODE)),
    "vllm, Mistral's files": (
        "vllm",
        (
            *("--vllm-processing", *PARSERS, *REASONS, *MODE),
            *("--config-format", "mistral", "--load-format", "mistral"),
        ),
    ),
    "vllm, auto": ("vllm", ("--vllm-processing", *PARSERS, *DUMMY)),
    "plain vllm": ("vllm", (*DUMMY, *MODE)),
    "sglang": (
        "sglang",
        ("--sglang-processing", *PARSERS, *DUMMY, "--tokenizer-backend", "vllm"),
    ),
}
# The frontend's flags, and what refuses the model; "" if nothing does.
FRONTENDS: dict[str, tuple[tuple[str, ...], str]] = {
    "default": ((), ""),
    "vllm": (("--tokenizer-backend", "vllm"), ""),
    "python": (
        (
            *("--tokenizer-backend", "python", MODULE, "backedge.tokenization.mistral"),
            *(CLASS, "MistralTokenizer"),
        ),
        "",
    ),
    "huggingface": (
        ("--tokenizer-backend", "huggingface"),
        "no tokenizer.json, which --tokenizer-backend huggingface reads",
    ),
    "sglang": (
        ("--tokenizer-backend", "sglang"),
        "--tokenizer-backend sglang reads no tokenizer of mistral-common",
    ),
}
UNIT = {"type": "string", "enum": ["celsius"]}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather.",
        "parameters": {"type": "object", "properties": {"unit": UNIT}, "required": ["unit"]},
    },
}
CALL = '[TOOL_CALLS]get_weather{"unit":"celsius"}'
ASKED = [{"role": "user", "content": "Hello 世界"}]
EXTRA = {"extra_body": {"nvext": {"extra_fields": ["completion_token_ids"]}}}
# Fields of the requests. A grammar holds a model of random weights to the only call there is.
REQUESTS: dict[str, dict[str, Any]] = {
    "text": {"max_tokens": 12, **EXTRA},
    "tools": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 96, **EXTRA},
    "reasoning": {"reasoning_effort": "high", "max_tokens": 12, **EXTRA},
}


class Cells(NamedTuple):
    """A frontend with each back end, for one kind of worker with `flags`."""

    flags: tuple[str, ...]
    frontends: dict[str, Process]


@pytest.fixture(scope="module", params=WORKERS)
def cells(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cells]:
    from tests.tokenization.examples import write_tekken  # late, as in test_transcripts.py

    engine, flags = WORKERS[request.param]
    folder = tmp_path_factory.mktemp("mistral")
    model = write_tekken(folder / "model", "v15")
    if "--config-format" in flags:
        write_weights(model)
    else:
        (model / "config.json").write_text(json.dumps(CONFIG))
    with ForkingStack(folder / "stack") as stack:
        start: Any = stack.sglang if engine == "sglang" else stack.worker
        start(*flags, model=model, name="tekken", wait=False)
        started = {
            name: stack.frontend(*PARSERS, *frontend_flags, wait=False)
            for name, (frontend_flags, _) in FRONTENDS.items()
        }
        for frontend in started.values():
            stack.wait_for_model(frontend, "tekken")
        yield Cells(flags, started)


def write_weights(folder: Path) -> None:
    """Write the model's configuration and random weights as Mistral does."""
    import torch
    from safetensors.torch import save_file

    (folder / "params.json").write_text(json.dumps(PARAMS))
    width, inner, size = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["vocab_size"]
    layer = {
        **{f"attention.{name}": (64, width) for name in ("wq", "wo")},
        **{f"attention.{name}": (32, width) for name in ("wk", "wv")},
        **{f"feed_forward.{name}": (inner, width) for name in ("w1", "w3")},
        "feed_forward.w2": (width, inner),
        **dict.fromkeys(("attention_norm", "ffn_norm"), (width,)),
    }
    shapes = {f"layers.0.{name}": shape for name, shape in layer.items()}
    shapes |= {"tok_embeddings": (size, width), "output": (size, width), "norm": (width,)}
    torch.manual_seed(1)
    weights = {f"{name}.weight": 0.05 * torch.randn(shape) for name, shape in shapes.items()}
    save_file(weights, folder / "consolidated.safetensors")


@pytest.mark.parametrize("name", FRONTENDS)
def test_every_cell_is_served_or_refused_by_name(cells: Cells, name: str) -> None:
    refusal = FRONTENDS[name][1]
    client, reference = (Client(cells.frontends[key].url, "tekken") for key in (name, "vllm"))
    for kind, fields in REQUESTS.items():
        for stream in (True, False):
            asked = {"messages": ASKED}
            if refusal:
                with pytest.raises(openai.InternalServerError, match=refusal) as refused:
                    client.ask(asked, stream=stream, **fields)
                assert refused.value.status_code == 503
                continue
            answer = client.ask(asked, stream=stream, **fields)
            expected = reference.ask(asked, stream=stream, **fields)
            assert answer.token_ids == expected.token_ids, kind
            assert answer.usage.prompt_tokens == expected.usage.prompt_tokens, kind
            assert answer.message["tool_calls"] == expected.message["tool_calls"], kind
            # vLLM holds an answer to a grammar from the end of a thought on, which this model
            # never writes.
            if kind == "tools" and "--config-format" not in cells.flags:
                assert spell_call(answer) == CALL, name
            else:
                assert answer.answer.content or answer.message["reasoning"], kind


def spell_call(answer: Response) -> str:
    """Return the call as Mistral's models write it, without `[ARGS]`.

    The grammar lets this model spell the markers in letters, and then the call is text.
    """
    called = [
        f"[TOOL_CALLS]{call['name']}{call['arguments']}" for call in answer.message["tool_calls"]
    ]
    written = (answer.answer.content or "") + "".join(called)
    return "".join(written.replace("[ARGS]", "").split())
