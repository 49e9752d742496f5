"""Shows a model the open calls of its earlier turns as it wrote them.

The arguments of an open call are no JSON object, but a chat template wants one, and Dynamo refuses
anything else. So the text travels as the value of an object with one key, `MARK`, and clients send
it so. Where the template is rendered, a placeholder stands for the text: as a string, or as the
value of an object, whichever of them the template shows. Then the text takes its place.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping

from ..base.json_types import JsonObject, check_nesting, read_finite
from ..base.limits import MAX_JSON_NESTING

# docs/clients.md names it to clients.
MARK = "backedge_open_call"
# A client cannot write it.
_PLACEHOLDER = f"BACKEDGE-OPEN-CALL-{secrets.token_hex(8)}-{{}}-"
# Templates put quotes around a string.
_SHOWN = re.compile(rf'"?({_PLACEHOLDER.format("[0-9]+")})"?')
# The arguments with a placeholder; the name of a parameter is not known.
_FORMS: tuple[Callable[[str], object], ...] = (lambda text: text, lambda text: {"": text})

Render = Callable[[Mapping[str, object]], str]


def read_arguments(arguments: object) -> JsonObject:
    """Return the arguments of an earlier call as an object, marked if the call is open."""
    if not isinstance(arguments, str):
        return arguments if isinstance(arguments, dict) else {}
    try:
        text = check_nesting(arguments.strip() or "{}", MAX_JSON_NESTING)
        value = json.loads(text, parse_float=read_finite)  # Python's clients also write NaN
    except ValueError:
        return {MARK: arguments}
    return value if isinstance(value, dict) else {} if value is None else {MARK: arguments}


def render_open_calls(render: Render, variables: Mapping[str, object]) -> str:
    """Return the text of a prompt, with the arguments of open calls as they were written.

    Where the template shows them in no form, they are an empty object. Raises what `render` does.
    """
    functions = list(_find_marked(variables.get("messages")))
    texts = {
        _PLACEHOLDER.format(number): function["arguments"][MARK]
        for number, function in enumerate(functions)
    }
    best, most = "", 0
    for form in _FORMS if functions else ():
        for function, placeholder in zip(functions, texts, strict=True):
            function["arguments"] = form(placeholder)
        try:
            text = render(variables)
        except Exception:  # noqa: BLE001, S112 - the model's code; it may accept the next form
            continue
        shown = len(texts.keys() & set(_SHOWN.findall(text)))
        if shown > most:
            best, most = text, shown
        if shown == len(texts):
            break
    if not most:
        for function in functions:
            function["arguments"] = {}
        return render(variables)
    return _SHOWN.sub(lambda found: texts.get(found[1], found[0]), best)


def _find_marked(messages: object) -> Iterator[JsonObject]:
    """Yield the functions of the calls that are marked."""
    for message in messages if isinstance(messages, list) else ():
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and _is_marked(function.get("arguments")):
                yield function


def _is_marked(arguments: object) -> bool:
    if not isinstance(arguments, dict) or arguments.keys() != {MARK}:
        return False
    return isinstance(arguments[MARK], str)
