"""Backedge's own part of vLLM's frontend; `test_edges` tests its prompts."""

from typing import Any

import msgspec
import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.base.limits import MAX_SHARED, MAX_SHARED_BYTES
from backedge.engines.vllm import frontend
from backedge.engines.vllm.frontend import (
    FilteredCard,
    SharedParsers,
    VllmPreprocessed,
    VllmPreprocessor,
    build_prepared,
    is_text,
    naming_fields,
)
from backedge.frontend.http_errors import HIDDEN
from backedge.frontend.prompt_preprocessor import ShortPrompts
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.guided.call_policy import CallPolicy
from backedge.postprocess.messages import KEY
from dynamo.llm.exceptions import DynamoException, HttpError
from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionRequest,
    ChatCompletionToolsParam,
)
from vllm.exceptions import VLLMValidationError
from vllm.reasoning import ReasoningParserManager
from vllm.tokenizers import get_tokenizer

from tests.engines.frontends.all_edges import prepared
from tests.frontend.chat_requests import TOOL, chat_request
from tests.frontend.doubles import Card
from tests.support import TINY_MODEL


@pytest.mark.parametrize(("constrains", "tags"), [(True, {"scope": "always"}), (False, None)])
def test_the_factory_sees_no_parsers(constrains, tags):
    seen = {"tool_call_parser": "hermes", "structural_tag": {"scope": "always"}}
    card = FilteredCard(Card(seen | {"context_length": 5}), constrains=constrains)
    assert card.runtime_config() == {
        "tool_call_parser": None,
        "reasoning_parser": None,
        "structural_tag": tags,
        "context_length": 5,
    }
    assert card.name() == "tiny"  # type: ignore[operator]  # all else is the card's


NO_POLICY = CallPolicy(enabled=False)
# what Dynamo has made of the request, the parser's request: forced calls are JSON, arguments
MADE = [
    ({"sampling_options": {}}, True, {"a": 1}),
    ({"sampling_options": {"guided_decoding": {"json": {}}}}, True, {"a": 1}),
    ({"sampling_options": {"guided_decoding": {"structural_tag": {}}}}, False, {"a": 1}),
    (
        {
            "sampling_options": {"guided_decoding": None},
            "reasoning_parser_kwargs": {"chat_template_kwargs": {"b": 2}},
            "extra_args": {"reasoning_parser_kwargs": {}},
        },
        True,
        {"b": 2},
    ),
]


@pytest.mark.parametrize(("made", "json_calls", "kwargs"), MADE)
def test_dynamos_request_tells_how_the_answer_is_parsed(made, json_calls, kwargs):
    request = chat_request(tools=[TOOL], tool_choice="required", chat_template_args={"a": 1})
    preprocessed = {"token_ids": [1, 2], **made}
    prepared = build_prepared(
        request, VllmPreprocessed("1", preprocessed, 2, True, False), NO_POLICY
    )
    assert prepared.preprocessed is preprocessed
    assert prepared.params.prompt_length == 2
    assert prepared.params.parser.json_calls is json_calls
    assert prepared.params.parser.chat_template_kwargs == kwargs
    assert not prepared.params.parser.include_reasoning


USER = {"role": "user", "content": "Count to 9, 世界 😀."}
SHORT = [
    {"messages": [USER]},
    {"messages": [{"role": "system", "content": ""}, USER], "temperature": 0.5, "max_tokens": 7},
    {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False}, "stop": ["9"]},
    {"messages": [USER], "logprobs": True, "top_logprobs": 2, "n": 3, "stream": True},
    {"messages": [USER], "include_reasoning": False, "seed": 1, "bad_words": ["x"]},
    {"messages": [USER], "request_id": "mine", "guided_regex": "[0-9]+"},
    # Refused.
    {"messages": []},
    {"messages": [USER], "temperature": -1},
    {"messages": [USER], "chat_template_kwargs": {"messages": []}},
    {"messages": [{"role": "tool", "content": "22", "tool_call_id": "7"}], "max_tokens": 1 << 40},
    {"messages": [USER], "continue_final_message": True, "add_generation_prompt": True},
]


def outcome(loop, model, fields):
    """Return a prepared request, without what is drawn for it, or why it is refused."""
    try:
        made = prepared(loop, model, fields)
    except DynamoException as error:
        return type(error), str(error)
    made.preprocessed["extra_args"].pop(KEY)
    return made.preprocessed, msgspec.structs.replace(made.params, response_id="", created=0)


@pytest.mark.parametrize("fields", SHORT, ids=repr)
def test_a_short_prompt_is_the_same_wherever_it_is_made(models, loop, fields, monkeypatch):
    model = models["vllm", "vllm"]
    monkeypatch.setattr(ShortPrompts, "trusted", True)
    in_place = outcome(loop, model, fields)
    monkeypatch.setattr(ShortPrompts, "trusted", False)
    assert in_place == outcome(loop, model, fields)
    monkeypatch.setattr(frontend, "is_short", lambda _: False)
    assert in_place == outcome(loop, model, fields)


def test_a_short_prompt_is_made_in_place_once_they_are_quick(models, loop, monkeypatch):
    timed = []
    prepare_timed = VllmPreprocessor._prepare_timed

    async def note(self, request):
        timed.append(request.model)
        return await prepare_timed(self, request)

    monkeypatch.setattr(VllmPreprocessor, "_prepare_timed", note)
    # A busy machine takes longer than the event loop would wait, and the thread makes it again.
    monkeypatch.setattr(frontend, "MAX_LOOP_RENDER_MS", 10_000)
    for trusted in (True, False):
        monkeypatch.setattr(ShortPrompts, "trusted", trusted)
        prepared(loop, models["vllm", "vllm"], {"messages": [USER]})
    monkeypatch.setattr(frontend, "is_text", lambda _: False)
    prepared(loop, models["vllm", "vllm"], {"messages": [USER]})
    assert timed == ["tiny", "tiny"]


@pytest.mark.parametrize("error", [SystemExit, RuntimeError])
def test_no_short_prompt_ends_the_event_loop(models, loop, monkeypatch, error):
    async def fail(self, request):
        raise error("out of memory")

    monkeypatch.setattr(VllmPreprocessor, "_prepare_timed", fail)
    for trusted in (True, False):
        monkeypatch.setattr(ShortPrompts, "trusted", trusted)
        with pytest.raises(DynamoException, match=HIDDEN) as refused:
            prepared(loop, models["vllm", "vllm"], {"messages": [USER]})
        assert "out of memory" in str(refused.value.__cause__)


IMAGE = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
SAID = [("hi", True), (None, True), ([{"type": "text", "text": "hi"}], False), ([IMAGE], False)]


@pytest.mark.parametrize(("content", "text"), SAID)
def test_media_may_have_to_be_fetched(content, text):
    raw = {"model": "tiny", "messages": [{"role": "assistant", "content": content}]}
    assert is_text(decode_chat_request(raw)) is text


def test_requests_with_the_same_arguments_share_a_parser():
    make = SharedParsers(lambda tokenizer, **options: [tokenizer, options])
    first = make("tokenizer", chat_template_kwargs={"a": 1}, model_config=None)
    assert first == ["tokenizer", {"chat_template_kwargs": {"a": 1}, "model_config": None}]
    assert make("tokenizer", chat_template_kwargs={"a": 1}, model_config=None) is first
    for other in (True, "1", None):  # 1 == True, but not for a template
        assert make("tokenizer", chat_template_kwargs={"a": other}, model_config=None) is not first


def test_shared_parsers_are_bounded():
    make = SharedParsers(lambda tokenizer, **options: object())
    long = {"a": "x" * MAX_SHARED_BYTES}
    assert make(None, chat_template_kwargs=long) is not make(None, chat_template_kwargs=long)
    made = [make(None, chat_template_kwargs={"a": number}) for number in range(MAX_SHARED + 1)]
    assert make(None, chat_template_kwargs={"a": MAX_SHARED}) is made[-1]
    assert make(None, chat_template_kwargs={"a": 0}) is not made[0]


def test_no_parser_of_vllm_changes_when_it_is_asked():
    """Else requests could not share one."""
    tokenizer = get_tokenizer(str(TINY_MODEL))
    asked = 0
    for name in ReasoningParserManager.list_registered():
        try:
            parser = ReasoningParserManager.get_reasoning_parser(name)(
                tokenizer, chat_template_kwargs={}, model_config=None
            )
        except (KeyError, RuntimeError, ValueError):  # this tokenizer lacks its tokens
            continue
        request = ChatCompletionRequest(messages=[{"role": "user", "content": "hi"}])
        before = read_state(parser)
        parser.adjust_request(request)
        parser.is_reasoning_end([1, 2, 3])
        assert read_state(parser) == before, name
        asked += 1
    assert asked > 10


def read_state(value, seen=()):
    """Return all attributes of an object of vLLM's, and of those that it has."""
    if (
        id(value) in seen
        or not type(value).__module__.startswith("vllm.")
        or isinstance(value, type)
    ):
        return repr(value)
    names = {name for layer in type(value).__mro__ for name in getattr(layer, "__slots__", ())}
    names |= getattr(value, "__dict__", {}).keys()
    inner = (*seen, id(value))
    return {name: read_state(getattr(value, name, None), inner) for name in names}


def refuse(error: Exception, cause: Exception | None = None) -> None:
    with naming_fields({"n": 2}):
        raise error from cause


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (
            HttpError(400, "x"),
            VLLMValidationError("only with", parameter="stream_options", value=5),
            "`stream_options` cannot be 5: only with",
        ),
        (
            HttpError(400, "x"),
            VLLMValidationError("n must be 1 when using greedy sampling, got 2."),
            "`n` cannot be 2: n must be 1",
        ),
    ],
)
def test_what_vllm_says_of_a_field(error: Exception, cause: Exception | None, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        refuse(error, cause)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (HttpError(404, "x"), None),
        (HttpError(400, "x"), VLLMValidationError("of no field")),
        (KeyError("x"), None),
    ],
)
def test_other_errors_stay_as_they_are(error: Exception, cause: Exception | None) -> None:
    with pytest.raises(type(error)) as raised:
        refuse(error, cause)
    assert raised.value is error


def test_parts_of_messages_are_validated_by_themselves() -> None:
    with pytest.raises(RequestError) as refused, naming_fields({}):
        ChatCompletionToolsParam.model_validate({"function": 5})
    assert refused.value.field == "messages"


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("reasoning_effort", {"reasoning_effort": 5}),
        ("tools[0].function.name", {"tools": [{"type": "function", "function": {}}]}),
        (
            "stream_options.include_usage",
            {"stream": True, "stream_options": {"include_usage": "x"}},
        ),
    ],
)
def test_pydantics_path_is_that_of_the_request(field: str, fields: dict[str, Any]) -> None:
    raw = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    with pytest.raises(RequestError) as refused, naming_fields(raw):
        ChatCompletionRequest.model_validate(raw)
    assert refused.value.field == field
    assert isinstance(refused.value.__cause__, ValidationError)


@pytest.mark.parametrize("given", ["{{ messages[0].content }}", "template_chatml.jinja"])
def test_a_template_may_be_text_or_one_of_vllms(given: str) -> None:
    frontend.check_template_name(given)


def test_a_template_that_is_neither_is_refused() -> None:
    with pytest.raises(SetupError, match="/nowhere/x"):
        frontend.check_template_name("/nowhere/x.jinja")
