"""Prices of a chat template's operations: the maximum number of characters each one creates.

A template comes with a model and is not trusted. `time_limit` stops it at a bytecode, but a single
operation (`7 ** 10 ** 9`, `'x' * 10 ** 9`, `'%0999999999d' % 1`) may take too much time and memory
before the next bytecode, while no other thread runs. So the size of the result of each operator,
filter or method is computed first and counted: a template that would create more than `MAX_MADE`
characters for one prompt is stopped.

A short list may have an extremely long text if lists contain one another repeatedly (`[x, x]`).
`weigh` computes the length of that text without writing it, before Python writes, compares or
hashes a list or a tuple.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

from ..base.limits import MAX_BITS, MAX_MADE, MAX_NESTING, MAX_WIDTH_DIGITS

MAX_PRECISION = 300


Price: TypeAlias = Callable[..., int] | None
"""Computes the size of a function's result from its arguments; None: at most their size."""


class TemplateLimitError(SecurityError):
    """The template creates more than a prompt needs."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the chat template makes {what}")


class _Budget(threading.local):
    """The characters that the template in this thread may still make."""

    left = MAX_MADE


_budget = _Budget()


def reset_budget() -> None:
    """Start counting for another prompt."""
    _budget.left = MAX_MADE


def spend(size: int) -> None:
    """Count something before it is created. Raises `TemplateLimitError`."""
    _budget.left -= max(0, size)  # also if the size is not a number
    if _budget.left < 0:
        raise TemplateLimitError(f"more than {MAX_MADE:,} characters")


# Types whose values are cheap to compare and to write.
PLAIN = frozenset({str, int, float, bool, type(None)})
# The approximate length of a number's text, and of a separator.
_NUMBER, _BETWEEN = 16, 4


def weigh(value: object) -> int:
    """Return the approximate length of `value` as text. Raises `TemplateLimitError` if too deep.

    Linear in the objects that exist: a list that occurs several times is visited once.
    """
    if type(value) is str:
        return len(value) + 2
    return _weigh(value, {}, 0)


def _weigh(value: object, known: dict[int, int], depth: int) -> int:
    if isinstance(value, str | bytes):
        return len(value) + 2
    parts = _find_parts(value)
    if parts is None:
        return _NUMBER
    if depth > MAX_NESTING:
        raise TemplateLimitError(f"a list in more than {MAX_NESTING} others")
    weight = known.get(id(value))
    if weight is None:
        weight = 2
        for part in parts:
            kind = type(part)
            if kind is str:
                weight += len(part) + _BETWEEN
            elif kind in PLAIN:
                weight += _NUMBER
            else:
                weight += _weigh(part, known, depth + 1) + _BETWEEN
        known[id(value)] = weight
    return weight


def _find_parts(value: object) -> Iterable[Any] | None:
    """Return the content of a container; None for other values."""
    if isinstance(value, dict):
        return itertools.chain(value, value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, Namespace):
        attributes: Mapping[str, object] = object.__getattribute__(value, "_Namespace__attrs")
        return attributes.values()
    return None


def measure(made: str | bytes | list[object] | tuple[object, ...]) -> int:
    """Return the memory of a text in characters; of a list, that of its references."""
    return len(made) if isinstance(made, str | bytes) else 8 * len(made)


# Upper bounds of results: of operators from both operands, of methods from the object and the
# arguments, of filters from the value and the arguments.


def _size_of_product(left: object, right: object) -> int:
    for number, other in ((left, right), (right, left)):
        if isinstance(number, int) and isinstance(other, str | bytes | list | tuple):
            return max(0, number) * (measure(other) + 1)
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    return 0


def _size_of_power(left: object, right: object) -> int:
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        _check_bits(left.bit_length() * right)
    return 0


def _size_of_quotient(left: object, right: object) -> int:
    """Long integers are divided in time quadratic in their length."""
    for number in (left, right):
        if isinstance(number, int):
            _check_bits(number.bit_length())
    return 0


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TemplateLimitError(f"a number of more than {MAX_BITS} bits")


def _size_of_concatenation(left: object, right: object) -> int:
    if isinstance(left, str | bytes | list | tuple) and isinstance(right, type(left)):
        return measure(left) + measure(right)
    return 0


_WIDTH = re.compile(rf"%(?:\([^)]*\))?[-#0 +]*(?:\d*\.)?(?:\*|\d{{{MAX_WIDTH_DIGITS + 1},}})")
_FORMAT_WIDTH = re.compile(rf"\{{[^{{}}]*:[^{{}}]*(?:\{{|\d{{{MAX_WIDTH_DIGITS + 1},}})")


def _size_of_percent(text: object, values: object) -> int:
    if not isinstance(text, str | bytes):
        return _size_of_quotient(text, values)
    shown = text if isinstance(text, str) else text.decode("latin-1")
    return _size_of_fields(shown, "%", _WIDTH, values)


def size_of_format(text: str, values: object) -> int:
    """Return the size of the result of `str.format`."""
    return _size_of_fields(text, "{", _FORMAT_WIDTH, values)


def _size_of_fields(text: str, mark: str, width: re.Pattern[str], values: object) -> int:
    if width.search(text):
        raise TemplateLimitError(f"text of a width with more than {MAX_WIDTH_DIGITS} digits")
    return len(text) + text.count(mark) * int(weigh(values) + 10**MAX_WIDTH_DIGITS)


def _size_of_width(text: Any, width: int = 80, *_: object) -> int:
    return max(len(text), width)


def _size_of_expandtabs(text: Any, tabsize: int = 8) -> int:
    tabs: int = text.count("\t" if isinstance(text, str) else b"\t")
    return len(text) + tabs * max(0, tabsize)


def _size_of_replace(text: Any, old: Any, new: Any, *_: object, **__: object) -> int:
    found = weigh(text)
    occurrences = text.count(old) if isinstance(text, str | bytes) and old else found + 1
    return int(found + occurrences * weigh(new))


def _size_of_join(items: list[object], d: Any = "", *_: object, **__: object) -> int:
    return weigh(items) + len(items) * len(d)


def _size_of_integer(text: Any, *_: object, **__: object) -> int:
    if isinstance(text, str | bytes):
        _check_bits(len(text))
    return 0


def _size_of_encode(text: Any, encoding: str = "utf-8", *_: object) -> int:
    # Some of Python's codecs take time quadratic in the length.
    length: int = len(text)
    return length * (4 if encoding.lower().startswith("utf") else length)


def _size_of_indent(text: Any, width: int | str = 4, *_: object, **__: object) -> int:
    lines = text.count("\n") + 1 if isinstance(text, str) else weigh(text)
    return weigh(text) + lines * (len(width) if isinstance(width, str) else width)


def _size_of_wordwrap(text: Any, *wrapping: object, wrapstring: str = "", **_: object) -> int:
    return weigh(text) * (2 + max(map(weigh, (*wrapping, wrapstring))))


def _size_of_json(
    value: object, *layout: object, indent: object = None, separators: object = None, **_: object
) -> int:
    given = [part for part in (*layout, indent, separators) if part is not None]
    widths = (max(0, part) if isinstance(part, int) else weigh(part) for part in given)
    return weigh(value) * (1 + sum(widths))


def _size_of_round(_value: object, precision: int = 0, *_: object) -> int:
    if abs(precision) > MAX_PRECISION:
        raise TemplateLimitError(f"a number with more than {MAX_PRECISION} places")
    return 0


def _size_of_filter_format(value: object, *values: object, **named: object) -> int:
    spend(weigh(value))  # before its text is made
    return _size_of_percent(str(value), values or named)


def _size_of_value(value: object, *_: object, **__: object) -> int:
    return weigh(value)


def size_of_comparison(*values: object) -> int:
    """Return the cost of a comparison: only lists and objects take long, with each other."""
    return 0 if any(type(value) in PLAIN for value in values) else weigh(values)


def _size_of_sum(items: Any, *given: object, **named: object) -> int:
    start = named.get("start", given[1] if len(given) > 1 else 0)
    # Values other than numbers are copied for each item.
    return weigh(items) * (1 if isinstance(start, int | float) else len(items) + 1)


OPERATORS: Mapping[str, Callable[[object, object], int]] = {
    "*": _size_of_product,
    "**": _size_of_power,
    "+": _size_of_concatenation,
    "%": _size_of_percent,
    **dict.fromkeys(("/", "//"), _size_of_quotient),
}
METHODS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _size_of_width),
    "expandtabs": _size_of_expandtabs,
    "replace": _size_of_replace,
    "join": lambda separator, items: _size_of_join(items, separator),
    "encode": _size_of_encode,
    "translate": lambda text, table: len(text) * weigh(table),
    "from_bytes": lambda _number, data, *_, **__: _size_of_integer(data),
    "to_bytes": lambda _number, length=1, *_, **__: length,
    **dict.fromkeys(("count", "index"), lambda items, *wanted: weigh(items) + weigh(wanted)),
}
# All filters, tests and globals of a template. Jinja's others are removed: additions in a new
# version of Jinja must be priced here first.
FILTERS: Mapping[str, Price] = {
    "attr": lambda _value, name: weigh(name),
    "center": _size_of_width,
    "indent": _size_of_indent,
    "join": _size_of_join,
    "replace": _size_of_replace,
    "wordwrap": _size_of_wordwrap,
    "tojson": _size_of_json,
    "round": _size_of_round,
    "int": _size_of_integer,
    "format": _size_of_filter_format,
    "sum": _size_of_sum,
    **dict.fromkeys(("batch", "slice"), lambda _value, number, *_, **__: number * 8),
    **dict.fromkeys(
        (
            "string safe pprint sort unique groupby min max xmlattr dictsort escape e "
            "forceescape urlencode lower upper title capitalize trim striptags truncate "
            "wordcount list reverse".split()
        ),
        _size_of_value,
    ),
    **dict.fromkeys(
        "abs count d default filesizeformat first float items last length map random "
        "reject rejectattr select selectattr".split()
    ),
}
TESTS: Mapping[str, Price] = {
    "divisibleby": _size_of_quotient,
    **dict.fromkeys(("lower", "upper"), _size_of_value),
    **dict.fromkeys(
        ("eq == equalto ne != lt < lessthan le <= gt > greaterthan ge >= in".split()),
        size_of_comparison,
    ),
    **dict.fromkeys(
        "boolean callable defined escaped even false filter float integer iterable "
        "mapping none number odd sameas sequence string test true undefined".split()
    ),
}
GLOBALS = ("cycler", "dict", "joiner", "namespace", "range")
