"""Builds the test case of a recorded request on which two parsers differ.

The stream is the shortest that still differs, found by delta debugging of its tokens, then of its
parameters. Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
TSE 28(2), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import msgspec

from ...base.errors import SetupError
from ...base.json_types import check_nesting
from ...base.limits import MAX_TRIALS
from ...parsers.base import ParserNames
from ...parsers.parser_lookup import tool_format
from ...postprocess.messages import Chunk, PostprocessParams
from ...recording.comparison import ARGUMENTS, CALL, Difference
from ...recording.parser_case import Case, Expected, read_expected
from ...recording.recording import RecordedPrompt, Recording
from ...recording.rerun import Parts, cut, find_differences, prompt_ids, rerun
from ...tokenization.detokenizer import DetokenizerOptions, read_vocabulary
from ..load_model import LoadedModel

# Members of the parameters, of tools and of schemas that always remain.
KEPT = frozenset("parser tools type function name parameters properties".split())
# Members of which the names of all members are the request's own.
NAMED = ("properties", "chat_template_kwargs")
_SHOWN = DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False)


class Minimal(NamedTuple):
    """A case and the effort to find it. token_ids: of the case. before: their original number."""

    case: Case
    token_ids: list[int]
    before: int
    trials: int


def minimize_request(
    recording: Recording,
    model: LoadedModel,
    left: Parts,
    right: Parts,
    names: ParserNames,
) -> Minimal:
    """Return the case of the first choice on which two parsers differ.

    left: gives what the case shows as `instead`. right: gives the expectation. names: of right.
    Raises `SetupError` if they do not differ.
    """
    found = _run(recording, left, right)
    if found is None:
        raise SetupError(
            f"{left.name} and {right.name} give the same result for request "
            f"{recording.params.response_id}, so there is nothing to minimize."
        )
    single = _drop_prompt(_take_choice(recording, found[0].choice), left, right)
    (finish,) = (part.chunk for part in single.chunks[-1:])
    tokens = [token_id for part in single.chunks for token_id in part.chunk.token_ids]
    wanted = _sign(_run(_with_tokens(single, tokens, single.params, finish), left, right))
    if wanted is None:
        raise SetupError(
            f"{left.name} and {right.name} differ on the recorded chunks, but not token by token."
        )

    def build(token_ids: list[int], params: PostprocessParams) -> Recording:
        return _with_tokens(single, token_ids, params, finish)

    has_markers = _keep_markers(tokens, model, names) if wanted.is_of_call else bool

    def differs(token_ids: list[int], params: PostprocessParams) -> bool:
        if not has_markers(token_ids):
            return False
        return wanted.covers(_sign(_run(build(token_ids, params), left, right)))

    trials = Trials(differs)
    token_ids, params = minimize(tokens, single.params, trials)
    case = _describe(build(token_ids, params), model, left, right, names)
    return Minimal(case, token_ids, len(tokens), trials.count)


def _run(
    recording: Recording, left: Parts, right: Parts
) -> tuple[Difference, Expected, Expected] | None:
    """Return the first difference, token by token, and both sides' choice; None without one."""
    chunks = cut(recording, "1")
    ours, theirs = (rerun(recording, side, chunks) for side in (left, right))
    found = find_differences(recording, ours, theirs, is_sent=False)
    if not found:
        return None
    index = found[0].choice
    left_choice, right_choice = (
        read_expected([delta for part in side for delta in part.deltas if delta.index == index])
        for side in (ours, theirs)
    )
    return found[0], left_choice, right_choice


class Signature(NamedTuple):
    """The properties that a smaller stream must share in order to show the same fault.

    kinds: of text, where the sides diverge. finish_reason, is_whole: of the right side, which
        is whole if its calls are JSON. keys: those of its arguments, each with its value's type.
        lost: those that the left side lacks.
    """

    kinds: tuple[str, str]
    finish_reason: str | None
    is_whole: bool
    keys: frozenset[tuple[str, str]]
    lost: frozenset[tuple[str, str]]

    @property
    def is_of_call(self) -> bool:
        """Whether a call is on a side of the difference."""
        return any(kind.startswith((CALL, ARGUMENTS)) for kind in self.kinds)

    def covers(self, smaller: Signature | None) -> bool:
        """Whether `smaller` shows the same fault; its calls may have fewer arguments."""
        return (
            smaller is not None
            and smaller._replace(keys=self.keys, lost=self.lost) == self
            and all(
                part <= whole and bool(part) == bool(whole)
                for part, whole in ((smaller.keys, self.keys), (smaller.lost, self.lost))
            )
        )


def _keep_markers(
    tokens: list[int], model: LoadedModel, names: ParserNames
) -> Callable[[list[int]], bool]:
    """Return a test for token ids: whether they have all markers inside calls that `tokens` have.

    A model writes each at least once. names: further parsers beside the recorded ones.
    """
    texts = {one: model.detokenizers.read([one]) for one in tokens}
    both = {names.tool_call, model.recorded.parsers.tool_call}
    formats = [format_ for name in both if name and (format_ := tool_format(name))]
    markers = {
        marker
        for format_ in formats
        for state, by_marker in format_.states.items()
        if state is not format_.initial_state
        for marker in by_marker
    }

    def find(token_ids: list[int]) -> set[str]:
        text = "".join(texts[token_id] for token_id in token_ids)
        return {marker for marker in markers if marker in text}

    wanted = find(tokens)
    return lambda token_ids: find(token_ids) >= wanted


def _sign(run: tuple[Difference, Expected, Expected] | None) -> Signature | None:
    """Return the signature of a difference; None without one."""
    if run is None:
        return None
    difference, left, right = run
    (lacking, _), (keys, is_whole) = map(_read_keys, (left, right))
    kinds = difference.left.kind, difference.right.kind
    return Signature(kinds, right.finish_reason, is_whole, keys, keys - lacking)


def _read_keys(choice: Expected) -> tuple[frozenset[tuple[str, str]], bool]:
    """Return the keys of a choice's arguments with their types, and whether all are JSON."""
    keys: set[tuple[str, str]] = set()
    is_whole = True
    for call in choice.tool_calls:
        try:
            found = msgspec.json.decode(check_nesting(call.arguments), type=dict[str, object])
        except msgspec.DecodeError:
            is_whole = False
        else:
            keys.update((key, type(value).__name__) for key, value in found.items())
    return frozenset(keys), is_whole


def _take_choice(recording: Recording, index: int) -> Recording:
    """Reduce the request to this choice, as its choice 0, and streamed."""
    chunks = [
        msgspec.structs.replace(part, chunk=msgspec.structs.replace(part.chunk, index=0))
        for part in recording.chunks
        if part.chunk.index == index
    ]
    # Chunks after the finish do not matter.
    end = next(
        (number for number, part in enumerate(chunks, 1) if part.chunk.finish_reason), len(chunks)
    )
    params = msgspec.structs.replace(
        recording.params, n=1, stream=True, logprobs=None, return_token_ids=False
    )
    return msgspec.structs.replace(recording, params=params, chunks=chunks[:end], resumed=0)


def _drop_prompt(recording: Recording, left: Parts, right: Parts) -> Recording:
    """Remove the prompt if the difference remains the same without it."""
    bare = msgspec.structs.replace(recording, prompt=RecordedPrompt(sha256=""))
    wanted = _sign(_run(recording, left, right))
    is_same = wanted is not None and wanted.covers(_sign(_run(bare, left, right)))
    return bare if is_same else recording


def _with_tokens(
    recording: Recording, token_ids: list[int], params: PostprocessParams, finish: Chunk
) -> Recording:
    """Return a recording of these tokens in one chunk, with the original finish."""
    chunk = Chunk(
        token_ids=token_ids,
        finish_reason=finish.finish_reason if finish.token_ids else None,
        stop_reason=finish.stop_reason,
    )
    first = msgspec.structs.replace(recording.chunks[0], chunk=chunk)
    chunks = [first]
    if not finish.token_ids:
        chunks.append(msgspec.structs.replace(recording.chunks[0], chunk=finish))
    return msgspec.structs.replace(recording, params=params, chunks=chunks)


def _describe(
    recording: Recording,
    model: LoadedModel,
    left: Parts,
    right: Parts,
    names: ParserNames,
) -> Case:
    chunks = cut(recording, "1")
    params = recording.params
    token_ids = [token_id for chunk in chunks for token_id in chunk.token_ids]
    feed = model.detokenizers(_SHOWN, ()).feed
    tokens = [feed(token_id) for token_id in token_ids]
    prompt_feed = model.detokenizers(_SHOWN, ()).feed
    prompt = [prompt_feed(token_id) for token_id in _last_turn(prompt_ids(recording), model)]
    instead, expect = (
        read_expected([delta for part in rerun(recording, side, chunks) for delta in part.deltas])
        for side in (left, right)
    )
    vocabulary = read_vocabulary(model.tokenizer)
    used = {*tokens, *prompt}
    return Case(
        id=params.response_id,
        parsers=names,
        tokens=tokens,
        markers={
            text: token_id in vocabulary.special
            for text, token_id in vocabulary.ids.items()
            if text in used
        },
        prompt=prompt,
        request=params.parser,
        stop=params.stop,
        include_stop_str_in_output=params.include_stop_str_in_output,
        min_tokens=params.min_tokens,
        finish_reason=chunks[-1].finish_reason,
        expect=expect,
        expect_of=right.name,
        instead=instead,
        instead_of=left.name,
    )


def _last_turn(prompt: list[int], model: LoadedModel) -> list[int]:
    """Return the end of a prompt from its last special token on."""
    special = model.detokenizers.is_special
    start = next(
        (place for place in range(len(prompt) - 1, -1, -1) if special(prompt[place])), len(prompt)
    )
    return prompt[start:]


class Trials:
    """Counts trials. differs: whether tokens with parameters still show the difference."""

    def __init__(self, differs: Callable[[list[int], PostprocessParams], bool]) -> None:
        self._differs = differs
        self.count = 0

    @property
    def over(self) -> bool:
        """Whether the limit is reached."""
        return self.count >= MAX_TRIALS

    def differ(self, token_ids: list[int], params: PostprocessParams) -> bool:
        """Whether this smaller stream still differs."""
        if self.over:
            return False
        self.count += 1
        return self._differs(token_ids, params)


def minimize(
    token_ids: list[int], params: PostprocessParams, trials: Trials
) -> tuple[list[int], PostprocessParams]:
    """Return the fewest tokens and the simplest parameters that still differ.

    Nothing more can be left out, no single token and no part of the parameters, unless the limit
    of trials was reached.
    """
    while True:
        before = token_ids, params
        token_ids = minimize_tokens(token_ids, params, trials)
        params = simplify(token_ids, params, trials)
        if (token_ids, params) == before or trials.over:
            return token_ids, params


def minimize_tokens(items: list[int], params: PostprocessParams, trials: Trials) -> list[int]:
    """Return a part of `items` that still differs, in which each token is needed."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if rest and trials.differ(rest, params):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return items


def simplify(token_ids: list[int], params: PostprocessParams, trials: Trials) -> PostprocessParams:
    """Return parameters that still differ, in which each part is needed."""
    while True:
        simpler = (found for found in simpler_params(params) if trials.differ(token_ids, found))
        found = next(simpler, None)
        if found is None:
            return params
        params = found


def simpler_params(params: PostprocessParams) -> Iterator[PostprocessParams]:
    """Yield parameters with one part less, the largest part first."""
    for fields in simpler(msgspec.to_builtins(params)):
        try:
            found = msgspec.convert(fields, PostprocessParams)
        except msgspec.ValidationError:  # a required field is missing
            continue
        if found != params:
            yield found


def simpler(value: Any, kept: Collection[str | int] = KEPT) -> Iterator[Any]:
    """Yield a JSON value with one member or item less; the last item of an array remains.

    kept: the members that remain.
    """
    if isinstance(value, list):
        last = (0,) if len(value) == 1 else ()
        for items in simpler(dict(enumerate(value)), last):
            yield list(items.values())
    elif isinstance(value, dict):
        yield from (
            {key: value[key] for key in value if key != name} for name in value if name not in kept
        )
        for name, part in value.items():
            for each in simpler(part, () if name in NAMED else KEPT):
                yield {**value, name: each}
