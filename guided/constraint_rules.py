"""Checks that constraints of an answer are compatible; fast enough for a server's event loop.

`request_schemas` checks the schemas themselves.
"""

from __future__ import annotations

from ..base.errors import RequestError, show
from ..base.limits import MAX_TOOL_NAME, MAX_TOOLS
from .guided_decoding import GUIDED_FIELDS
from .guided_request import GuidedRequest


def check_constraints(request: GuidedRequest) -> None:
    """Raise `RequestError` for the first invalid tool, `tool_choice` or constraint."""
    _check_tools(request)
    _check_tool_choice(request)
    _check_one_constraint(request)


def _check_tools(request: GuidedRequest) -> None:
    tools = request.tools or []
    if len(tools) > MAX_TOOLS:
        raise RequestError.too_many("tools", len(tools), "tools", MAX_TOOLS)
    names: set[str] = set()
    for position, tool in enumerate(tools):
        name, field = tool.function.name, f"tools[{position}].function.name"
        if not 0 < len(name) <= MAX_TOOL_NAME:
            expected = f"a name of at most {MAX_TOOL_NAME} characters"
            raise RequestError.wrong(field, name, expected)
        if name in names:
            raise RequestError(field, f"must be unique; another tool is {show(name)}")
        names.add(name)


def _check_tool_choice(request: GuidedRequest) -> None:
    choice = request.tool_choice
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        allowed = '"none", "auto", "required" or a named function'
        raise RequestError.wrong("tool_choice", choice, allowed)
    if not request.forces_call:
        return
    names = [tool.function.name for tool in request.tools or []]
    demanded = request.named_function
    if not names or (demanded is not None and demanded not in names):
        allowed = f'"none", "auto", or one of the functions in `tools`, {names}'
        raise RequestError.wrong("tool_choice", request.raw["tool_choice"], allowed)


def _check_one_constraint(request: GuidedRequest) -> None:
    """At most one constraint; a forced call is one, and leaves the message empty."""
    given = [field for field in GUIDED_FIELDS if getattr(request, field) not in (None, [])]
    response_format = request.response_format
    if request.forces_call:
        if response_format is not None and response_format.type == "structural_tag":
            given.append("response_format")
        other = "`tool_choice`, which forces a tool call"
    else:
        other = f"`{given[0]}`, which constrains the answer" if given else ""
        given = given[1:]
    if given:
        raise RequestError(given[0], f"cannot be combined with {other}")
