"""Checks a decoded value against a compiled schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import ge, gt, le, lt

from ..base.limits import MAX_CHECKED_DEPTH, MAX_CHECKS, MAX_COMPARED
from .schema import ValueSchema, json_type

_NUMBER_LIMITS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": ge,
    "maximum": le,
    "exclusiveMinimum": gt,
    "exclusiveMaximum": lt,
}
_LENGTH_LIMITS: Mapping[str, Mapping[str, Callable[[float, float], bool]]] = {
    "string": {"minLength": ge, "maxLength": le},
    "array": {"minItems": ge, "maxItems": le},
    "object": {"minProperties": ge, "maxProperties": le},
}


def accepts(schema: ValueSchema, value: object) -> bool:
    """Whether `schema` accepts `value`, within the limits described in schema.py.

    value: decoded from JSON.
    """
    return _Validation().accepts(schema, value)


class _Validation:
    """Validates one value; each part is checked against each schema once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._checks = 0
        self._compared = 0

    def accepts(self, schema: ValueSchema, value: object, depth: int = 0) -> bool:
        self._checks += 1
        key = id(schema), id(value)
        known = self._known.get(key)
        if known is not None:
            return known
        if depth > MAX_CHECKED_DEPTH or self._checks >= MAX_CHECKS:
            return True
        self._known[key] = True  # a schema that refers only to itself requires nothing
        accepted = self._check(schema, value, depth + 1)
        self._known[key] = accepted
        return accepted

    def _check(self, schema: ValueSchema, value: object, depth: int) -> bool:
        if schema.nullable and value is None:
            return True
        kind = json_type(value)
        if schema.types is not None and kind not in schema.types:
            return False
        if not all(self._is_among(value, values) for values in schema.literals):
            return False
        return (
            _is_within_limits(schema.limits, kind, value)
            and self._check_alternatives(schema, value, depth)
            and self._check_members(schema, value, depth)
        )

    def _is_among(self, value: object, literals: Sequence[object]) -> bool:
        self._compared += len(literals)
        return self._compared > MAX_COMPARED or any(_equals(value, each) for each in literals)

    def _check_alternatives(self, schema: ValueSchema, value: object, depth: int) -> bool:
        if not all(self.accepts(part, value, depth) for part in schema.all_of):
            return False
        if schema.any_of and not any(self.accepts(part, value, depth) for part in schema.any_of):
            return False
        return (
            not schema.one_of
            or sum(self.accepts(part, value, depth) for part in schema.one_of) == 1
        )

    def _check_members(self, schema: ValueSchema, value: object, depth: int) -> bool:
        if not schema.has_members:
            return True
        if isinstance(value, dict):
            return all(key in value for key in schema.required) and all(
                self.accepts(schema.find_property(key), member, depth)
                for key, member in value.items()
            )
        if isinstance(value, list):
            return all(
                self.accepts(schema.find_item(position), item, depth)
                for position, item in enumerate(value)
            )
        return True


def _is_within_limits(limits: Mapping[str, float], kind: str, value: object) -> bool:
    if not limits:
        return True
    if isinstance(value, str | list | dict):
        compare, size = _LENGTH_LIMITS[kind], float(len(value))
    elif isinstance(value, int | float) and kind != "boolean":
        compare, size = _NUMBER_LIMITS, value
    else:
        return True
    return all(compare[word](size, limit) for word, limit in limits.items() if word in compare)


def _equals(value: object, literal: object, levels: int = MAX_CHECKED_DEPTH) -> bool:
    """Whether two JSON values are equal in so many levels; 1 is 1.0, but not true."""
    if not levels:
        return True
    if isinstance(value, dict) and isinstance(literal, dict):
        return value.keys() == literal.keys() and all(
            _equals(value[key], literal[key], levels - 1) for key in value
        )
    if isinstance(value, list) and isinstance(literal, list):
        return len(value) == len(literal) and all(map(_equals, value, literal, repeat(levels - 1)))
    return isinstance(value, bool) == isinstance(literal, bool) and value == literal
