"""Stop strings: the first one to be complete wins, and only a possible beginning is held back.

`StopFilteredParser` searches the model's raw text before the parser, so stop strings also end tool
calls and markup. Reasoning is not searched, except in an engine's own server. The token that ends
reasoning may hold the first text of the answer after its marker; only the parser can tell, so the
content of that token is searched after the parser.

`StopSearch` is an Aho-Corasick automaton, so the cost of a character does not depend on the number
or length of the stop strings. It differs from the textbook in two ways: the trie stores only the
places where stop strings diverge, not each character, and links are computed only when the text
needs them, since most texts never match more than a few characters.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ..parsers.base import StreamParser
from ..parsers.events import Content, Event
from ..parsers.held_back import HeldText, hold_pieces

Piece = tuple[str, int | None]
"""The text of one token and its id; the id is None for text that the parser already read."""

ROOT = 0
"""The state outside of any stop string."""

# Tries kept for later requests with the same list, at most about 1 MB each.
KEPT_LISTS = 64
KEPT_STOPS = 1024
KEPT_CHARACTERS = 32_768


class StopStrings:
    """A list of stop strings as an immutable trie, which choices share.

    A state is a prefix of one or more stop strings. A stop string that diverges from those
    before it becomes a line of its own, which owns the states from there on: the first `depth`
    characters of line `n` are the state `n * stride + depth`.

    ends: the states that are a whole stop string -> (its index in the list, the string).
    begins: finds the next position in a text where a stop string may begin.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        # Longest first: then no stop string continues after the end of a line.
        ranked = sorted(enumerate(stops), key=lambda entry: -len(entry[1]))
        self._lines = [stop for _, stop in ranked[:1]]
        self._stride = max(map(len, stops), default=0) + 1
        self._branches: dict[tuple[int, str], int] = {}
        self.ends: dict[int, tuple[int, str]] = {}
        for place, stop in ranked:
            self.ends.setdefault(self._insert(stop), (place, stop))
        self.search_start = re.compile(_beginnings(stops)).search

    def child(self, state: int, char: str) -> int | None:
        """Return the state that `char` leads to; None if no stop string has this prefix."""
        line, depth = divmod(state, self._stride)
        stop = self._lines[line]
        if depth < len(stop) and stop[depth] == char:
            return state + 1
        return self._branches.get((state, char))

    def open_length(self, state: int) -> int | None:
        """Return the length of the state's prefix; None if no longer stop string has it."""
        line, depth = divmod(state, self._stride)
        return depth if depth < len(self._lines[line]) else None

    def _insert(self, stop: str) -> int:
        """Add `stop`; return the state of the whole string."""
        line = depth = 0
        while True:
            depth = _shared(self._lines[line], stop, depth)
            state = line * self._stride + depth
            if depth == len(stop):
                return state
            fork = (state, stop[depth])
            if fork not in self._branches:
                self._branches[fork] = len(self._lines) * self._stride + depth + 1
                self._lines.append(stop)
            line, depth = divmod(self._branches[fork], self._stride)


def _shared(line: str, stop: str, low: int) -> int:
    """Return the length of the common prefix, which is at least `low`."""
    high = min(len(line), len(stop))
    while low < high:
        middle = (low + high + 1) // 2
        if line.startswith(stop[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _beginnings(stops: Iterable[str]) -> str:
    """Return a pattern of the first two characters of each stop string.

    At the end of a text the first character is enough: the second may still come.
    """
    seconds: dict[str, set[str]] = {}
    for stop in stops:
        seconds.setdefault(stop[0], set()).add(stop[1:2])
    alternatives = [
        re.escape(first)
        + ("" if "" in then else rf"(?:[{''.join(map(re.escape, sorted(then)))}]|\Z)")
        for first, then in sorted(seconds.items())
    ]
    return "|".join(alternatives) or "(?!)"


_kept = lru_cache(KEPT_LISTS)(StopStrings)


def stop_strings(stops: Sequence[str]) -> StopStrings:
    """Return the trie of `stops`, cached if the list is not too long."""
    if len(stops) <= KEPT_STOPS and sum(map(len, stops)) <= KEPT_CHARACTERS:
        return _kept(tuple(stops))
    return StopStrings(stops)


class StopSearch:
    """Searches one text. Its state is the longest suffix of the text that is a prefix of a stop.

    The next longest such suffix is the state's link, and so on to the root: this chain holds
    everything that may still become a stop string. A character adds at most one to the state's
    length and a link shortens it, so the search follows at most one link per character. The same
    holds for computing the links of a stop string.
    """

    def __init__(self, stops: StopStrings) -> None:
        self._stops = stops
        self._links = {ROOT: ROOT}
        # States that end with a stop string -> the first such string of the list.
        self._complete: dict[int, tuple[int, str]] = {}
        self.state = ROOT

    def feed(
        self, text: str, position: int = 0, *, min_tokens_reached: bool
    ) -> tuple[int, str] | None:
        """Read `text` from `position`; return the end of its first stop string, and that string.

        min_tokens_reached: if False, stop strings that end within `text` are ignored.
        """
        while position < len(text):
            if self.state == ROOT:  # nearly always; the pattern skips ahead in C
                begin = self._stops.search_start(text, position)
                if begin is None:
                    return None
                position = begin.start()
            self.state = self._next(text[position])
            position += 1
            if min_tokens_reached and self.state in self._complete:
                return position, self._complete[self.state][1]
        return None

    def held_back(self) -> int:
        """Return the length of the longest suffix of the text that may become a stop string."""
        while (length := self._stops.open_length(self.state)) is None:
            # Complete before min_tokens was reached: the text can only continue from the link.
            self.state = self._links[self.state]
        return length

    def _next(self, char: str) -> int:
        state = self.state
        while (longer := self._stops.child(state, char)) is None:
            if state == ROOT:
                return ROOT
            state = self._links[state]
        if longer not in self._links:
            self._reach(longer, state, char)
        return longer

    def _reach(self, new: int, state: int, char: str) -> None:
        """Compute the link of `new` (`state` plus `char`), and of new states on the way."""
        chain = [new]
        while True:
            link = ROOT
            while link == ROOT and state != ROOT:
                state = self._links[state]
                link = self._stops.child(state, char) or ROOT
            if link in self._links:
                break
            chain.append(link)
        for reached in reversed(chain):
            self._links[reached] = link
            ends = [end for end in (self._stops.ends.get(reached), self._complete.get(link)) if end]
            if ends:
                self._complete[reached] = min(ends)
            link = reached


class StopStringFilter:
    """Passes the pieces of one choice through, up to a stop string.

    stops: non-empty strings. If two are complete at the same character, the first of the list
        wins, as in vLLM.
    include: the stop string itself passes as well.
    splits: a piece may be passed in two parts. If not, a piece waits until all of it may pass,
        so that text and token ids stay aligned.
    matched: the stop string that ended the text. No text passes after it.
    """

    def __init__(self, stops: Sequence[str], *, include: bool, splits: bool) -> None:
        self._stops = stop_strings(stops)
        self._include = include
        self._splits = splits
        self._search = StopSearch(self._stops)
        self._pieces: deque[Piece] = deque()
        self._taken = 0  # characters of the first piece that have passed
        self._waiting = 0  # characters of all pieces that have not passed
        self.matched: str | None = None

    @property
    def held(self) -> list[HeldText]:
        """The text that a stop string may still claim."""
        pieces = (text for text, _ in reversed(self._pieces))
        return hold_pieces("possible stop string", pieces, self._waiting)

    def feed(
        self, text: str, token_id: int | None, *, min_tokens_reached: bool = True
    ) -> list[Piece]:
        """Return the pieces that may pass now; set `matched` if a stop string is complete.

        min_tokens_reached: if False, stop strings that end within `text` are ignored.
        """
        if self.matched is not None:
            return []
        if self._search.state == ROOT and self._stops.search_start(text) is None:
            return [(text, token_id)]  # nothing is held back and no stop string begins
        self._pieces.append((text, token_id))
        self._waiting += len(text)
        match = self._search.feed(text, min_tokens_reached=min_tokens_reached)
        if match is None:
            return self._take(self._waiting - self._search.held_back())
        end, self.matched = match
        passed = self._take(
            self._waiting - (len(text) - end) - (0 if self._include else len(self.matched))
        )
        self.flush()
        return passed

    def flush(self) -> list[Piece]:
        """Return all held-back text: the text has ended without a stop string."""
        pieces = list(self._pieces)
        if self._taken:
            text, token_id = pieces[0]
            pieces[0] = (text[self._taken :], token_id)
        self._pieces.clear()
        self._taken = self._waiting = 0
        self._search.state = ROOT
        return pieces

    def _take(self, free: int) -> list[Piece]:
        """Return the first `free` waiting characters, or only the whole pieces among them."""
        passed: list[Piece] = []
        self._waiting -= free
        while self._pieces and len(self._pieces[0][0]) - self._taken <= free:
            text, token_id = self._pieces.popleft()
            free -= len(text) - self._taken
            passed.append((text[self._taken :], token_id))
            self._taken = 0
        if free and (self._splits or self.matched is not None):
            text, token_id = self._pieces[0]
            passed.append((text[self._taken : self._taken + free], token_id))
            self._taken, free = self._taken + free, 0
        self._waiting += free  # the rest of a piece stays held back
        return passed


class StopFilteredParser:
    """Feeds a parser one token at a time until a stop string is complete.

    min_tokens: stop strings that are complete within this many tokens are ignored.
    in_reasoning: reasoning is searched as well.
    matched: the stop string that ended the answer. The parser is then finished and must not be
        fed again.
    """

    def __init__(
        self,
        parser: StreamParser,
        stops: StopStringFilter,
        min_tokens: int,
        *,
        in_reasoning: bool = False,
    ) -> None:
        self._parser = parser
        self._in_reasoning = in_reasoning
        self._filter = stops
        self._min_tokens = min_tokens
        self._tokens = 0

    @property
    def matched(self) -> str | None:
        """The stop string that ended the answer; None so far."""
        return self._filter.matched

    @property
    def held(self) -> list[HeldText]:
        """The text that a stop string may still claim, for display."""
        return self._filter.held

    def feed(self, text: str, token_ids: Sequence[int]) -> list[Event]:
        """Return the events that one token completes, including the final ones after a match.

        token_ids: exactly one. Raises as `FallbackParser.feed`.
        """
        pieces = self._check(text, token_ids[0])
        if self.matched is not None:
            return self._finish(pieces, cut=False)
        return self._parse(pieces)

    def finish(self, text: str, token_ids: Sequence[int], *, cut: bool) -> list[Event]:
        """Return the events of the last token, if any, and of all held-back text."""
        pieces = self._check(text, token_ids[0]) if token_ids else []
        if self.matched is None:
            pieces += self._filter.flush()
        return self._finish(pieces, cut=cut and self.matched is None)

    def _check(self, text: str, token_id: int) -> list[Piece]:
        """Return the pieces that no stop string can claim any more."""
        self._tokens += 1
        if self._is_unsearched:
            return [*self._filter.flush(), (text, token_id)]
        return self._filter.feed(text, token_id, min_tokens_reached=self._min_tokens_reached)

    @property
    def _is_unsearched(self) -> bool:
        """Whether the next text is reasoning in which no stop string counts."""
        return self._parser.in_reasoning and not self._in_reasoning

    @property
    def _min_tokens_reached(self) -> bool:
        return self._tokens > self._min_tokens

    def _parse(self, pieces: Iterable[Piece]) -> list[Event]:
        events: list[Event] = []
        for text, token_id in pieces:
            if token_id is None:
                events += [Content(text)] if text else []
                continue
            was_unsearched = self._is_unsearched
            parsed = self._parser.feed(text, (token_id,))
            if was_unsearched and not self._is_unsearched:
                parsed = self._check_parsed(parsed)
                if self.matched is not None:
                    return events + parsed + self._parser.finish()
            events += parsed
        return events

    def _finish(self, pieces: list[Piece], *, cut: bool) -> list[Event]:
        *first, (text, token_id) = pieces or [("", None)]
        had_matched = self.matched is not None
        events = self._parse(first)
        if self.matched is not None and not had_matched:
            return events  # a match has finished the parser
        checks = self._is_unsearched and not had_matched
        if token_id is None:
            events += self._parse([(text, None)])
            last = self._parser.finish(cut=cut)
        else:
            last = self._parser.finish(text, (token_id,), cut=cut)
        if checks:
            last = self._check_parsed(last)
            last += [Content(rest) for rest, _ in self._filter.flush() if rest]
        return events + last

    def _check_parsed(self, events: list[Event]) -> list[Event]:
        """Search the content of the token that ended reasoning.

        The parser has read this text and must not read it again, so the filter gets it without a
        token id.
        """
        checked: list[Event] = []
        for event in events:
            if isinstance(event, Content):
                pieces = self._filter.feed(
                    event.text, None, min_tokens_reached=self._min_tokens_reached
                )
                checked += [Content(text) for text, _ in pieces if text]
            else:
                checked.append(event)
        return checked
