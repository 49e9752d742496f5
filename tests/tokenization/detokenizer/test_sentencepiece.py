from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from backedge.tokenization.detokenizer.sentencepiece import parse_piece_rules
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from benchmarks.tokenizer_kinds import BYTES, gemma, llama, llama_metaspace
from tests.support import cut

FORMS = {"llama": llama, "llama metaspace": llama_metaspace, "gemma": gemma}
BYTE_FORMS = pytest.mark.parametrize("form", FORMS)
FACTORIES = {name: detokenizers(form()) for name, form in FORMS.items()}
SHOW = DetokenizerOptions(skip_special_tokens=False)
WITHOUT_SPACES = DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False)


class Case(NamedTuple):
    """What comes of some pieces, token by token.

    texts: separated by "|". decoded: where decode() gives something else for all of them.
    """

    id: str
    pieces: Sequence[str]
    texts: str
    decoded: str | None = None
    prompt: Sequence[str] = ()
    form: str = "llama"
    options: DetokenizerOptions = SHOW


CASES = [
    Case("the leading space goes", ["▁", "s", "▁", "s"], "|s| |s"),
    Case("one leading space goes", ["▁", "▁", "s"], "| |s"),
    Case("a leading space in bytes goes", ["<0x20>", "s"], "|s"),
    Case("a leading space stays", ["▁", "s"], " |s", form="gemma"),
    Case("the first token's marks go", ["▁▁▁<x>", "▁", "s"], "<x>| |s", form="llama metaspace"),
    Case("hidden tokens are not the first", ["<s>", "▁", "s"], "||s", options=DetokenizerOptions()),
    Case("shown tokens are the first", ["<s>", "▁", "s"], "<s>| |s"),
    Case("behind a prompt the space stays", ["▁", "s"], " |s", prompt=["s"]),
    Case(
        "behind a hidden prompt it goes",
        ["▁", "s"],
        "|s",
        prompt=["<s>"],
        options=DetokenizerOptions(),
    ),
    Case("bytes are joined", ["<0xE4>", "<0xB8>", "<0x96>", "s"], "||世|s"),
    Case(
        "hidden tokens do not part bytes",
        ["<0xC3>", "<s>", "<0xA9>"],
        "||é",
        options=DetokenizerOptions(),
    ),
    Case(
        "a prompt's half character is continued",
        ["<0xB8>", "<0x96>"],
        "|世",
        prompt=["s", "<0xE4>"],
    ),
    Case("a whole character comes at once", ["<0xC3>", "<0xA9>", "<0xC3>", "<0xA9>"], "|é||é"),
    Case("a cut-off character is not given out", ["s", "<0xE4>", "<0xB8>"], "s||", decoded="s��"),
    Case("bytes that are no UTF-8", ["s", "<0xFF>", "<0xA9>", "s"], "s|�|�|s"),
    Case("an unfinished character", ["<0xE4>", "<0xB8>", "s"], "||��s"),
    Case("no character in a wrong run", ["<0xE4>", "<0x41>", "<0x42>", "s"], "|��|�|s"),
    Case("a run ends with other text", ["<0xFF>", "s", "<0xC3>", "<0xA9>"], "�|s||é"),
    Case(
        "a character before wrong bytes stays",
        ["s", "<0x41>", "<0xFF>", "s"],
        "s|A|�|s",
        decoded="s��s",
    ),
    Case(
        "so does one before a cut-off one",
        ["<0xC3>", "<0xA9>", "<0xE4>", "s"],
        "|é||�s",
        decoded="���s",
    ),
    Case("a marker with spaces", ["<think>", "▁▁▁<x>"], "<think>|   <x>"),
    Case(
        "a marker without spaces",
        ["<think>", "▁▁▁<x>"],
        "<think>|▁▁▁<x>",
        "<think>   <x>",
        options=WITHOUT_SPACES,
    ),
]


def ids(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[int]:
    token_ids = [tokenizer.token_to_id(piece) for piece in pieces]
    assert None not in token_ids
    return [token_id for token_id in token_ids if token_id is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_token_gives_its_text(case):
    tokenizer = FORMS[case.form]()
    prompt, output = ids(tokenizer, case.prompt), ids(tokenizer, case.pieces)
    detokenizer = FACTORIES[case.form](case.options, prompt)
    assert "|".join(map(detokenizer.feed, output)) == case.texts


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.prompt], ids=lambda case: case.id
)
def test_together_they_give_what_decode_gives(case):
    tokenizer = FORMS[case.form]()
    decoded = tokenizer.decode(
        ids(tokenizer, case.pieces), skip_special_tokens=case.options.skip_special_tokens
    )
    assert decoded == (case.texts.replace("|", "") if case.decoded is None else case.decoded)


def stream_text(pieces: Sequence[str]) -> str:
    """Return what a stream of these pieces gives, written down as a rule over whole runs."""
    text, run = "", b""
    for piece in [*pieces, ""]:
        if piece in BYTES:
            run += bytes([BYTES.index(piece)])
            continue
        right = longest_text(run)
        wrong = len(run) - len(right.encode())
        held = not piece and is_beginning(run[len(right.encode()) :])
        text += right + ("" if held else "\ufffd" * wrong) + piece.replace("▁", " ")
        run = b""
    return text


def longest_text(run: bytes) -> str:
    for end in range(len(run), -1, -1):
        try:
            return run[:end].decode()
        except UnicodeDecodeError:
            continue
    return ""


def is_beginning(rest: bytes) -> bool:
    return any(
        rest == chr(code).encode()[: len(rest)]
        for code in (*range(0x80, 0xD800), *range(0xE000, 0x110000, 64))
    )


PIECES = st.lists(
    st.one_of(
        st.sampled_from(BYTES),
        st.sampled_from(["<0xE4>", "<0xB8>", "<0x96>", "<0xF0>", "<0xC3>", "<0xA9>", "<0x41>"]),
        st.sampled_from(["▁", "s", "<think>"]),
    ),
    max_size=24,
)


@given(pieces=PIECES, cuts=st.sets(st.integers(0, 24)))
def test_runs_of_bytes_are_decoded_by_the_rule(pieces, cuts):
    tokenizer = gemma()
    detokenizer = FACTORIES["gemma"](SHOW, ())
    parts = cut(ids(tokenizer, pieces), cuts)
    assert "".join(map(detokenizer.feed_all, parts)) == stream_text(pieces)


@BYTE_FORMS
@pytest.mark.parametrize(
    "bytes_", [b"\xff", b"\x80", b"\xc3", "世".encode(), "😀".encode(), b"A\xff"]
)
def test_an_endless_run_is_given_out_as_it_comes(form, bytes_):
    tokenizer = FORMS[form]()
    token_ids = ids(tokenizer, [BYTES[byte] for byte in bytes_] * 5_000)
    detokenizer = FACTORIES[form](SHOW, ())
    text = detokenizer.feed_all(token_ids)
    # At most an unfinished character is held, and nothing is left out.
    assert len(text.encode()) >= len(token_ids) - 3
    assert len(detokenizer.feed(ids(tokenizer, ["s"])[0])) <= 4


def test_token_bytes_are_those_of_the_text():
    factory, tokenizer = FACTORIES["llama"], llama()
    pieces = ids(tokenizer, ["▁", "s", "<0xE4>", "<think>"])
    assert [factory.token_bytes(token_id) for token_id in [*pieces, -1]] == [
        b" ",
        b"s",
        b"\xe4",
        b"<think>",
        b"",
    ]


REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
BYTE_FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}


def strip(start: int, stop: int) -> dict[str, Any]:
    return {"type": "Strip", "content": " ", "start": start, "stop": stop}


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [BYTE_FALLBACK, FUSE],
        [REPLACE, BYTE_FALLBACK, strip(1, 0)],
        [REPLACE, FUSE, strip(2, 0)],
        [REPLACE, FUSE, strip(1, 1)],
        [REPLACE, FUSE, BYTE_FALLBACK],
        [{"type": "Replace", "pattern": {"Regex": "▁"}, "content": " "}, BYTE_FALLBACK, FUSE],
        [{"type": "WordPiece", "prefix": "##", "cleanup": True}],
    ],
)
def test_decoders_of_other_forms_are_left_to_the_next_way(steps):
    assert parse_piece_rules({"type": "Sequence", "decoders": steps}) is None
