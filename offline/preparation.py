"""Converts a request to a row: its prompt, its limits, and the completions for its text.

The grammar of its answer follows the same checks and policy as in servers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from ..base.errors import BackedgeError, RequestError, shorten
from ..guided.call_policy import (
    CallPolicy,
    ReasoningTags,
    after_reasoning,
    constrains_to_json,
    find_call_format,
    leaves_text_free,
    read_reasoning_tags,
    read_schema,
)
from ..guided.guided_request import (
    GUIDED_FIELDS,
    GuidedRequest,
    check_constraints,
    check_schemas,
    decode_request,
)
from ..parsers.base import ParserFactory, ParserNames, ParserRequest
from ..parsers.format import Format
from ..parsers.linear_parsers import Vocabulary, spell_markers
from ..parsers.parser_lookup import reasoning_format
from ..tokenization.detokenizer import detokenizers, read_vocabulary
from ..tokenization.errors import describe_error
from ..tokenization.model_files import find_folder, read_vocabulary_size
from ..tokenization.prompt_cache import describe_longest
from .completion import Completion, CompletionSetup, StopPolicy, TextWatcher, normalize_stops
from .contracts import (
    GenerationOptions,
    RequestKind,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from .inference_backend import Backend
from .plugins.base import Plugin
from .rows import Grammar, Prompt, Row, RowFailure, resolve_sampling

# The fields besides tools that constrain an answer.
CONSTRAINTS = ("response_format", *GUIDED_FIELDS)
FIELDS = ("tools", "tool_choice", "parallel_tool_calls", *CONSTRAINTS)


def read_names(options: GenerationOptions) -> ParserNames:
    """Return the parsers of a row; empty if its message is not parsed."""
    if not options.message:
        return ParserNames()
    return ParserNames(options.tool_call_parser, options.reasoning_parser)


class ReadRequest(NamedTuple):
    """A request with the constraints on its answer, which are read once.

    guided: None if nothing constrains the answer. error: why the constraints are rejected.
    """

    request: TextGenerationRequest
    guided: GuidedRequest | None = None
    error: Exception | None = None

    def describe(self, options: GenerationOptions) -> str | None:
        """Return the field that needs a grammar, in words; None if nothing does."""
        guided = self.guided
        if guided is None or not _find_policy(options).constrains(guided):
            return None
        if guided.forces_call:
            return f"tool_choice={self.request.tool_choice!r}"
        given = [name for name in CONSTRAINTS if getattr(guided, name) is not None]
        return given[0] if given else "tools, whose calls follow a grammar"


def read_request(request: TextGenerationRequest) -> ReadRequest:
    """Read the constraints of a request, or the error that its row will have."""
    found = {name: getattr(request, name, None) for name in FIELDS}
    raw = {name: value for name, value in found.items() if value is not None}
    if raw.keys() <= {"parallel_tool_calls"}:
        return ReadRequest(request)
    try:
        guided = decode_request(raw, GuidedRequest)
        check_constraints(guided)
    except Exception as error:  # noqa: BLE001 - raised again when the row is prepared
        return ReadRequest(request, error=error)
    return ReadRequest(request, guided)


def build_grammar(
    guided: GuidedRequest,
    options: GenerationOptions,
    vocabulary: Vocabulary,
    begins_with_reasoning: Callable[[], bool],
) -> Grammar | None:
    """Return the grammar of a row; None for an unconstrained answer.

    guided: from `read_request`. begins_with_reasoning: called if there is a reasoning parser.
    Raises `RequestError` for a schema, expression or grammar that is invalid, too large or too
    deep, and for a reasoning parser whose reasoning a grammar cannot skip.
    """
    policy, names = _find_policy(options, vocabulary.ids), read_names(options)
    if not policy.constrains(guided):
        return None
    check_schemas(guided)
    answer = policy.constrain(guided)
    if answer is None:
        return None
    if "json" in answer:
        answer = {"json": read_schema(answer["json"])}
    json_calls = guided.forces_call and constrains_to_json(answer)
    if names.reasoning is None or leaves_text_free(answer):
        return Grammar(answer, answer, json_calls)
    tags = _find_reasoning(names.reasoning, vocabulary)
    may_stop = bool(options.stop_token_ids)
    found = after_reasoning(answer, tags, opened=begins_with_reasoning(), may_stop=may_stop)
    return Grammar(found, answer, json_calls)


def _find_policy(options: GenerationOptions, tokens: Collection[str] = ()) -> CallPolicy:
    """Return the policy for a row.

    tokens: the vocabulary's added tokens; not needed to decide whether there is a grammar.
    Reasoning is part of the grammar here, so forced calls have room for it.
    """
    calls = find_call_format(read_names(options), lambda: tokens)
    # Where malformed calls are generated again, a grammar from the first token on is not needed.
    always = options.structural_tag_scope == "always" and options.malformed_calls != "regenerate"
    return CallPolicy(calls=calls, always=always)


def _find_reasoning(name: str, vocabulary: Vocabulary) -> ReasoningTags:
    format_ = reasoning_format(name)
    tags = None
    if format_ is not None:
        tags = read_reasoning_tags(spell_markers(format_, vocabulary.ids))
    if tags is None:
        problem = (
            f"must not be {name!r} for an answer that a grammar constrains: a grammar cannot find "
            "the end of this format's reasoning"
        )
        raise RequestError("reasoning_parser", problem)
    return tags


class Preparation:
    """Builds the rows of one back end. Reads the model's small files, but no weights.

    backend: the back end. text: the model's tokenizer and settings. vocabulary_size: number of its
        token ids; None if unknown.
    Raises `SetupError` for a model that is missing or incomplete.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.text = backend.open()
        self._detokenizers = detokenizers(self.text.tokenizer)
        self._vocabulary = read_vocabulary(self.text.tokenizer)
        model, revision = str(backend.config.model), backend.config.revision
        self.vocabulary_size = read_vocabulary_size(find_folder(model, revision))
        self._parsers = functools.cache(
            lambda names: backend.build_parsers(names, self.text.tokenizer)
        )

    def choose_parsers(self, options: GenerationOptions) -> ParserFactory | None:
        """Return the parsers; None without any. Raises `UnknownParserError`."""
        return self._parsers(read_names(options)) if options.message else None

    def build_row(
        self,
        kind: RequestKind,
        index: int,
        request_id: str,
        read: ReadRequest,
        options: GenerationOptions,
        plugins: Sequence[Plugin],
    ) -> Row:
        """Return the row of a request. Raises `RowFailure`."""
        check_request(kind, request := read.request)
        check_adapter(request.lora, self.backend.config.lora)
        options = request.options or options
        if read.error is not None:
            raise read.error
        prompt = self._build_prompt(request, options)
        parser_request = build_parser_request(request, options)
        grammar = self._build_grammar(read.guided, options, parser_request, prompt)
        if grammar is not None and grammar.json_calls:
            parser_request = msgspec.structs.replace(parser_request, json_calls=True)
        stops = self._build_stops(options, self._limit_output(prompt, options), grammar)
        setup = CompletionSetup(
            *(request_id, self._detokenizers, stops, prompt.token_ids),
            *(self.choose_parsers(options), parser_request, options.logprobs),
        )
        return Row(
            index,
            request_id,
            prompt,
            resolve_sampling(options, self.text.generation_config),
            stops.max_new_tokens,
            [*stops.tokens.keys() - stops.hidden - set(self._find_eos(options))],
            lambda: [Completion(number, setup, _watch(plugins)) for number in range(options.n)],
            grammar=grammar,
            lora=request.lora,
            calls=None if grammar else self._find_calls(options, parser_request, prompt),
        )

    def _find_calls(
        self, options: GenerationOptions, request: ParserRequest, prompt: Prompt
    ) -> Format | None:
        """Return the format in which malformed calls are generated again; None if they are not.

        An engine computes the tokens of a prompt with images itself, so none can follow it.
        """
        asked = options.malformed_calls == "regenerate" and options.message
        if not asked or not request.parses_tools or prompt.images:
            return None
        return find_call_format(read_names(options), lambda: self._vocabulary.ids)

    def _build_stops(
        self, options: GenerationOptions, limit: int | None, grammar: Grammar | None
    ) -> StopPolicy:
        """Return what ends an answer; a grammar hides some of it, as `take_stop_tokens` does."""
        self._check_token_ids(options)
        strings, tokens = normalize_stops(
            options.stop_strings,
            options.stop_token_ids,
            self._vocabulary,
            self._find_eos(options),
            hides_special=not options.message,
        )
        own = tokens.keys() - set(self._find_eos(options)) if grammar else ()
        hidden = frozenset(itertools.filterfalse(self._detokenizers.is_special, own))
        return StopPolicy(strings, tokens, options.include_stop, limit, options.min_tokens, hidden)

    def _check_token_ids(self, options: GenerationOptions) -> None:
        """Raise `RowFailure` for a token that the model lacks, as servers do.

        It would end a device, or an engine.
        """
        biased = map(int, options.logit_bias)
        for name, token_ids in (("stop_token_ids", options.stop_token_ids), ("logit_bias", biased)):
            for token_id in token_ids:
                if self.vocabulary_size is not None and token_id >= self.vocabulary_size:
                    last = f"from 0 to {self.vocabulary_size - 1:,}"
                    found = f"`{name}` must have token ids of the model, {last}, not {token_id}."
                    raise RowFailure("request", found)

    def _find_eos(self, options: GenerationOptions) -> Sequence[int]:
        return () if options.ignore_eos else self.text.eos_token_ids

    def _build_grammar(
        self,
        guided: GuidedRequest | None,
        options: GenerationOptions,
        parser_request: ParserRequest,
        prompt: Prompt,
    ) -> Grammar | None:
        """Return the grammar of the answer. Raises `RowFailure`."""
        if guided is None:
            return None
        names = read_names(options)

        def begins_with_reasoning() -> bool:
            return self._parsers(names)(parser_request, prompt.token_ids).continues_reasoning

        try:
            return build_grammar(guided, options, self._vocabulary, begins_with_reasoning)
        except RequestError as error:
            raise RowFailure("request", str(error)) from error

    def _build_prompt(self, request: TextGenerationRequest, options: GenerationOptions) -> Prompt:
        try:
            prompt = self.backend.build_prompt(self.text, request, options)
        except RequestError as error:
            is_template = "chat template" in str(error)
            raise RowFailure("template" if is_template else "request", str(error)) from error
        except BackedgeError as error:
            raise RowFailure("template", str(error)) from error
        if options.truncate_prompt_tokens is not None:
            prompt.token_ids = prompt.token_ids[-options.truncate_prompt_tokens :]
        return prompt

    def _limit_output(self, prompt: Prompt, options: GenerationOptions) -> int | None:
        """Return the limit of tokens of an answer; None for no limit."""
        length, context = len(prompt.token_ids), self.text.context_length
        if not length:
            raise RowFailure("request", "the prompt is empty; give it some text.")
        if context is None:
            return options.max_new_tokens
        if length >= context:
            raise RowFailure(
                "prompt_too_long",
                f"the prompt has {length} tokens; {describe_longest(context)}. "
                "Shorten it, or set truncate_prompt_tokens.",
            )
        return min(options.max_new_tokens or context, context - length)


def build_parser_request(
    request: TextGenerationRequest, options: GenerationOptions
) -> ParserRequest:
    """Return the parts of a request that the parsers need."""
    tools = list(request.tools or [])
    return ParserRequest(
        tools=tools,
        tool_choice=request.tool_choice or ("auto" if tools else "none"),
        parallel_tool_calls=request.parallel_tool_calls is not False,
        chat_template_kwargs=dict(options.chat_template_kwargs),
        malformed_calls="repair" if options.malformed_calls == "repair" else "open",
        history_tool_calls=sum(
            len(message.get("tool_calls") or ())
            for message in request.messages or ()
            if message.get("role") == "assistant"
        ),
    )


def check_adapter(name: str | None, known: Collection[str]) -> None:
    """Raise `RowFailure` for an adapter that the model does not have."""
    if name is not None and name not in known:
        names = ", ".join(map(repr, known)) or "none"
        raise RowFailure("request", f"lora has no adapter {name!r}; known: {names}.")


def check_request(kind: RequestKind, request: TextGenerationRequest) -> None:
    """Raise `RowFailure` unless this is a request of this kind."""
    expected = VlmGenerationRequest if kind == "vlm" else TextGenerationRequest
    if not isinstance(request, expected):
        raise RowFailure("request", f"{shorten(repr(request), 200)} is not a {expected.__name__}.")
    if kind == "text" and getattr(request, "image", None) is not None:
        raise RowFailure("request", "the request has an image; use generate_vlm_batch.")
    if (request.messages is None) == (request.prompt is None):
        raise RowFailure("request", "a request needs either messages or a prompt, not both.")
    if request.prompt is not None and not isinstance(request.prompt, str):
        raise RowFailure(
            "request", f"prompt must be a string, not {shorten(repr(request.prompt), 200)}."
        )
    options: object = request.options
    if options and not isinstance(options, GenerationOptions):
        raise RowFailure("request", f"options must be GenerationOptions, not {options!r}.")


def _watch(plugins: Sequence[Plugin]) -> list[TextWatcher]:
    """Return the watchers of one answer. Raises `RowFailure`."""
    watchers = []
    for plugin in plugins:
        try:
            watcher = plugin.watch()
        except Exception as error:
            raise RowFailure(
                "plugin", f"plugin {plugin.name!r} failed: {describe_error(error)}"
            ) from error
        if watcher is not None:
            watchers.append(watcher)
    return watchers
