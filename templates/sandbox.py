"""The Jinja environment of chat templates: sandboxed, and bounded in what a template may make.

A template comes with a model and is not trusted. `time_limit` stops it at a bytecode, but a single
operation (`7 ** 10 ** 9`, `'x' * 10 ** 9`, `'%0999999999d' % 1`) takes its time and memory before
the next bytecode and lets no other thread run meanwhile. So the size of what an operator, a filter
or a method makes is worked out before, and counted: a template that would make more than
`MAX_MADE` characters for one prompt is stopped. Nothing is computed when a template is loaded.

Lists may contain one another in such a way that the text of a short one is endless (`[x, x]`, again
and again). `weigh` gives the length of that text without writing it, and is asked before Python
would write or compare a list.
"""

from __future__ import annotations

import itertools
import operator
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from typing_extensions import override

# What operators, filters and methods of a template make for one prompt, in characters. A prompt of
# a million tokens is rendered with a few times its 4 million characters.
MAX_MADE = 268_435_456
# Of one number.
MAX_BITS = 4096
# The digits of a width in a format; the places to which a number is rounded.
MAX_WIDTH_DIGITS = 4
MAX_PRECISION = 300
# Lists and objects in each other.
MAX_NESTING = 200
# Characters of a template's output that are counted together.
COUNTED_AT_ONCE = 65_536


class TemplateLimitError(SecurityError):
    """The template makes more than a prompt needs."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the chat template makes {what}")


class _Budget(threading.local):
    """What the template that this thread renders may still make, in characters."""

    left = MAX_MADE


_budget = _Budget()


def spend(size: int) -> None:
    """Count something that is about to be made. Raises `TemplateLimitError`."""
    _budget.left -= max(0, size)  # also where the size is no number
    if _budget.left < 0:
        raise TemplateLimitError(f"more than {MAX_MADE:,} characters")


# Values that are compared and written at no cost that would have to be counted.
_PLAIN = frozenset({str, int, float, bool, type(None)})
# About the length of a number's text, and of what stands between two values.
_NUMBER, _BETWEEN = 16, 4


def weigh(value: object) -> int:
    """Return about how long the text of `value` is. Raises `TemplateLimitError` for deep nesting.

    Linear in what exists: a list that occurs several times is looked at once.
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
            elif kind in _PLAIN:
                weight += _NUMBER
            else:
                weight += _weigh(part, known, depth + 1) + _BETWEEN
        known[id(value)] = weight
    return weight


def _find_parts(value: object) -> Iterable[Any] | None:
    """Return what is in a container; None for other values."""
    if isinstance(value, dict):
        return itertools.chain(value, value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, Namespace):
        attributes: Mapping[str, Any] = object.__getattribute__(value, "_Namespace__attrs")
        return attributes.values()
    return None


def _measure(made: str | bytes | list[Any] | tuple[Any, ...]) -> int:
    """Return the memory of a text in characters; of a list, that of its references."""
    return len(made) if isinstance(made, str | bytes) else 8 * len(made)


# Operators.


def _check_product(left: object, right: object) -> None:
    for number, other in ((left, right), (right, left)):
        if isinstance(number, int) and isinstance(other, str | bytes | list | tuple):
            spend(max(0, number) * (_measure(other) + 1))
            return
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())


def _check_power(left: object, right: object) -> None:
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        _check_bits(left.bit_length() * right)


def _check_numbers(left: object, right: object) -> None:
    """Long integers are divided in the square of their length."""
    for number in (left, right):
        if isinstance(number, int):
            _check_bits(number.bit_length())


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TemplateLimitError(f"a number of more than {MAX_BITS} bits")


def _check_sum(left: object, right: object) -> None:
    if type(left) is str and type(right) is str:
        spend(len(left) + len(right))
    elif isinstance(left, str | bytes | list | tuple) and isinstance(right, type(left)):
        spend(_measure(left) + _measure(right))


_WIDTH = re.compile(rf"%(?:\([^)]*\))?[-#0 +]*(?:\d*\.)?(?:\*|\d{{{MAX_WIDTH_DIGITS + 1},}})")
_FORMAT_WIDTH = re.compile(rf"\{{[^{{}}]*:[^{{}}]*(?:\{{|\d{{{MAX_WIDTH_DIGITS + 1},}})")


def _check_percent(text: object, values: object) -> None:
    if isinstance(text, str | bytes):
        shown = text if isinstance(text, str) else text.decode("latin-1")
        _check_format(shown, "%", _WIDTH, values)
    else:
        _check_numbers(text, values)


def _check_format(text: str, mark: str, width: re.Pattern[str], values: object) -> None:
    if width.search(text):
        raise TemplateLimitError(f"text of a width with more than {MAX_WIDTH_DIGITS} digits")
    spend(len(text) + text.count(mark) * (weigh(values) + 10**MAX_WIDTH_DIGITS))


_BINOPS: Mapping[str, Callable[[object, object], None]] = {
    "*": _check_product,
    "**": _check_power,
    "+": _check_sum,
    "%": _check_percent,
    **dict.fromkeys(("/", "//"), _check_numbers),
}

# Methods and filters: the size of what they make, or more.


def _size_of_width(text: Any, width: int = 80, *_: object) -> int:
    return max(len(text), width)


def _size_of_expandtabs(text: Any, tabsize: int = 8) -> int:
    tabs: int = text.count("\t" if isinstance(text, str) else b"\t")
    return len(text) + tabs * max(0, tabsize)


def _size_of_replace(text: Any, old: Any, new: Any, *_: object, **__: object) -> int:
    found = weigh(text)
    occurrences = text.count(old) if isinstance(text, str | bytes) and old else found + 1
    return int(found + occurrences * weigh(new))


def _size_of_join(separator: Any, items: list[object]) -> int:
    return weigh(items) + len(items) * len(separator)


def _size_of_integer(text: Any, *_: object, **__: object) -> int:
    if isinstance(text, str | bytes):
        _check_bits(len(text))
    return 0


def _size_of_division(number: object, divisor: object) -> int:
    _check_numbers(number, divisor)
    return 0


def _size_of_encode(text: Any, encoding: str = "utf-8", *_: object) -> int:
    # Some of Python's codecs take a time that grows with the square of the length.
    length: int = len(text)
    return length * (4 if encoding.lower().startswith("utf") else length)


_METHODS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _size_of_width),
    "expandtabs": _size_of_expandtabs,
    "replace": _size_of_replace,
    "join": _size_of_join,
    "encode": _size_of_encode,
    "translate": lambda text, table: len(text) * weigh(table),
    "from_bytes": lambda _number, data, *_, **__: _size_of_integer(data),
    "to_bytes": lambda _number, length=1, *_, **__: length,
    "count": lambda items, *wanted: weigh(items) + weigh(wanted),
    "index": lambda items, *wanted: weigh(items) + weigh(wanted),
}


def _size_of_filter_join(items: list[object], d: str = "", *_: object, **__: object) -> int:
    return weigh(items) + len(items) * len(d)


def _size_of_indent(text: Any, width: int | str = 4, *_: object, **__: object) -> int:
    lines = text.count("\n") + 1 if isinstance(text, str) else weigh(text)
    return weigh(text) + lines * (len(width) if isinstance(width, str) else width)


def _size_of_wordwrap(text: Any, *wrapping: object, wrapstring: str = "", **_: object) -> int:
    return weigh(text) * (2 + max(map(weigh, (*wrapping, wrapstring))))


def _size_of_json(
    value: object, *layout: object, indent: object = None, separators: object = None, **_: object
) -> int:
    given = [part for part in (*layout, indent, separators) if part is not None]
    return weigh(value) * (1 + sum(_find_width(part) for part in given))


def _find_width(value: object) -> int:
    return max(0, value) if isinstance(value, int) else weigh(value)


def _size_of_round(_value: object, precision: int = 0, *_: object) -> int:
    if abs(precision) > MAX_PRECISION:
        raise TemplateLimitError(f"a number with more than {MAX_PRECISION} places")
    return 0


def _size_of_format(text: Any, *values: object, **named: object) -> int:
    _check_percent(str(text) if isinstance(text, str) else "", values or named)
    return 0


def _size_of_number(_value: object, number: int, *_: object, **__: object) -> int:
    return number * 8


def _size_of_value(value: object, *_: object, **__: object) -> int:
    return weigh(value)


def _size_of_comparison(*values: object) -> int:
    """Only lists and objects are compared at length, and only with each other."""
    return 0 if any(type(value) in _PLAIN for value in values) else weigh(values)


_FILTERS: Mapping[str, Callable[..., int]] = {
    "center": _size_of_width,
    "indent": _size_of_indent,
    "join": _size_of_filter_join,
    "replace": _size_of_replace,
    "wordwrap": _size_of_wordwrap,
    "tojson": _size_of_json,
    "round": _size_of_round,
    "int": _size_of_integer,
    "format": _size_of_format,
    **dict.fromkeys(("batch", "slice"), _size_of_number),
    **dict.fromkeys(
        (
            *("string", "pprint", "sort", "unique", "groupby", "min", "max", "xmlattr", "sum"),
            *("dictsort", "escape", "e", "forceescape", "urlencode", "lower", "upper", "title"),
            *("capitalize", "trim", "striptags", "truncate", "wordcount", "list", "reverse"),
        ),
        _size_of_value,
    ),
}
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "gt")},
    "lteq": operator.le,
    "gteq": operator.ge,
    "in": lambda value, items: value in items,
    "notin": lambda value, items: value not in items,
}
_COMPARING_TESTS = (
    *("eq", "==", "equalto", "ne", "!=", "lt", "<", "lessthan", "le", "<="),
    *("gt", ">", "greaterthan", "ge", ">=", "in"),
)


class _CodeGenerator(CodeGenerator):
    """Hands over to the environment what Jinja lets Python do by itself. Folds no constants."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer = None

    @override
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concatenate((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    @override
    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        left = node.expr
        self.write("(")
        for position, operand in enumerate(node.ops):
            self.write(" and " if position else "")
            self.write(f"environment.compare({operand.op!r}, ")
            self.visit(left, frame)
            self.write(", ")
            self.visit(operand.expr, frame)
            self.write(")")
            left = operand.expr
        self.write(")")


class _Template(jinja2.Template):
    """A template that gets a new budget for each prompt."""

    @override
    def render(self, *args: Any, **kwargs: Any) -> str:
        _budget.left = MAX_MADE
        return super().render(*args, **kwargs)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with bounds. Its templates raise `TemplateLimitError` beyond them."""

    code_generator_class = _CodeGenerator
    template_class = _Template
    intercepted_binops = frozenset(_BINOPS)

    def __init__(self, **options: Any) -> None:
        # A function that needs the context cannot be called before a template is rendered.
        super().__init__(finalize=_finalize, optimized=False, **options)
        for names in (self.globals, self.filters):
            for name in ("lipsum", "urlize"):  # they make text of their own
                names.pop(name, None)
        self.filters |= {name: _bound(self.filters[name], size) for name, size in _FILTERS.items()}
        tests: dict[str, Any] = self.tests
        for name in _COMPARING_TESTS:
            tests[name] = _bound(tests[name], _size_of_comparison)
        tests["divisibleby"] = _bound(tests["divisibleby"], _size_of_division)

    def add_filter(self, name: str, function: Callable[..., object]) -> None:
        """Replace a filter, bounded as Jinja's own of that name."""
        self.filters[name] = _bound(function, _FILTERS[name])

    @override
    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _BINOPS[operator](left, right)
        return super().call_binop(context, operator, left, right)

    @override
    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(obj, "__self__", None)
        if owner is int or isinstance(owner, str | bytes | int | list | tuple):
            size = _METHODS.get(obj.__name__)
            if obj.__name__ == "join" and len(args) == 1:
                args = (list(args[0]),)
            if size is not None:
                spend(size(owner, *args, **kwargs))
        result = super().call(context, obj, *args, **kwargs)
        if isinstance(result, str | bytes | list | tuple):
            spend(_measure(result))
        return result

    @override
    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        made: Callable[..., str] = wrapped

        @wraps(made)
        def bounded(*args: Any, **kwargs: Any) -> str:
            _check_format(str(value.__self__), "{", _FORMAT_WIDTH, (args, kwargs))
            return made(*args, **kwargs)

        return bounded

    def concatenate(self, values: tuple[object, ...]) -> str:
        """Return the texts of `values`, one after the other."""
        spend(sum(map(weigh, values)))
        return "".join(map(str, values))

    def compare(self, operator: str, left: Any, right: Any) -> bool:
        """Return what an operator of a template says of two values."""
        if type(left) not in _PLAIN and type(right) not in _PLAIN:
            spend(weigh((left, right)))
        return _COMPARISONS[operator](left, right)

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Return the texts that a template or a macro has made, as one."""
        made: list[str] = []
        size = 0
        for part in parts:
            size += len(part) + 8
            if size > COUNTED_AT_ONCE:
                spend(size)
                size = 0
            made.append(part)
        spend(size)
        return "".join(made)


@pass_context
def _finalize(_context: Context, value: object) -> object:
    if not isinstance(value, str):
        spend(weigh(value))
    return value


def _bound(function: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
    """Return a filter or test that counts what it makes. size: of that, from its arguments."""
    first = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        own = list(args)
        if len(own) > first and hasattr(own[first], "__next__"):
            own[first] = list(own[first])  # a generator, which can be read once only
        spend(size(*own[first:], **kwargs))
        return function(*own, **kwargs)

    return bounded
