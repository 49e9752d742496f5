"""Draws a format's table as a Mermaid state diagram.

    python -m backedge.testing.diagram qwen3_coder

GitHub and most Markdown viewers render the output between lines "```mermaid" and "```".
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from ..base.terminal import print_text
from ..parsers.format import COMPLETE, FIRST_STATES, Format, Jump, Target, target_state
from ..parsers.parser_lookup import known_formats

# Mermaid's special characters, escaped for labels.
ESCAPES = str.maketrans(
    {
        "#": "#35;",
        ";": "#59;",
        ":": "#58;",
        "<": "#lt;",
        ">": "#gt;",
        "{": "#123;",
        "}": "#125;",
        "\n": "\\n",
    }
)
NO_MARKERS: Mapping[str, Target] = {}
# How to draw targets that are not states.
JUMPS = {
    Jump.RETURN: 'state "the text that the calls interrupted" as RETURN',
    Jump.BY_HEADER: "state BY_HEADER <<choice>>",
}


def draw_format(format_: Format) -> str:
    """Return the diagram, with an arrow for each marker from one state to the next."""
    arrows = [("[*]", format_.initial_state.name, "")]
    jumps = []
    for state, by_marker in {format_.initial_state: NO_MARKERS, **format_.states}.items():
        if state in FIRST_STATES:
            arrows.append((state.name, FIRST_STATES[state].name, "the first word"))
        for marker, target in by_marker.items():
            reached = target_state(target)
            if isinstance(reached, Jump) and reached not in jumps:
                jumps.append(reached)
            arrows.append((state.name, reached.name, _label(marker)))
    arrows += [
        (Jump.BY_HEADER.name, state.name, pattern.pattern.translate(ESCAPES))
        for pattern, state in format_.headers
    ]
    lines = [f"{start} --> {end}{f' : {label}' if label else ''}" for start, end, label in arrows]
    return "\n    ".join(["stateDiagram-v2", *(JUMPS[jump] for jump in jumps), *lines]) + "\n"


def _label(marker: str) -> str:
    return "its syntax is complete" if marker == COMPLETE else marker.translate(ESCAPES)


@click.command()
@click.argument("name", type=click.Choice(sorted(known_formats())), metavar="NAME")
def main(name: str) -> None:
    """Draw a format's table as a Mermaid state diagram."""
    entry = known_formats()[name]
    for format_ in (entry.reasoning, entry.tools if entry.tools is not entry.reasoning else None):
        if format_ is not None:
            print_text(*draw_format(format_).rstrip("\n").split("\n"))


if __name__ == "__main__":
    main(prog_name="python -m backedge.testing.diagram")
