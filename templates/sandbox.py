"""The Jinja environment of chat templates: sandboxed, with limits on what a template creates.

It passes each operation to `prices` first. Loading a template computes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from jinja2 import nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from typing_extensions import override

from .prices import (
    FILTERS,
    GLOBALS,
    METHODS,
    OPERATORS,
    TESTS,
    Price,
    measure,
    size_of_comparison,
    size_of_format,
    spend,
    weigh,
)
from .rendering import BoundedTemplate

T = TypeVar("T")

# Number of output characters that are counted together.
COUNTED_AT_ONCE = 65_536
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "gt")},
    "lteq": operator.le,
    "gteq": operator.ge,
    "in": lambda value, items: value in items,
    "notin": lambda value, items: value not in items,
}


class _CodeGenerator(CodeGenerator):
    """Passes operations that Jinja leaves to Python to the environment."""

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

    @override
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.cut(")
        self.visit(node.node, frame)
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            self.visit(bound or nodes.Const(None), frame)
        self.write(")")

    @override
    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("{")
        for item in node.items:
            self.write("environment.hashed(")
            self.visit(item.key, frame)
            self.write("): ")
            self.visit(item.value, frame)
            self.write(", ")
        self.write("}")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with limits, beyond which templates raise `TemplateLimitError`."""

    code_generator_class = _CodeGenerator
    template_class = BoundedTemplate
    intercepted_binops = frozenset(OPERATORS)

    def __init__(self, **options: Any) -> None:
        # Loading folds no constants: this is not optimized, and `_finalize` needs the context.
        super().__init__(finalize=_finalize, optimized=False, **options)
        self.globals = {name: self.globals[name] for name in GLOBALS}
        self.filters = _bound_all(self.filters, FILTERS)
        self.tests: dict[str, Any] = _bound_all(self.tests, TESTS)

    def add_filter(self, name: str, function: Callable[..., object]) -> None:
        """Replace a filter, with the limits of Jinja's own of that name."""
        self.filters |= _bound_all({name: function}, {name: FILTERS[name]})

    @override
    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        spend(OPERATORS[operator](left, right))
        return super().call_binop(context, operator, left, right)

    @override
    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: object) -> object:
        owner = getattr(obj, "__self__", None)
        if obj is dict or isinstance(owner, dict):
            spend(weigh(args))
        elif owner is int or isinstance(owner, str | bytes | int | list | tuple):
            size = METHODS.get(obj.__name__)
            if obj.__name__ == "join" and len(args) == 1:
                args = (list(args[0]),)
            if size is not None:
                spend(size(owner, *args, **kwargs))
        result = super().call(context, obj, *args, **kwargs)
        if isinstance(result, str | bytes | list | tuple):
            spend(measure(result))
        return result

    @override
    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        made: Callable[..., str] = wrapped

        @wraps(made)
        def bounded(*args: object, **kwargs: object) -> str:
            spend(size_of_format(str(value.__self__), (args, kwargs)))
            return made(*args, **kwargs)

        return bounded

    def concatenate(self, values: tuple[object, ...]) -> str:
        """Concatenate the texts of `values`."""
        spend(sum(map(weigh, values)))
        return "".join(map(str, values))

    def compare(self, operator: str, left: object, right: object) -> bool:
        """Apply a template's comparison operator."""
        spend(size_of_comparison(left, right))
        return _COMPARISONS[operator](left, right)

    @override
    def getitem(self, obj: object, argument: object) -> object:
        return super().getitem(obj, self.hashed(argument))

    @staticmethod
    def hashed(key: T) -> T:
        """Return a key that Python will hash; a tuple is hashed anew each time."""
        if type(key) is tuple:
            spend(weigh(key))
        return key

    @staticmethod
    def cut(value: Any, *bounds: Any) -> Any:
        """Return a slice, which is a copy."""
        part = value[slice(*bounds)]
        if isinstance(part, str | bytes | list | tuple):
            spend(measure(part))
        return part

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Concatenate the texts of a template or a macro."""
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


def _bound_all(
    functions: Mapping[str, Callable[..., object]], sizes: Mapping[str, Price]
) -> dict[str, Callable[..., object]]:
    """Return those filters or tests that have a price, wrapped to count it."""
    return {
        name: function if (size := sizes[name]) is None else _bound(function, size)
        for name, function in functions.items()
        if name in sizes
    }


def _bound(function: Callable[..., object], size: Callable[..., int]) -> Callable[..., object]:
    """Wrap a filter or test to count its result. size: of the result, from the arguments."""
    first = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def bounded(*args: Any, **kwargs: object) -> object:
        own = list(args)
        if len(own) > first and hasattr(own[first], "__next__"):
            own[first] = list(own[first])  # a generator can be read only once
        spend(size(*own[first:], **kwargs))
        return function(*own, **kwargs)

    return bounded
