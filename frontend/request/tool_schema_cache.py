"""Checks tools' schemas, and standardizes them for engines that compile them.

Chat templates get the tools unchanged, as in vLLM's server.
"""

from __future__ import annotations

import hashlib
import operator
import threading
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from ...base.json_types import JsonObject
from ...base.limits import MAX_TOOL_FORMS_BYTES
from ...guided.client_schemas import SchemaFault, find_tool_fault, standardize
from ...guided.grammar_size import GrammarSize, measure_schema
from ...guided.guided_request import Tool, check_schemas
from .chat_request import ChatRequest

# Memory of an entry, of a standard form for each byte of the schema's text, and of an expression.
BYTES_EACH, BYTES_PER_BYTE, BYTES_PER_TEXT = 600, 20, 200
_NO_STEPS = GrammarSize(0, {})


class _Standard(NamedTuple):
    """form: the standard form of a valid schema; None if it is already standard.

    steps: of the grammar that an engine makes of it. size: an estimate of the entry's memory.
    """

    form: JsonObject | None
    steps: GrammarSize
    size: int


class StandardForms:
    """A cache of valid schemas' standard forms, in bounded memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, _Standard] = OrderedDict()
        self._size = 0

    def find(self, key: bytes) -> _Standard | None:
        """Return the entry of a schema that was checked before."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def add(
        self, key: bytes, form: JsonObject | None, length: int, steps: GrammarSize = _NO_STEPS
    ) -> None:
        """Add a form. length: of the schema's text, in bytes."""
        size = BYTES_EACH + (0 if form is None else BYTES_PER_BYTE * length)
        size += sum(BYTES_PER_TEXT + 4 * len(str(text)) for text in steps.texts)
        added = _Standard(form, steps, size)
        with self._lock:
            if key not in self._known:
                self._known[key] = added
                self._size += added.size
            while self._size > MAX_TOOL_FORMS_BYTES:
                self._size -= self._known.popitem(last=False)[1].size

    @property
    def size(self) -> int:
        """An estimate of the cache's memory, in bytes."""
        return self._size


_standard_forms = StandardForms()


def find_tool_schema_fault(schema: JsonObject) -> SchemaFault | None:
    """Return the fault in a tool's schema; None for a correct schema, which is remembered."""
    text = msgspec.json.encode(schema)
    key = _make_key(text)
    if _standard_forms.find(key) is not None:
        return None
    fault = find_tool_fault(schema)
    if fault is None:
        standard = standardize(schema)
        form = None if standard is schema else standard
        _standard_forms.add(key, form, len(text), measure_schema(schema))
    return fault


def _measure_tool_schema(schema: JsonObject) -> GrammarSize:
    known = _standard_forms.find(_make_key(msgspec.json.encode(schema)))
    return measure_schema(schema) if known is None else known.steps


def check_request_schemas(request: ChatRequest) -> None:
    """Raise `RequestError` for the first invalid schema, expression or grammar."""
    check_schemas(request, find_tool_schema_fault, _measure_tool_schema)


def standard_parameters(parameters: JsonObject) -> JsonObject:
    """Return a tool's schema in its standard form, which may be shared: do not modify it."""
    known = _standard_forms.find(_make_key(msgspec.json.encode(parameters)))
    if known is None:
        return standardize(parameters)
    return parameters if known.form is None else known.form


def with_standard_tools(request: ChatRequest) -> JsonObject:
    """Return the raw request with the standard form of its tools' schemas."""
    raw = request.raw
    if not request.tools:
        return raw
    tools = list(map(standardize_tool, raw["tools"], request.tools))
    changed = any(map(operator.is_not, tools, raw["tools"]))
    return {**raw, "tools": tools} if changed else raw


def compiles_tools(request: ChatRequest) -> bool:
    """Whether an engine compiles the tools: a call is forced, or a tool is strict."""
    if not request.tools or request.tool_choice == "none":
        return False
    return request.forces_call or any(tool.function.strict for tool in request.tools)


def standardize_tool(raw: JsonObject, tool: Tool) -> JsonObject:
    """Standardize the schema of a tool as JSON; return the same object if it is already standard.

    raw, tool: the tool as the client wrote it, and with types.
    """
    parameters = tool.function.parameters
    standard = standard_parameters(parameters) if parameters else parameters
    if standard is parameters:
        return raw
    return {**raw, "function": {**raw["function"], "parameters": standard}}


def _make_key(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
