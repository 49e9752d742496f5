import gc
import shutil
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import Chunk
from backedge.postprocess.postprocessor import Postprocessor
from backedge.tokenization import TokenizerLoadError, load
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers, read_vocabulary
from backedge.tokenization.detokenizer.offsets import OffsetDetokenizers, decode_function
from backedge.tokenization.detokenizer.tables import TekkenDetokenizers
from backedge.tokenization.mistral import MistralTokenizer, tokenizer_file
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.exceptions import MistralCommonException
from vllm.tokenizers import get_tokenizer
from vllm.tokenizers.mistral import truncate_tool_call_ids

from tests.support import params
from tests.tokenization.examples import MISTRAL_FILES, mistral, write_tekken

FILES = {file.name: file for file in MISTRAL_FILES}
TEKKEN = [name for name in FILES if name.startswith("tekken")]
# Those that write tools into the prompt.
WITH_TOOLS = [name for name in FILES if not name.endswith("v1")]
NAMES = pytest.mark.parametrize("name", FILES)
HIDDEN = pytest.mark.parametrize("skip", [True, False], ids=["hidden", "shown"])
MODULE = "backedge.tokenization.mistral"
TOKENS = st.lists(st.one_of(st.integers(0, 1100), st.integers(0, 1 << 20)), max_size=30)
CUTS = 5

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city, today",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TIME = {
    "type": "function",
    "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}},
}
SYSTEM = {"role": "system", "content": "Answer in one sentence."}
USER = {"role": "user", "content": "Wie ist das Wetter in Zürich? 🌦"}


def call(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id, content):
    return {"role": "tool", "tool_call_id": call_id, "name": "get_weather", "content": content}


CALL_ID, OTHER_ID = "abcdef123", "ABCDEF456"
CALLS = [
    call(CALL_ID, "get_weather", '{"city": "Zürich"}'),
    call(OTHER_ID, "get_weather", '{"city": "Oslo"}'),
]
TURNS = [
    USER,
    {"role": "assistant", "content": "Sonnig."},
    {"role": "user", "content": "And [INST] tomorrow?"},
]
ONE_CALL = [
    USER,
    {"role": "assistant", "content": "", "tool_calls": CALLS[:1]},
    result(CALL_ID, '{"sun": true}'),
]
PARALLEL = [
    USER,
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    result(CALL_ID, "sun"),
    result(OTHER_ID, "rain"),
]
PARTS = [
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
]
CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = {
    "one turn": ([USER], None),
    "turns": (TURNS, None),
    "system": ([SYSTEM, *TURNS], None),
    "parts": (PARTS, None),
    "tools": ([SYSTEM, USER], [WEATHER, TIME]),
    "tool result": (ONE_CALL, [WEATHER]),
    "parallel results": (PARALLEL, [WEATHER, TIME]),
    "after a tool result": ([SYSTEM, *ONE_CALL, *TURNS[1:]], [WEATHER]),
}
# What these versions of the template have no place for.
REFUSED = {
    (".v1", "tool result"),
    (".v1", "parallel results"),
    (".v1", "after a tool result"),
    (".v2", "parallel results"),
}


def folder_with(file: Path, folder: Path) -> Path:
    """Make a model's folder that holds nothing but its tokenizer."""
    folder.mkdir(exist_ok=True)
    name = (
        "tekken.json"
        if file.suffix == ".json"
        else f"tokenizer.model{file.suffix.replace('.model', '')}"
    )
    shutil.copy(file, folder / name)
    return folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Return vLLM's tokenizer of a file, by the file's name."""

    @cache
    def made(name):
        folder = folder_with(FILES[name], tmp_path_factory.mktemp(name.replace(".", "-")))
        return get_tokenizer(folder, tokenizer_mode="mistral")

    return made


@NAMES
def test_is_found_in_a_folder_that_has_nothing_else(name, tmp_path):
    folder = folder_with(FILES[name], tmp_path)
    assert tokenizer_file(folder).parent == folder
    assert len(list(folder.iterdir())) == 1
    tokenizer = load(MODULE, "MistralTokenizer", folder)
    assert tokenizer.decode(tokenizer.encode("Grüße 😀")) == "Grüße 😀"
    assert repr(tokenizer.unwrap()) == f"MistralTokenizer({str(folder)!r})"


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    with pytest.raises(
        TokenizerLoadError,
        match=r"FileNotFoundError: .* has neither tekken.json nor tokenizer.model",
    ):
        load(MODULE, "MistralTokenizer", tmp_path).unwrap()
    with pytest.raises(TokenizerLoadError, match="FileNotFoundError"):
        load(MODULE, "MistralTokenizer", tmp_path / "missing").unwrap()


@NAMES
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_prompt_has_the_engines_ids(name, conversation, engine):
    messages, tools = CONVERSATIONS[conversation]
    if (FILES[name].suffix, conversation) in REFUSED:
        with pytest.raises(MistralCommonException):
            engine(name).apply_chat_template(messages, tools=tools)
        with pytest.raises(RequestError):
            mistral(FILES[name]).tokenize(messages, "model", tools)
        return
    expected = engine(name).apply_chat_template(messages, tools=tools)
    assert mistral(FILES[name]).tokenize(messages, "model", tools) == expected


@pytest.mark.parametrize("version", ["v7", "v11", "v13", "v15"])
def test_prompts_of_later_versions_have_the_engines_ids(version, tmp_path):
    folder = write_tekken(tmp_path / version, version)
    theirs = get_tokenizer(folder, tokenizer_mode="mistral")
    ours = MistralTokenizer(str(folder))
    effort: dict[str, Any] = {"reasoning_effort": "high"} if version == "v15" else {}
    for messages, tools in CONVERSATIONS.values():
        expected = theirs.apply_chat_template(messages, tools=tools, **effort)
        assert ours.tokenize(messages, "model", tools, **effort) == expected


@NAMES
def test_an_answer_is_continued_like_the_engines(name, engine):
    messages = [USER, {"role": "assistant", "content": "In Zürich"}]
    expected = engine(name).apply_chat_template(messages, continue_final_message=True)
    assert mistral(FILES[name]).tokenize(messages, continue_final_message=True) == expected
    with pytest.raises(RequestError, match="Expected last role"):
        mistral(FILES[name]).tokenize(messages)


class Request:
    def __init__(self, messages):
        self.messages = messages


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_long_ids_of_calls_are_cut_like_the_engines(name, engine):
    call_id = "call_0123456789abcdef01234567"
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call(call_id, "get_weather", "{}")]},
        result(call_id, "sun"),
    ]
    found = mistral(FILES[name]).tokenize(messages, "model", [WEATHER])
    assert messages[2]["tool_call_id"] == call_id
    request = Request([dict(message) for message in messages])
    request.messages[1]["tool_calls"] = [call(call_id, "get_weather", "{}")]
    truncate_tool_call_ids(request)
    assert found == engine(name).apply_chat_template(request.messages, tools=[WEATHER])


@NAMES
@HIDDEN
@given(numbers=TOKENS)
def test_hidden_text_is_the_engines(name, skip, engine, numbers):
    ours, theirs = mistral(FILES[name]), engine(name)
    token_ids = [number % theirs.vocab_size for number in numbers]
    if not (skip or ours.is_tekken):
        # vLLM's shows no special tokens of SentencePiece at all.
        token_ids = [token_id for token_id in token_ids if token_id not in ours.all_special_ids]
    assert ours.decode(token_ids, skip) == decode_function(theirs, skip_special_tokens=skip)(
        token_ids
    )


@NAMES
def test_special_tokens_are_shown_on_demand(name):
    tokenizer = mistral(FILES[name])
    prompt = tokenizer.tokenize(TURNS)
    shown = tokenizer.decode(prompt, skip_special_tokens=False)
    assert shown.startswith("<s>[INST]")
    assert shown.count("</s>") == 1
    assert "</s>" not in tokenizer.decode(prompt)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_markers_of_calls_are_never_hidden(name):
    tokenizer = mistral(FILES[name])
    token_ids = [
        read_vocabulary(tokenizer).ids["[TOOL_CALLS]"],
        *tokenizer.encode("[]"),
        *tokenizer.all_special_ids[:3],
    ]
    assert tokenizer.decode(token_ids).startswith("[TOOL_CALLS]")
    assert tokenizer.decode(token_ids).endswith("[]")


@NAMES
def test_the_workers_detokenizer_is_the_fastest_there_is(name, engine):
    factory = detokenizers(mistral(FILES[name]))
    assert isinstance(factory, TekkenDetokenizers if name in TEKKEN else OffsetDetokenizers)
    assert type(detokenizers(engine(name))) is type(factory)


def test_a_lazy_one_is_detokenized_as_fast():
    assert isinstance(
        detokenizers(load(MODULE, "MistralTokenizer", FILES[TEKKEN[0]])), TekkenDetokenizers
    )


@pytest.mark.parametrize("name", TEKKEN)
@HIDDEN
@given(numbers=TOKENS, cut=st.integers(0, CUTS))
def test_a_stream_of_tekken_is_the_engines(name, skip, engine, numbers, cut):
    token_ids = [number % engine(name).vocab_size for number in numbers]
    texts = []
    for factory in _factories(name, engine):
        stream = factory(DetokenizerOptions(skip_special_tokens=skip), token_ids[:cut])
        texts.append([stream.feed(token_id) for token_id in token_ids[cut:]])
    assert texts[0] == texts[1]


@cache
def _factories(name, engine):
    return detokenizers(mistral(FILES[name])), detokenizers(engine(name))


@NAMES
def test_no_message_can_fake_a_special_token(name):
    tokenizer = mistral(FILES[name])
    token_ids = tokenizer.encode("".join(tokenizer.special_toks[:20]))
    assert not set(token_ids) & set(tokenizer.all_special_ids)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "Conversation must have at least one message"),
        ([{"role": "nobody", "content": "x"}], "Unknown message role: nobody"),
        ([{"role": "user"}], "'content'"),
        ([USER, {"role": "assistant", "tool_calls": [{"type": "function"}]}], "'id'"),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}
                    ],
                }
            ],
            "`messages[0].content[0].type` must be text or thinking (media need",
        ),
    ],
)
def test_what_it_refuses_is_the_requests_fault(messages, said):
    with pytest.raises(RequestError) as caught:
        mistral(FILES[TEKKEN[0]]).tokenize(messages)
    assert said in str(caught.value)


def test_template_arguments_that_it_does_not_take_are_the_requests_fault():
    tokenizer = load(MODULE, "MistralTokenizer", FILES[TEKKEN[0]])
    with pytest.raises(RequestError, match=r"`chat_template_kwargs.thinking` is not supported"):
        tokenizer.prompt_token_ids([USER], thinking=True)
    assert tokenizer.prompt_token_ids([USER], reasoning_effort="high") == mistral(
        FILES[TEKKEN[0]]
    ).tokenize([USER])
    added: dict[str, Any] = {"thinking": True, "enable_thinking": True, "thinking_mode": "enabled"}
    assert tokenizer.prompt_token_ids([USER], reasoning_effort="high", **added) == mistral(
        FILES[TEKKEN[0]]
    ).tokenize([USER])


def test_a_version_without_tools_leaves_them_out_like_the_engine(engine):
    tokenizer = MistralTokenizer(str(FILES["tokenizer.model.v1"]))
    assert "[TOOL_CALLS]" not in tokenizer.special_toks
    expected = engine("tokenizer.model.v1").apply_chat_template([USER], tools=[WEATHER])
    assert tokenizer.tokenize([USER], tools=[WEATHER]) == expected


TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
CALL_FILES = ["tekken_240911.json", "mistral_instruct_tokenizer_241114.model.v7"]
ARGUMENTS = '{"city": "Zürich 😀"}'


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("file", CALL_FILES)
def test_a_call_streams(file, size):
    tokenizer = mistral(FILES[file])
    marker = next(
        token_id
        for token_id, text in zip(tokenizer.all_special_ids, tokenizer.special_toks, strict=True)
        if text == "[TOOL_CALLS]"
    )
    call = '[{"name": "weather", "arguments": ' + ARGUMENTS + "}]"
    token_ids = [*tokenizer.encode("Let me see."), marker, *tokenizer.encode(call)]
    parsers = linear_parsers(ParserNames("mistral"), read_vocabulary(tokenizer))
    asked = params(parser=ParserRequest(tools=[TOOL], tool_choice="auto"))
    post = Postprocessor(asked, detokenizers(tokenizer), parsers)
    deltas = []
    for start in range(0, len(token_ids), size):
        part = token_ids[start : start + size]
        last = start + size >= len(token_ids)
        deltas += post.feed(Chunk(token_ids=part, finish_reason="stop" if last else None))
    choice = aggregate_deltas(deltas)
    assert choice.delta.content == "Let me see."
    (made,) = choice.delta.tool_calls
    assert (made.function.name, made.function.arguments) == ("weather", ARGUMENTS)
    assert choice.finish_reason == "tool_calls"


def test_tokenizers_of_a_file_share_what_is_dear_to_load(tmp_path):
    file = shutil.copy(FILES["mistral_instruct_tokenizer_240323.model.v3"], tmp_path)
    one, other = MistralTokenizer(file), MistralTokenizer(file)
    assert one.tokenizer is other.tokenizer
    loaded = weakref.ref(one.tokenizer)
    del one, other
    gc.collect()
    assert loaded() is None, "it goes with the last of them"
