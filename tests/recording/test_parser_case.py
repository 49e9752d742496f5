"""Test cases: what `backedge replay --minimize` writes, and those of tests/cases."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from backedge.parsers.base import ParserNames
from backedge.recording.parser_case import (
    VERSION,
    Case,
    CaseFileError,
    Expected,
    ExpectedCall,
    read_case,
    read_expected,
    run_case,
    write_case,
)

from tests.support import TRANSCRIPTS, parser_request, tiny_tokenizer

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.json"))
CALL = TRANSCRIPTS["reasoning_call"]


def build_case() -> Case:
    ids = tiny_tokenizer().encode(CALL["output"], add_special_tokens=False).ids
    return Case(
        id="reasoning_call",
        parsers=ParserNames("hermes", "qwen3"),
        tokens=[tiny_tokenizer().decode([one], skip_special_tokens=False) for one in ids],
        markers={"<think>": False, "</think>": False, "<tool_call>": False, "<|im_end|>": True},
        request=parser_request(CALL),
        expect=Expected(
            CALL["expect"]["reasoning"],
            CALL["expect"]["content"],
            [ExpectedCall(**call) for call in CALL["expect"]["tool_calls"]],
            CALL["expect"]["finish_reason"],
        ),
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_linear_parsers_give_what_a_case_expects(path: Path) -> None:
    case = read_case(path)
    assert run_case(case) == case.expect
    assert case.instead != case.expect


def test_a_case_needs_no_tokenizer() -> None:
    case = build_case()
    assert run_case(case) == case.expect


def test_a_case_with_a_fault_fails() -> None:
    case = msgspec.structs.replace(build_case(), parsers=ParserNames(None, "qwen3"))
    assert run_case(case) != case.expect


def test_a_case_comes_back_from_its_file(tmp_path: Path) -> None:
    case = build_case()
    path = tmp_path / "case.json"
    path.write_bytes(write_case(case))
    assert read_case(path) == case
    assert path.read_text().startswith("{\n"), "a recording is one line"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[" * 100_000, write_case(build_case()).replace(b"{", b'{"version": 99,', 1)],
    ids=["empty", "no case", "nested", "newer"],
)
def test_what_is_no_case_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "case.json").write_bytes(content)
    with pytest.raises(CaseFileError, match=r"case\.json"):
        read_case(tmp_path / "case.json")
    with pytest.raises(CaseFileError, match=r"none\.json"):
        read_case(tmp_path / "none.json")


def test_nothing_is_expected_of_nothing() -> None:
    assert read_expected([]) == Expected()
    assert build_case().version == VERSION
