"""Transcripts are read, and found by their prompts."""

import json

import pytest
from backedge.base.errors import SetupError
from backedge.templates.chat_template import ModelPrompts
from backedge.templates.python_prompts import PythonPrompts
from backedge.testing.transcripts import (
    SHOWN_QUESTIONS,
    Recordings,
    Transcript,
    UnknownPromptError,
    read_transcripts,
)
from backedge.tokenization import load

from tests.support import EXAMPLES, TINY_MODEL, TRANSCRIPTS, encode

COUNT = TRANSCRIPTS["cut_text"]
FILES = ModelPrompts(TINY_MODEL)


CALL = TRANSCRIPTS["reasoning_call"]
CALL_WORDS = CALL["messages"][-1]["content"]
# the prompt's token ids, the beginning of what is suggested first
UNKNOWN = [
    pytest.param([1, 2, 3], '"', id="nothing"),
    pytest.param(
        FILES.prompt_token_ids(CALL["messages"], None),
        f'"{CALL_WORDS}" (tools get_weather)',
        id="without its tools",
    ),
    pytest.param(
        FILES.encode("What is 17 + 25?"), '"What is 17 + 25?" (nothing else)', id="of a completion"
    ),
    pytest.param(
        FILES.prompt_token_ids([{"role": "user", "content": "what's 17 and 25"}], None),
        '"What is 17 + 25?" (nothing else)',
        id="in other words",
    ),
]


@pytest.mark.parametrize(("token_ids", "first"), UNKNOWN)
def test_an_unknown_prompt_gets_the_nearest_questions(token_ids, first):
    recordings = Recordings(FILES, read_transcripts(EXAMPLES / "transcripts"))
    with pytest.raises(UnknownPromptError) as caught:
        recordings.find(token_ids)
    assert f"what is in parentheses: {first}" in str(caught.value)
    assert str(caught.value).count("(") == SHOWN_QUESTIONS


def build_own(name):
    return PythonPrompts(load("examples.my_tokenizer", name, "/nowhere"), TINY_MODEL)


def test_a_tokenizer_of_the_users_has_other_tokens(caplog):
    files = build_own("MyTokenizer")
    transcript = TRANSCRIPTS["plain_text"]
    recordings = Recordings(files, read_transcripts(EXAMPLES / "transcripts"), by_end=True)
    assert "the first is" in caplog.text
    assert "this model cannot call tools" in caplog.text, "its template rejects some transcripts"
    for before in ([], [{"role": "system", "content": "Hi."}]):
        prompt = files.prompt_token_ids([*before, *transcript["messages"]], None)
        assert recordings.find(prompt) == files.encode(transcript["output"])
    assert files.encode(transcript["output"])[-1] == files.eos_token_ids[0]


def test_a_model_that_rejects_all_transcripts_is_refused():
    only = [Transcript(id="x", messages=[], output="x", tools=CALL["tools"])]
    with pytest.raises(SetupError, match="rejects all 1 of 1 transcripts; the first is x: "):
        Recordings(build_own("MyTokenizer"), only)


@pytest.mark.parametrize("sent", [0, 1, 9])
def test_the_rest_of_an_output(sent):
    recordings = Recordings(FILES, read_transcripts(EXAMPLES / "transcripts"))
    prompt = FILES.prompt_token_ids(COUNT["messages"], None, **COUNT["chat_template_kwargs"])
    output = encode(COUNT["output"])
    assert recordings.find(prompt + output[:sent]) == output[sent:]


def test_two_outputs_for_one_prompt_are_refused():
    same = [Transcript(id=name, messages=COUNT["messages"], output=name) for name in ("one", "two")]
    with pytest.raises(SetupError, match="'one' and 'two'"):
        Recordings(FILES, same)


UMBRELLA = TRANSCRIPTS["reasoning_call"]
SYSTEM = {"role": "system", "content": "You are an agent."}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "21 C"}
# the prompt's messages and tools, whether the transcript of UMBRELLA answers it
OTHER_PROMPTS = [
    ([SYSTEM, *UMBRELLA["messages"]], UMBRELLA["tools"], True),
    ([*COUNT["messages"], SYSTEM, *UMBRELLA["messages"]], None, True),
    (UMBRELLA["messages"], [*UMBRELLA["tools"], *TRANSCRIPTS["long_argument"]["tools"]], True),
    ([*UMBRELLA["messages"], RESULT], UMBRELLA["tools"], False),
    ([SYSTEM], UMBRELLA["tools"], False),
]


@pytest.mark.parametrize(("messages", "tools", "answers"), OTHER_PROMPTS)
@pytest.mark.parametrize("sent", [0, 1, 9])
def test_a_transcript_answers_prompts_with_its_end(messages, tools, answers, sent):
    transcripts = read_transcripts(EXAMPLES / "transcripts")
    output = encode(UMBRELLA["output"])
    prompt = FILES.prompt_token_ids(messages, tools) + output[:sent]
    with pytest.raises(UnknownPromptError):
        Recordings(FILES, transcripts).find(prompt)
    by_end = Recordings(FILES, transcripts, by_end=True)
    if answers:
        assert by_end.find(prompt) == output[sent:]
    else:
        with pytest.raises(UnknownPromptError):
            by_end.find(prompt)


def test_the_longest_end_wins():
    asked = ["Rome?", "In Rome?"]
    same = [
        Transcript(id=text, messages=[{"role": "user", "content": text}], output=text)
        for text in asked
    ]
    recordings = Recordings(FILES, same, by_end=True)
    for text, answer in [*zip(asked, asked, strict=True), ("Now in Rome?", "Rome?")]:
        messages = [SYSTEM, {"role": "user", "content": text}]
        assert recordings.find(FILES.prompt_token_ids(messages, None)) == encode(answer)


def test_two_outputs_for_one_end_are_refused():
    same = [
        Transcript(id=name, messages=[*before, *COUNT["messages"]], output=name)
        for name, before in (("one", []), ("two", [SYSTEM]))
    ]
    with pytest.raises(SetupError, match="'one' and 'two'"):
        Recordings(FILES, same, by_end=True)


# lines, part of the message
BAD_FILES = [([], "no .jsonl file"), (["{}"], "line 1"), ([json.dumps(COUNT), "x"], "line 2")]


@pytest.mark.parametrize(("lines", "part"), BAD_FILES)
def test_bad_transcripts_are_named(tmp_path, lines, part):
    if lines:
        (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(SetupError, match=part):
        read_transcripts(tmp_path)
