"""A model's output format as a table of states and markers."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.errors import SetupError
from .arguments.json_calls import CallKeys
from .structural_tag import CallTags


class State(enum.Enum):
    """What the text between two markers is.

    Text for the client:

    START: white space before the first word; from there on, CONTENT.
    CONTENT, REASONING: the answer and the reasoning.
    REASONING_OPENED: reasoning that the prompt has opened. The model may still write the marker.
    CODE_FENCE, CODE_BLOCK: content that is a Markdown code block: its first line, and the rest.

    Markup:

    IGNORED: dropped. TOOL_SECTION: between calls; only white space is expected.
    HEADER: its text says what follows (`Format.headers`).
    NAME: the function's name. KEY: a parameter's name. PARAMETERS: between parameters.

    Values and calls:

    VALUE: a parameter's value, typed by the declared schema.
    STRING, JSON: a parameter's value that is a string, or JSON, whatever is declared.
    ARGUMENTS: the object of all arguments, as JSON or close to it.
    ELEMENTS: the members of that object as XML elements.
    JSON_CALLS: objects with name and arguments.
    PYTHON_CALLS, PYTHON_LINES: a list of calls as in Python, or one call after the other.
    CALL_LIST: a list of calls as in Python, or call objects.
    """

    # Enum defines `__hash__` in Python, and states are looked up in sets for every token.
    __hash__ = object.__hash__

    START = enum.auto()
    REASONING_OPENED = enum.auto()
    CONTENT = enum.auto()
    CODE_FENCE = enum.auto()
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
    CALL_LIST = enum.auto()


class Jump(enum.Enum):
    """A target that is no state itself: which state follows is known only while reading.

    RETURN: the text that the calls interrupted. BY_HEADER: the state that the header names.
    """

    # For the same reason as in `State`.
    __hash__ = object.__hash__

    RETURN = enum.auto()
    BY_HEADER = enum.auto()


# Content in which text that looks like a marker is an example.
CODE_STATES = frozenset({State.CODE_FENCE, State.CODE_BLOCK})
TEXT_STATES = CODE_STATES | {
    State.START,
    State.REASONING_OPENED,
    State.CONTENT,
    State.REASONING,
}
# States whose tokens count as reasoning.
REASONING_STATES = frozenset({State.REASONING, State.REASONING_OPENED})
# States that hold the value of one parameter.
VALUE_STATES = frozenset({State.VALUE, State.STRING, State.JSON})
# States whose text is collected until the next marker.
COLLECTED_STATES = frozenset({State.HEADER, State.NAME, State.KEY})
# States that lead into a call; without tools they are never entered.
CALL_STATES = frozenset(
    {
        State.TOOL_SECTION,
        State.NAME,
        State.ARGUMENTS,
        State.ELEMENTS,
        State.JSON_CALLS,
        State.PYTHON_CALLS,
        State.PYTHON_LINES,
        State.CALL_LIST,
    }
)

# Reasoning, and what may lead to it: no stop string counts there.
UNSTOPPED = REASONING_STATES | {State.HEADER}
# What a marker that ends a call, or follows one, leads to.
CALL_ENDS = TEXT_STATES | {State.TOOL_SECTION, State.IGNORED, Jump.RETURN, Jump.BY_HEADER}
# What may stand between a call's name and its first argument.
FRAME_STATES = frozenset(
    {State.PARAMETERS, State.ARGUMENTS, State.ELEMENTS, State.HEADER, State.IGNORED}
)
# Where the output ends within an argument.
INSIDE_ARGUMENT = VALUE_STATES | {State.KEY, State.HEADER}
# There a key without its value, or the beginning of a marker, belongs to the next argument.
BETWEEN_ARGUMENTS = frozenset({State.PARAMETERS, State.ELEMENTS})
# Entering one of these ends a call that is open.
OUTSIDE_CALLS = TEXT_STATES | {State.TOOL_SECTION, State.NAME}


@dataclass(frozen=True)
class ReuseSuffix:
    """A target whose text begins with the last `length` characters of the marker.

    For example, `{` ends a name and begins the arguments.
    """

    state: State | Jump
    length: int = 1


Target = State | Jump | ReuseSuffix


def target_state(target: Target) -> State | Jump:
    """Return the state that `target` leads to, or the jump that will find it."""
    return target.state if isinstance(target, ReuseSuffix) else target


# A marker of no characters: followed when the grammar of the state has read a whole value.
COMPLETE = ""


@dataclass(frozen=True)
class Format:
    """Markers and the states they lead to.

    name, aliases: formats of calls share one name space, those of reasoning another.
    states: by state, each marker's target. START also has the markers of CONTENT; REASONING those
        markers of CONTENT that lead to calls.
    initial_state: the state before the first token, unless the prompt decides.
    headers: what the text of a HEADER leads to; the first pattern found in it wins. Its groups
        `name`, `id` and `key` are the function's name, the call's id and the parameter's name.
        `Jump.RETURN` leads back to the text that the header interrupted.
    header: the text of a HEADER; it must match every beginning, too. None for any text.
    separator: text between two messages of one kind, each with a header, that follow each other.
    function: the text of a NAME, with the group `name` and perhaps `id`. It must match every
        beginning of a name, too.
    keys: the keys of the objects in JSON_CALLS and CALL_LIST.
    declared_only: calls that no marker announces count only if their function is declared.
    quotes: marks around strings in ARGUMENTS, besides those of JSON.
    tag_prefix: text in front of each tag of ELEMENTS.
    strip: white space around a VALUE that is not part of it (`SchemaValue`).
    quotes_json: a VALUE that is a string, but looks like JSON, is written as a JSON string.
    undeclared_type: "string" or "json", for a VALUE that no schema declares.
    wrappers: parameters that may hold all arguments where the function declares no such parameter.
    thinks_by_default: for formats with REASONING, whether the model reasons from the first token
        although its prompt does not say so.
    thinking_flags: chat_template_kwargs that switch reasoning on or off, each with its default in
        the template. If there are several, one that is on is enough.
    prefix: content in front of every answer, which the model does not write.
    suffix: what a checkpoint may add to the names of the markers (`spell_markers`).
    call_tags: how the model writes calls if an engine holds it to that; None where no engine does.
    hints: texts of which a chat template of the family has at least one, where its markers are
        also those of another format (`detection`).
    source: where the format was read from.
    """

    name: str
    states: Mapping[State, Mapping[str, Target]]
    source: str
    aliases: tuple[str, ...] = ()
    initial_state: State = State.START
    headers: tuple[tuple[re.Pattern[str], State | Jump], ...] = ()
    header: re.Pattern[str] | None = None
    separator: str = ""
    function: re.Pattern[str] = re.compile(r"(?P<name>[^\s<>{}\[\]()\"'`]+)")
    keys: CallKeys = field(default_factory=CallKeys)
    declared_only: bool = False
    quotes: tuple[str, ...] = ()
    tag_prefix: str = ""
    strip: str | None = "\n"
    quotes_json: bool = False
    undeclared_type: str = "string"
    wrappers: tuple[str, ...] = ()
    thinks_by_default: bool = False
    thinking_flags: Mapping[str, bool] = field(default_factory=dict)
    prefix: str = ""
    suffix: re.Pattern[str] | None = None
    call_tags: CallTags | None = None
    hints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a table that could read a rejected call again for ever.

        Raises `SetupError` for a marker of a text state whose whole text is reused: a rejected
        call becomes text of that state again, and the marker with it. At the start of the
        output that cannot happen, since the text behind it is in another state.
        """
        for state in (State.CONTENT, State.REASONING, State.CODE_BLOCK):
            for marker, target in self.states.get(state, {}).items():
                if isinstance(target, ReuseSuffix) and target.length >= len(marker):
                    raise SetupError(
                        f"format {self.name!r}: marker {marker!r} of {state.name} reuses all its "
                        "text; reuse less of it, or put it into START."
                    )

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
