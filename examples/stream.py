"""Streams two answers to the terminal: one with reasoning, one with a tool call.

    python examples/stream.py [--url http://127.0.0.1:8000/v1] [--model tiny]

Uses the official OpenAI client. Each delta is shown when it arrives, labelled by its kind
(reasoning, content, tool call, arguments) and coloured in a terminal.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import openai

QUESTIONS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "What is 17 + 25?"}]},
    {
        "messages": [{"role": "user", "content": "Do I need an umbrella in London?"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Weather of a city.",
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "city": {"type": "string"},
                            "unit": {"type": "string", "enum": ["C", "F"]},
                        },
                        "required": ["city"],
                    },
                },
            }
        ],
    },
]
COLOURS = {
    "question": "1",
    "reasoning": "2;3",
    "content": "0",
    "tool call": "36",
    "arguments": "33",
    "finish": "32",
}


class Printer:
    """Prints deltas one after another, with a new line when the kind changes."""

    def __init__(self) -> None:
        self._kind = ""

    def show(self, kind: str, text: str) -> None:
        """Print `text`, labelled with its kind."""
        if kind != self._kind:
            self._kind = kind
            print(f"\n{kind:>10}  ", end="")
        shown = text.replace("\n", "\n" + " " * 12) if text.strip() else text.replace("\n", "")
        print(
            f"\x1b[{COLOURS[kind]}m{shown}\x1b[0m" if sys.stdout.isatty() else shown,
            end="",
            flush=True,
        )


def stream(client: openai.OpenAI, model: str, question: dict[str, Any]) -> None:
    """Ask and print one answer as it arrives."""
    printer = Printer()
    printer.show("question", question["messages"][-1]["content"])
    for chunk in client.chat.completions.create(
        model=model, stream=True, temperature=0, **question
    ):
        for choice in chunk.choices:
            delta = choice.delta
            if reasoning := getattr(delta, "reasoning_content", None):
                printer.show("reasoning", reasoning)
            if delta.content:
                printer.show("content", delta.content)
            for call in delta.tool_calls or []:
                if call.function is not None and call.function.name:
                    printer.show("tool call", call.function.name)
                if call.function is not None and call.function.arguments:
                    printer.show("arguments", call.function.arguments)
            if choice.finish_reason:
                printer.show("finish", choice.finish_reason)
    print("\n")


def main() -> None:
    """Stream both answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="tiny")
    options = parser.parse_args()
    client = openai.OpenAI(base_url=options.url, api_key="none")
    try:
        for question in QUESTIONS:
            stream(client, options.model, question)
    except openai.OpenAIError as error:
        sys.exit(f"\nstream: --url {options.url}, --model {options.model}: {error}")


if __name__ == "__main__":
    main()
