"""Restores in a request what earlier answers had, and keeps the answer to it.

A turn is restored only if nothing about it is a guess. The request must repeat the conversation
and the answer (`conversation`). For the generated token ids, the prompt must also begin with the
ids that the model had in front of its answer, and the model's own parser must read the same answer
from the rendered ids and from the generated ones.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from ...base.errors import ParserFailedError
from ...base.json_types import JsonObject
from ...base.limits import MAX_COMPARED_TURNS
from ...engines.dynamo.types import Context
from ...parsers.base import ParserFactory
from ...postprocess.messages import PostprocessParams
from ...recording.recorder import read_metadata
from ...tokenization.detokenizer import DetokenizerFactory
from ..prompt_queue import PromptQueue
from ..request.chat_request import ChatRequest, Message
from .answer import Answer, AnswerCollector, read_answer
from .conversation import describe, digest_conversation, extend_digest
from .flags import MODES, TurnSettings
from .shared_turns import SharedTurns, unseal
from .turn_store import Turn, TurnStore, pack_token_ids

LocalFactories: TypeAlias = Callable[[], tuple[DetokenizerFactory, ParserFactory]]


class RepeatedTurn(NamedTuple):
    """An assistant's message of a request, and the kept turn that it repeats."""

    message: Message
    turn: Turn


class Conversation(msgspec.Struct):
    """A request's conversation, as far as it is known here.

    digest: of the conversation that the answer continues. repeated: the known turns, in order.
    keeps: whether the answer is to be kept.
    prompt_length, prompt_digest: of the prompt's token ids before the answer; known if `exact`.
    own: the client's messages in whose place others are that have reasoning, by position.
    spliced: number of turns whose token ids were put back.
    """

    exact: bool
    digest: bytes
    repeated: list[RepeatedTurn]
    keeps: bool = True
    prompt_length: int = 0
    prompt_digest: bytes = b""
    own: dict[int, JsonObject] = msgspec.field(default_factory=dict)
    spliced: int = 0

    @property
    def restored(self) -> int:
        """The number of turns whose reasoning was put back."""
        return len(self.own)


class TurnKeeper:
    """Keeps and restores the turns of one model.

    local_factories: build the model's post-processing. shared: the turns of other frontends, too.
    context_length: of the workers, in tokens; None if unknown.
    """

    def __init__(
        self,
        settings: TurnSettings,
        store: TurnStore,
        queue: PromptQueue,
        local_factories: LocalFactories,
        shared: SharedTurns | None = None,
        context_length: int | None = None,
    ) -> None:
        self._context_length = context_length
        self._settings = settings
        self._shared = shared
        self._store = store
        self._queue = queue
        self._local_factories = local_factories
        self._equal: OrderedDict[bytes, None] = OrderedDict()

    async def restore(self, request: ChatRequest, context: Context | None) -> Conversation | None:
        """Put the reasoning of earlier answers into `request` where it has none.

        Returns None if nothing is restored and kept. Raises as `PromptQueue.run`.
        """
        mode = min(request.keep_turns or self._settings.mode, self._settings.mode, key=MODES.index)
        if mode == "off":
            return None
        scope = self._read_scope(context)
        if scope is None and self._settings.scope is not None:
            self._miss("scope")
            return None
        run = functools.partial(self._queue.run, characters=request.characters, context=context)
        digests = await run(functools.partial(_digest, scope), request)
        if digests is None:
            self._miss("not JSON")
            return None
        if self._shared is not None:
            fetched = await self._shared.fetch(self._find_missing(request, digests))
            if fetched:
                await run(self._add_fetched, fetched)
        return self._restore(request, digests, exact=mode == "exact")

    def _find_missing(self, request: ChatRequest, digests: list[bytes]) -> list[bytes]:
        """Return the keys of the answers that this frontend does not have."""
        keys = zip(request.messages, digests[1:], strict=True)
        return [
            key for message, key in keys if message.role == "assistant" and key not in self._store
        ]

    def _add_fetched(self, fetched: dict[bytes, bytes]) -> None:
        for key, value in fetched.items():
            turn = unseal(key, value)
            if turn is None:
                self._miss("store")
            elif self._store.add(key, turn):
                self._store.counts.fetched += 1

    def _read_scope(self, context: Context | None) -> str | None:
        if self._settings.scope is None:
            return None
        scope = read_metadata(context, self._settings.scope)
        return scope if isinstance(scope, str) else None

    def _miss(self, reason: str) -> None:
        self._store.counts.missed[reason] += 1

    def _restore(
        self, request: ChatRequest, digests: list[bytes], *, exact: bool
    ) -> Conversation | None:
        known = Conversation(exact, digests[-1], [])
        raw = request.raw["messages"]
        for at, (message, digest) in enumerate(zip(request.messages, digests[1:], strict=True)):
            if message.role != "assistant":
                continue
            turn = self._store.find(digest)
            if turn is None or (problem := _find_problem(turn, message, request)):
                self._miss("unknown" if turn is None else problem)
                continue
            known.repeated.append(RepeatedTurn(message, turn))
            if turn.reasoning and message.reasoning_content is None:
                known.own[at] = raw[at]
                raw[at] = {**raw[at], "reasoning_content": turn.reasoning}
                message.reasoning_content = turn.reasoning
        if request.continue_final_message:
            # Another client would get the beginning as the model's own words.
            self._miss("continued")
            known.keeps = False
        return known

    def leaves_room(self, request: ChatRequest, prompt_length: int) -> bool:
        """Whether an answer of the request's length fits after a prompt of so many tokens."""
        room = request.max_output_tokens or 1
        return self._context_length is None or prompt_length + room <= self._context_length

    def undo(self, conversation: Conversation, request: ChatRequest) -> None:
        """Give a request back the messages that its client sent."""
        for at, message in conversation.own.items():
            request.raw["messages"][at] = message
            request.messages[at].reasoning_content = None

    def forget(self, conversation: Conversation) -> None:
        """Count that the prompt has nothing of what was restored."""
        conversation.own.clear()
        self._miss("refused")

    async def splice(
        self,
        conversation: Conversation,
        request: ChatRequest,
        preprocessed: JsonObject,
        params: PostprocessParams,
    ) -> PostprocessParams:
        """Put the generated token ids of earlier answers into the prompt, in `preprocessed`.

        Returns `params` with the prompt's new length and what was restored. Raises as
        `PromptQueue.run`.
        """
        self._store.counts.restored += conversation.restored
        params = msgspec.structs.replace(params, restored_turns=conversation.restored)
        if not conversation.exact:
            return params
        if "multi_modal_data" in preprocessed:
            conversation.exact = False
            self._miss("media")
            return params
        before: list[int] = preprocessed["token_ids"]
        longest = self._find_longest(request, preprocessed)
        splice = functools.partial(self._splice, conversation, params, longest)
        token_ids = await self._queue.run(splice, before, characters=request.characters)
        preprocessed["token_ids"] = token_ids
        limits = preprocessed["stop_conditions"]
        if request.max_output_tokens is None and limits["max_tokens"] is not None:
            limits["max_tokens"] -= len(token_ids) - len(before)
        self._store.counts.spliced += conversation.spliced
        return msgspec.structs.replace(
            params, prompt_length=len(token_ids), exact_turns=conversation.spliced
        )

    def _find_longest(self, request: ChatRequest, preprocessed: JsonObject) -> float:
        """Return how many tokens the prompt may have, so that it is not refused."""
        length = len(preprocessed["token_ids"])
        rest = preprocessed["stop_conditions"]["max_tokens"]
        if request.max_output_tokens is None and rest is not None:
            return length + int(rest) - 1
        if self._context_length is None:
            return math.inf
        # Engines that accept more than fits cut the answer.
        is_cut = not self.leaves_room(request, length)
        return self._context_length - (1 if is_cut else request.max_output_tokens or 1)

    def _splice(
        self,
        conversation: Conversation,
        params: PostprocessParams,
        longest: float,
        token_ids: list[int],
    ) -> list[int]:
        """Return the prompt's token ids with those that were generated, `longest` at most."""
        prompt = hashlib.blake2b(digest_size=32)
        token_ids, done = token_ids.copy(), 0
        for repeated in conversation.repeated:
            turn = repeated.turn
            start = turn.prompt_length
            if not turn.generated or not done <= start <= len(token_ids):
                self._miss("prompt" if turn.generated else "end")
                continue
            prompt.update(pack_token_ids(token_ids[done:start]))
            done = start
            if prompt.digest() != turn.prompt_digest:
                self._miss("prompt")
                continue
            conversation.spliced += self._splice_turn(repeated, params, longest, token_ids)
        prompt.update(pack_token_ids(token_ids[done:]))
        conversation.prompt_length = len(token_ids)
        conversation.prompt_digest = prompt.digest()
        return token_ids

    def _splice_turn(
        self,
        repeated: RepeatedTurn,
        params: PostprocessParams,
        longest: float,
        token_ids: list[int],
    ) -> bool:
        """Put those of one turn into the token ids; False, and count why, if they do not fit."""
        start, generated = repeated.turn.prompt_length, repeated.turn.token_ids
        try:
            end = token_ids.index(generated[-1], start) + 1
        except ValueError:
            self._miss("end")
            return False
        written = token_ids[start:end]
        if written == generated:
            return True
        more = len(generated) - len(written)
        if more > 0 and len(token_ids) + more > longest:
            self._miss("refused")
        elif not self._are_equal(repeated, written, token_ids, params):
            self._miss("answer")
        else:
            token_ids[start:end] = generated
            return True
        return False

    def _are_equal(
        self,
        repeated: RepeatedTurn,
        written: list[int],
        rendered: list[int],
        params: PostprocessParams,
    ) -> bool:
        """Whether the model's parser reads the same message from what was rendered and generated.

        written: the rendered token ids of the message. rendered: of the whole prompt.
        """
        turn = repeated.turn
        key = hashlib.blake2b(turn.prompt_digest, digest_size=32)
        key.update(pack_token_ids(written))
        key.update(turn.generated)
        if key.digest() in self._equal:
            return True
        asked = describe(repeated.message, has_ids=False)
        prompt = rendered[: turn.prompt_length]
        read = functools.partial(read_answer, prompt_token_ids=prompt, params=params)
        detokenizers, parsers = self._local_factories()
        try:
            answers = [
                read(token_ids, detokenizers=detokenizers, parsers=parsers)
                for token_ids in (written, turn.token_ids)
            ]
        except ParserFailedError:
            return False
        if any(describe(answer.message, has_ids=False) != asked for answer in answers):
            return False
        if len({answer.reasoning.strip() for answer in answers}) > 1:
            return False
        self._equal[key.digest()] = None
        if len(self._equal) > MAX_COMPARED_TURNS:
            self._equal.popitem(last=False)
        return True

    def collect(
        self,
        conversation: Conversation,
        preprocessed: JsonObject,
        params: PostprocessParams,
        token_ids: Sequence[list[int]],
    ) -> AnswerCollector:
        """Return a collector of the answer's deltas, which keeps the turn of each choice.

        token_ids: of each choice, as `AnswerCollector` takes them.
        """
        stops = (*preprocessed["stop_conditions"]["stop_token_ids"], *params.stop_token_ids)
        ends = {*preprocessed["eos_token_ids"], *stops}
        hidden = not params.parser.include_reasoning
        keep = functools.partial(self._keep, conversation, ends, hidden)
        if not hidden:
            return AnswerCollector(token_ids, keep)
        prompt = preprocessed["token_ids"]

        def read_reasoning(token_ids: list[int]) -> str:
            return read_answer(token_ids, prompt, params, *self._local_factories()).reasoning

        return AnswerCollector(token_ids, keep, read_reasoning)

    def _keep(
        self, conversation: Conversation, ends: set[int], hidden: bool, answer: Answer
    ) -> None:
        """Keep the turn of one choice that has finished."""
        if answer.problem is not None:
            self._miss(answer.problem)
            return
        turn = Turn(answer.reasoning, hidden=hidden)
        if conversation.exact and ends.intersection(answer.token_ids[-1:]):
            turn = Turn(
                answer.reasoning,
                conversation.prompt_length,
                conversation.prompt_digest,
                pack_token_ids(answer.token_ids),
                hidden,
            )
        key = extend_digest(conversation.digest, answer.message)
        kept = self._store.add(key, turn)
        if kept is None:
            self._miss("size")
            return
        self._store.counts.kept += 1
        if self._shared is not None:
            self._shared.keep(key, kept, self._store.add)


def _find_problem(turn: Turn, message: Message, request: ChatRequest) -> str:
    """Return why a kept turn must not be put into a request's prompt; "" if it may be."""
    if turn.ambiguous:
        return "ambiguous"
    if not request.shows_prompt:
        return ""
    # The response shows the prompt, and so the reasoning, to a client that may not have seen it.
    knows = message.reasoning_content is not None or request.turns_conversation is not None
    return "shown" if turn.hidden or not knows else ""


def _digest(scope: str | None, request: ChatRequest) -> list[bytes] | None:
    """Return the digests of a conversation; None if JSON cannot have its values."""
    try:
        return digest_conversation(request, scope)
    except (ValueError, OverflowError):
        return None
