"""Transcripts are read, and found by their prompts."""

import json

import pytest
from backedge.base.errors import SetupError
from backedge.templates.chat_template import ModelPrompts
from backedge.testing.transcripts import (
    Recordings,
    Transcript,
    UnknownPromptError,
    read_transcripts,
)

from tests.support import EXAMPLES, TINY_MODEL, TRANSCRIPTS, encode

COUNT = TRANSCRIPTS["cut_text"]
FILES = ModelPrompts(TINY_MODEL)


def test_a_prompt_that_no_transcript_has():
    recordings = Recordings(FILES, read_transcripts(EXAMPLES / "transcripts"))
    with pytest.raises(UnknownPromptError, match="Ask, for example"):
        recordings.find([1, 2, 3])


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
