"""A model's output format as a table of states and markers."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn, TypeAlias

from ..base.errors import SetupError
from .arguments.json_calls import CallKeys


class State(enum.Enum):
    """The kind of text between two markers.

    Text for the client:

    START: white space before the first word; from that on, CONTENT.
    CONTENT, REASONING: the answer and the reasoning.
    REASONING_OPENED: reasoning that the prompt has opened. The model may still write the marker.
    CODE_FENCE, CODE_BLOCK: content that is a Markdown code block: its first line, and the rest.

    Markup:

    IGNORED: dropped. TOOL_SECTION: between calls; only white space is expected.
    HEADER: its text determines what follows (`Format.headers`).
    NAME: the function's name. KEY: a parameter's name. PARAMETERS: between parameters.

    Values and calls:

    VALUE: a parameter's value, typed by the declared schema.
    STRING, JSON: a parameter's value that is a string, or JSON, whatever is declared.
    ARGUMENTS: the object of all arguments, as JSON or similar.
    ELEMENTS: the members of that object as XML elements.
    JSON_CALLS: objects with name and arguments.
    PYTHON_CALLS, PYTHON_LINES: a list of calls in Python's syntax, or calls in succession.
    CALL_LIST: calls in Python's syntax, in a list or in succession, or call objects.
    """

    # Enum implements `__hash__` in Python, and every token looks up states in sets.
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
    """A transition target that is resolved at run time.

    RETURN: the text that the calls interrupted. BY_HEADER: the state given by the header.
    """

    # As in `State`.
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
# The first text in these states belongs to the state after them.
FIRST_STATES = {State.START: State.CONTENT, State.REASONING_OPENED: State.REASONING}
# States whose tokens count as reasoning.
REASONING_STATES = frozenset({State.REASONING, State.REASONING_OPENED})
# States that hold the value of one parameter.
VALUE_STATES = frozenset({State.VALUE, State.STRING, State.JSON})
# States whose text is collected until the next marker.
COLLECTED_STATES = frozenset({State.HEADER, State.NAME, State.KEY})
# States whose text a grammar reads.
GRAMMAR_STATES = frozenset(
    {
        State.ARGUMENTS,
        State.ELEMENTS,
        State.JSON_CALLS,
        State.PYTHON_CALLS,
        State.PYTHON_LINES,
        State.CALL_LIST,
    }
)
# States that lead to a call; without tools they are never entered.
CALL_STATES = GRAMMAR_STATES | {State.TOOL_SECTION, State.NAME}

# Reasoning, and states that may lead to it: stop strings do not apply there.
UNSTOPPED = REASONING_STATES | {State.HEADER}
# Targets of markers that end a call or follow one.
CALL_ENDS = TEXT_STATES | {State.TOOL_SECTION, State.IGNORED, Jump.RETURN, Jump.BY_HEADER}
# States in which a call of a section begins.
CALL_HEADS: frozenset[State | Jump] = frozenset(
    CALL_STATES - {State.TOOL_SECTION} | {State.IGNORED}
)
# States that may occur between a call's name and its first argument.
FRAME_STATES = frozenset(
    {State.PARAMETERS, State.ARGUMENTS, State.ELEMENTS, State.HEADER, State.IGNORED}
)
# States in which the end of the output is within an argument.
INSIDE_ARGUMENT = VALUE_STATES | {State.KEY, State.HEADER}
# In these, a key without its value, or a partial marker, belongs to the next argument.
BETWEEN_ARGUMENTS = frozenset({State.PARAMETERS, State.ELEMENTS})
# Entering one of these ends an open call.
OUTSIDE_CALLS = TEXT_STATES | {State.TOOL_SECTION, State.NAME}


@dataclass(frozen=True)
class ReuseSuffix:
    """A target that reads the last `length` characters of the marker again, as its own text.

    For example, `{` ends a name and begins the arguments.
    said: how many characters at the marker's beginning stay text of the state it leaves.
    """

    state: State | Jump
    length: int = 1
    said: int = 0


Target = State | Jump | ReuseSuffix


def target_state(target: Target) -> State | Jump:
    """Return the state of `target`, or the jump that resolves to it."""
    return target.state if isinstance(target, ReuseSuffix) else target


States: TypeAlias = Mapping[State, Mapping[str, Target]]
"""By state, each marker's target."""


def select(by_marker: Mapping[str, Target], targets: Collection[State | Jump]) -> dict[str, Target]:
    """Return the markers that lead to one of `targets`."""
    return {
        marker: target for marker, target in by_marker.items() if target_state(target) in targets
    }


def find_markers(
    table: States, states: Iterable[State], targets: Collection[State | Jump]
) -> set[str]:
    """Return the markers, not empty, that lead from one of `states` to one of `targets`."""
    found = {marker for state in states for marker in select(table.get(state, {}), targets)}
    return found - {COMPLETE}


# An empty marker, followed when the state's grammar has read a whole value.
COMPLETE = ""

# States whose text has a grammar, and so an end without a marker.
COMPLETED_STATES = CALL_STATES - {State.TOOL_SECTION} | VALUE_STATES
# States whose text is read again after a rejected call.
REREAD_STATES = frozenset({State.CONTENT, State.REASONING, State.CODE_BLOCK})


class FormatError(SetupError):
    """The table of a format is wrong. field: which part of it."""

    def __init__(self, name: str, field_: str, problem: str) -> None:
        self.field = field_
        super().__init__(f"format {name!r}: `{field_}` {problem}.")


@dataclass(frozen=True)
class Literals:
    """How a model writes objects, lists and strings in arguments that are not JSON.

    between: the text between two members of an object, or items of a list.
    mark: the text around strings, which have no escapes, and bare keys; without one, strings and
        keys have the quotes and escapes of Python.
    """

    between: str
    mark: str = ""


@dataclass(frozen=True)
class Spelling:
    """How a model writes calls, for the grammar that holds it to them (`structural_tag`).

    Line breaks are optional, with the spaces after them, and so is white space between calls.

    call: with the placeholders `{name}` and `{arguments}`, and perhaps `{index}`, a number.
    around: the text before the first call and after the last one.
    between: the text between two calls.
    after_text: the markup of content that a model may write before calls, if there is any: before
        calls that would otherwise begin the answer, or around content, although it is empty.
    parameters: by the state of the value, a parameter with `{key}` and `{value}`, and perhaps
        `{type}`, the value's JSON type. None if the arguments are one JSON object.
    literals: the syntax of the parameters' values, if it is not text and JSON.
    """

    call: str
    around: tuple[str, str] = ("", "")
    between: str = ""
    after_text: str = ""
    parameters: Mapping[State, str] = field(default_factory=dict)
    literals: Literals | None = None

    def rename(self, spell: Callable[[str], str]) -> Spelling:
        """Return the spelling with the markers of a variant. spell: replaces them in a text."""
        begin, end = map(spell, self.around)
        parameters = {state: spell(text) for state, text in self.parameters.items()}
        between, after_text = spell(self.between), spell(self.after_text)
        call = spell(self.call)
        return Spelling(call, (begin, end), between, after_text, parameters, self.literals)


@dataclass(frozen=True)
class Format:
    """Markers, with the states they lead to.

    name, aliases: formats of calls share one name space, those of reasoning another.
    states: by state, each marker's target. START also has the markers of CONTENT; REASONING also
        those markers of CONTENT that lead to calls.
    initial_state: the state before the first token, unless the prompt decides.
    headers: patterns for the text of a HEADER with their targets; the first one found wins. The
        groups `name`, `id` and `key` are the function's name, the call's id, the parameter's name;
        a pattern with the group `declared` is only for declared functions;
        `text` is the message itself if the marker between header and message is missing.
        `Jump.RETURN` leads back to the text that the header interrupted.
    header: the text of a HEADER; must also match every beginning of it. None for any text.
    separator: text between two consecutive messages of one kind, each with a header.
    function: the text of a NAME, with the group `name` and perhaps `id`; must also match every
        beginning of a name.
    namespace: ends each namespace that the models write in front of a declared name.
    keys: the keys of the objects in JSON_CALLS and CALL_LIST.
    declared_only: calls without a preceding marker count only if their function is declared.
    quotes: additional marks around strings in ARGUMENTS.
    tag_prefix: text before each tag of ELEMENTS.
    strip: white space around a VALUE that is not part of it (`SchemaValue`).
    quotes_json: a VALUE that is a string, but looks like JSON, is written as a JSON string.
    undeclared_type: "string" or "json", for a VALUE without a declared schema.
    breaks_before_calls: the line breaks that chat templates write between text and a call.
    thinks_by_default: for formats with REASONING, whether the model reasons from the first token
        without a marker in its prompt.
    thinking_flags: chat_template_kwargs that enable reasoning, with their defaults in the
        template. If there are several, one that is on suffices.
    skips_words: words without a mark between parameters, each of which is closed, are dropped.
    prefix: content before every answer, which the model does not write.
    suffix: what a checkpoint may append to the names of the markers (`spell_markers`).
    spelling: the text of calls as the model writes it; None if no grammar constrains them.
    thought: where no marker alone begins reasoning, the texts for grammars before it, the marker
        that ends it, the text after that, and then the text before content.
    confused: names of tags, one of them in `states`, that the models write for each other.
    forms: other forms of its calls that the models were seen to write, with the same states. A call
        keeps the form in which it begins: the markers of another one are text in it.
    hints: texts of which the family's chat templates have at least one, if another format has
        the same markers (`detection`).
    source: where the format was taken from.
    """

    name: str
    states: States
    source: str
    aliases: tuple[str, ...] = ()
    initial_state: State = State.START
    headers: tuple[tuple[re.Pattern[str], State | Jump], ...] = ()
    header: re.Pattern[str] | None = None
    separator: str = ""
    function: re.Pattern[str] = re.compile(r"(?P<name>[^\s<>{}\[\]()\"'`]+)")
    namespace: str = ""
    keys: CallKeys = field(default_factory=CallKeys)
    declared_only: bool = False
    quotes: tuple[str, ...] = ()
    tag_prefix: str = ""
    strip: str | None = "\n"
    quotes_json: bool = False
    undeclared_type: str = "string"
    breaks_before_calls: int = 0
    thinks_by_default: bool = False
    thinking_flags: Mapping[str, bool] = field(default_factory=dict)
    skips_words: bool = False
    prefix: str = ""
    suffix: re.Pattern[str] | None = None
    spelling: Spelling | None = None
    thought: tuple[str, str, str, str] | None = None
    confused: tuple[str, ...] = ()
    forms: tuple[Format, ...] = ()
    hints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the table. Raises `FormatError` for the first field that is wrong."""
        if not isinstance(self.name, str) or not self.name:
            raise FormatError(self.name, "name", "must be a string that is not empty")
        if not isinstance(self.initial_state, State):
            self._refuse("initial_state", f"must be a State, not {self.initial_state!r}")
        for state, markers in self.states.items():
            if not isinstance(state, State):
                self._refuse("states", f"has a key that must be a State, not {state!r}")
            for marker, target in markers.items():
                self._check_marker(state, marker, target)
        self._check_headers()
        for state in self._entered():
            if state not in (State.START, State.CONTENT) and not self.states.get(state):
                self._refuse(f"states[{state.name}]", "needs a marker that ends it")

    def _check_headers(self) -> None:
        for position, (pattern, header) in enumerate(self.headers):
            if not isinstance(pattern, re.Pattern) or not isinstance(header, State | Jump):
                self._refuse(f"headers[{position}]", "must be a compiled pattern and a State")

    def _check_marker(self, state: State, marker: str, target: Target) -> None:
        field_ = f"states[{state.name}]"
        if not isinstance(marker, str):
            self._refuse(field_, f"has a marker that must be a string, not {marker!r}")
        if not isinstance(target, ReuseSuffix | State | Jump) or not isinstance(
            target_state(target), State | Jump
        ):
            self._refuse(f"{field_}[{marker!r}]", f"must lead to a State, not {target!r}")
        if marker == COMPLETE and state not in COMPLETED_STATES:
            self._refuse(field_, "must not have an empty marker: its text has no grammar")
        # A rejected call becomes text of that state again, with the marker: an endless loop. At the
        # start of the output the text after the marker is in another state.
        reused = target.length if isinstance(target, ReuseSuffix) else 0
        if state in REREAD_STATES and reused >= len(marker):
            self._refuse(f"{field_}[{marker!r}]", "must not reuse all its text, except in START")

    def _entered(self) -> set[State]:
        targets = (target for markers in self.states.values() for target in markers.values())
        states = {*map(target_state, targets), *(state for _, state in self.headers)}
        return {state for state in states if isinstance(state, State)} | {self.initial_state}

    def _refuse(self, field_: str, problem: str) -> NoReturn:
        raise FormatError(self.name, field_, problem)

    def spell(self, marker: str) -> list[str]:
        """Return `marker` in all spellings, with each of the `confused` names."""
        name = re.compile(rf"(?<=[^\w-])(?:{'|'.join(self.confused)})(?=>)")
        if not self.confused or name.search(marker) is None:
            return [marker]
        return [name.sub(other, marker) for other in self.confused]

    @property
    def parses_tools(self) -> bool:
        """Whether this format has tool calls."""
        return not CALL_STATES.isdisjoint(self._entered())

    @cached_property
    def has_channels(self) -> bool:
        """Whether all text stands in messages, whose headers say which are reasoning."""
        if self.initial_state is State.IGNORED:
            return True
        by_marker = self.states.get(State.HEADER, {})
        targets = [*map(target_state, by_marker.values()), *(state for _, state in self.headers)]
        return State.REASONING in targets

    @property
    def parses_reasoning(self) -> bool:
        """Whether this format has reasoning."""
        return State.REASONING in self.states
