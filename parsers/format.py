"""A model's output format as a table."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .arguments.json_calls import CallKeys


class State(enum.Enum):
    """What the text between two markers is.

    START: nothing but white space so far; then, content.
    REASONING_OPENED: reasoning that its prompt has opened: the model may still write the marker.
    CONTENT, REASONING: text for the client. CODE_BLOCK: content in a Markdown code block.
    IGNORED: ignored, wherever it is. TOOL_SECTION: markup between calls; only white space is expected.
    HEADER: markup that says by its text what follows; see `Format.headers`.
    NAME: the function's name. KEY: a parameter's name.
    PARAMETERS: markup between parameters.
    VALUE: a parameter's value, typed by the declared schema. STRING: one that is
        a string whatever is declared. JSON: one that is JSON whatever is declared.
    ARGUMENTS: the arguments' object, as JSON or close to it. ELEMENTS: its members, as XML elements.
    JSON_CALLS: call objects with name and arguments. PYTHON_CALLS: calls in a list.
    PYTHON_LINES: calls one by one.
    """

    # Enum's own hash is a function in Python, and sets of states are asked for every token.
    __hash__ = object.__hash__

    START = enum.auto()
    REASONING_OPENED = enum.auto()
    CONTENT = enum.auto()
    CODE_BLOCK = enum.auto()
    REASONING = enum.auto()
    IGNORED = enum.auto()
    TOOL_SECTION = enum.auto()
    HEADER = enum.auto()
    NAME = enum.auto()
    KEY = enum.auto()
    PARAMETERS = enum.auto()
    VALUE = enum.auto()
    STRING = enum.auto()
    JSON = enum.auto()
    ARGUMENTS = enum.auto()
    ELEMENTS = enum.auto()
    JSON_CALLS = enum.auto()
    PYTHON_CALLS = enum.auto()
    PYTHON_LINES = enum.auto()


class Jump(enum.Enum):
    """A target that is no state itself: which state follows is known only while reading.

    RETURN: the text that the calls interrupted. BY_HEADER: the state that the header names.
    """

    # For the same reason as in `State`.
    __hash__ = object.__hash__

    RETURN = enum.auto()
    BY_HEADER = enum.auto()


TEXT_STATES = frozenset(
    {State.START, State.REASONING_OPENED, State.CONTENT, State.CODE_BLOCK, State.REASONING}
)
# What leads into a call; a model without tools does not go there.
CALL_STATES = frozenset(
    {
        State.TOOL_SECTION,
        State.NAME,
        State.ARGUMENTS,
        State.ELEMENTS,
        State.JSON_CALLS,
        State.PYTHON_CALLS,
        State.PYTHON_LINES,
    }
)


@dataclass(frozen=True)
class ReuseSuffix:
    """A target whose text begins with the last `length` characters of the marker."""

    state: State
    length: int = 1


Target = State | Jump | ReuseSuffix


def target_state(target: Target) -> State | Jump:
    """Return the state that `target` leads to, or the jump that will find it."""
    return target.state if isinstance(target, ReuseSuffix) else target


# A marker of no characters: the grammar of this state is complete.
COMPLETE = ""


@dataclass(frozen=True)
class Format:
    """Markers and what they lead to, by the state in which they count.

    name, aliases: what it is called; one name space for all formats.
    states: by state, each marker's target. START also knows the markers of
        CONTENT, REASONING those of CONTENT that lead to calls.
    initial_state: the state before the first token, where the prompt says nothing else.
    headers: what a HEADER may say and where that leads, the first match wins.
        The groups `name`, `id` and `key` of a pattern are the function's name,
        the call's id and the parameter's name.
    function: what NAME's text is made of, with groups `name` and maybe `id`.
    keys: how JSON_CALLS spell a call.
    declared_only: calls that no marker announces count only if their function is declared.
    quotes: marks of strings in ARGUMENTS besides JSON's.
    tag_prefix: what stands in front of each tag of ELEMENTS.
    strip: see `SchemaValue`. undeclared_type: "string" or "json", what a VALUE is that
        no schema declares.
    thinks_by_default: for formats with REASONING, whether the model reasons from the first
        token although its prompt does not say so.
    thinking_flags: chat_template_kwargs that switch reasoning on or off, with
        the value that the template takes for granted. Where there are several,
        one that is on is enough.
    source: where the format was read from.
    """

    name: str
    states: Mapping[State, Mapping[str, Target]]
    source: str
    aliases: tuple[str, ...] = ()
    initial_state: State = State.START
    headers: tuple[tuple[re.Pattern[str], State], ...] = ()
    function: re.Pattern[str] = re.compile(r"(?P<name>[^\s<>{}\[\]()\"'`]+)")
    keys: CallKeys = field(default_factory=CallKeys)
    declared_only: bool = False
    quotes: tuple[str, ...] = ()
    tag_prefix: str = ""
    strip: str | None = "\n"
    undeclared_type: str = "string"
    thinks_by_default: bool = False
    thinking_flags: Mapping[str, bool] = field(default_factory=dict)

    @property
    def parses_tools(self) -> bool:
        """Whether this format has tool calls."""
        reached = {
            target_state(target)
            for by_marker in self.states.values()
            for target in by_marker.values()
        }
        return not CALL_STATES.isdisjoint(reached.union(state for _, state in self.headers))

    @property
    def parses_reasoning(self) -> bool:
        """Whether this format has reasoning."""
        return State.REASONING in self.states
