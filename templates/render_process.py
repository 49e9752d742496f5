"""The program that renders the prompts of a template that was slow.

    python -m backedge.templates.render_process

It reads the template's source and then each `RenderJob` from standard input, and writes a
`Rendered` for each. It ends with the input, or when nothing has come for `RENDER_IDLE_S`.
"""

from __future__ import annotations

import os
import select

import jinja2
import msgspec

from ..base.errors import shorten
from ..base.limits import RENDER_IDLE_S
from .chat_template import compile_template
from .rendering import Rendered, RenderJob, read_message, write_message
from .time_limit import call_with_time_limit

# Streams come first, on a machine whose cores are all busy.
NICENESS = 5


def main() -> None:
    """Render until the input ends."""
    os.nice(NICENESS)
    source, answers = os.fdopen(0, "rb", buffering=0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no answer
    template = compile_template(msgspec.msgpack.decode(read_message(source), type=str))
    while select.select([source], [], [], RENDER_IDLE_S)[0]:
        try:
            job = msgspec.msgpack.decode(read_message(source), type=RenderJob)
        except EOFError:
            return
        write_message(answers, msgspec.msgpack.encode(render(template, job)))


def render(template: jinja2.Template, job: RenderJob) -> Rendered:
    """Render one prompt."""
    try:
        return Rendered(call_with_time_limit(job.limit_s, lambda: template.render(job.variables)))
    except TimeoutError as error:
        return Rendered(error=str(error), timed_out=True)
    except Exception as error:  # noqa: BLE001 - a template is the model's code
        return Rendered(error=shorten(str(error)))


if __name__ == "__main__":
    main()
