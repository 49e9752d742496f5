"""Collects a rollout: an agent's whole episode as one sequence of token ids, for training.

    python -m backedge.frontend --keep-turns exact
    python examples/rollout.py [--url http://127.0.0.1:8000/v1] [--model tiny]

The token ids are those that the engine read and generated. The mask is true for the generated ones.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable
from typing import Any

import openai

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
QUESTION = {"role": "user", "content": "Do I need an umbrella in London?"}
MAX_TURNS = 20


def collect_rollout(
    client: Any, model: str, messages: list[Any], tools: list[Any], run_tool: Callable[[Any], str]
) -> tuple[list[int], list[bool]]:
    """Return the token ids of an episode and their mask. run_tool: returns a call's result."""
    # Other samples of the same prompt may write the same calls with other thoughts.
    options = {"backedge": {"return_token_ids": True, "conversation": uuid.uuid4().hex}}
    token_ids: list[int] = []
    mask: list[bool] = []
    for _ in range(MAX_TURNS):
        answer = client.chat.completions.create(
            model=model, messages=messages, tools=tools, metadata=options
        )
        prompt, generated = (answer.nvext[f"{of}_token_ids"] for of in ("prompt", "completion"))
        if prompt[: len(token_ids)] != token_ids:
            raise ValueError("a prompt does not begin with the last one and its answer")
        mask += [False] * (len(prompt) - len(token_ids)) + [True] * len(generated)
        token_ids = prompt + generated
        message = answer.choices[0].message
        calls = message.tool_calls or []
        # As most frameworks send it: without the reasoning.
        messages = [*messages, message.model_dump(include={"role", "content", "tool_calls"})]
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": run_tool(call)} for call in calls
        ]
        if not calls:
            break
    return token_ids, mask


def main() -> None:
    """Collect one episode and print its length."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="tiny")
    options = parser.parse_args()
    client = openai.OpenAI(base_url=options.url, api_key="none")
    try:
        token_ids, mask = collect_rollout(
            client, options.model, [QUESTION], [TOOL], lambda _: "rain"
        )
    except openai.OpenAIError as error:
        sys.exit(f"rollout: --url {options.url}, --model {options.model}: {error}")
    print(f"{len(token_ids)} tokens, {sum(mask)} of them generated")


if __name__ == "__main__":
    main()
