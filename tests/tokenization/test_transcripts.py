"""Transcripts are read, and found by their prompts."""

import json

import pytest
from backedge.parsers.errors import SetupError
from backedge.tokenization.model_files import ModelFiles
from backedge.tokenization.transcripts import (
    Recordings,
    Transcript,
    UnknownPromptError,
    read_transcripts,
)

from tests.support import EXAMPLES, TINY_MODEL, TRANSCRIPTS, encode

COUNT = TRANSCRIPTS["cut_text"]
FILES = ModelFiles(TINY_MODEL)


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


# lines, part of the message
BAD_FILES = [([], "no .jsonl file"), (["{}"], "line 1"), ([json.dumps(COUNT), "x"], "line 2")]


@pytest.mark.parametrize(("lines", "part"), BAD_FILES)
def test_bad_transcripts_are_named(tmp_path, lines, part):
    if lines:
        (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(SetupError, match=part):
        read_transcripts(tmp_path)
