"""Type names of other languages in schemas, and what JSON Schema calls them.

Tools whose schemas are generated from Python, Java or a database say `dict`, `HashMap` or `varchar`
where JSON Schema says `object` or `string`. vLLM takes such schemas as they are; SGLang rewrites
the names that it knows.
Sources: the names in the Berkeley Function Calling Leaderboard's tools; the tables of aliases in
vllm 0.31 tool_parsers/utils.py and sglang 0.5.21 function_call/utils.py.
"""

from __future__ import annotations

import re

JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
# A type of any value.
ANY = "any"

_NAMES = {
    "string": "str text char character varchar nvarchar enum uuid date datetime time timestamp "
    "binary blob bytea bytes varbinary charsequence",
    "integer": "int uint long ulong short ushort byte sbyte bigint biginteger smallint tinyint "
    "unsigned",
    "number": "num float double decimal bigdecimal real numeric complex",
    "boolean": "bool",
    "null": "none nil nonetype void undefined",
    "object": "dict dictionary map mapping hashmap hashtable treemap linkedhashmap record struct "
    "json jsonobject",
    "array": "arr list arraylist linkedlist tuple set frozenset hashset sequence vector queue "
    "stack deque iterable collection jsonarray",
    ANY: "anything object? mixed unknown optional union literal",
}
_JSON_NAMES = {name: name for name in (*JSON_TYPES, ANY)} | {
    alias: name for name, aliases in _NAMES.items() for alias in aliases.split()
}
# Names have more around them: `int32`, `varchar(255)`, `List[str]`, `java.util.HashMap`.
_NAME = re.compile(r"(?:[a-z_]\w*\.)*(?P<name>[a-z]+\??)")


def to_json_type(name: str) -> str | None:
    """Return the JSON type that a type's name stands for, `ANY`, or None for an unknown name."""
    if name in JSON_TYPES:
        return name
    lower = name.strip().lower()
    if lower.endswith("[]"):
        return "array"
    match = _NAME.match(lower)
    if match is None or lower[match.end() : match.end() + 1] in ("_", "-", "."):
        return None
    return _JSON_NAMES.get(match["name"])
