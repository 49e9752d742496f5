"""Every function that walks what a client or a model wrote has a row in the tables of growth."""

from __future__ import annotations

import ast
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType

import pytest

from tests.hostile import growth
from tools.stack import ROOT

FOLDERS = ("frontend", "guided", "postprocess")
LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
# Functions that loop over something else, or have a test of their own: why.
ELSEWHERE: dict[str, str] = {
    "an operator's flags, once": """
        frontend/handover:asks_for_backedge frontend/handover:replace_dynamo
        frontend/main:build_engine_factory frontend/main:check_model_flags
        frontend/main:parse_and_check frontend/flags:parse_flags
        frontend/parser_selection:check_names frontend/model_files:_need_engine""",
    "what is installed, once": "frontend/model_builder:load_builder",
    "the model's format, once": """guided/call_policy:_lead_to guided/call_policy:_stop_reasoning
        guided/call_policy:read_reasoning_tags frontend/response/inert_content:_spell_markers
        postprocess/call_markup:_find_openings""",
    "requests or prompts that wait": """frontend/prompt_queue:_evict_abandoned
        frontend/loop_thread:_run_forever frontend/teardown:_poll
        frontend/teardown:find_closing""",
    "chunks as they come": """frontend/factory:generator
        frontend/response/guided_moves:_generate frontend/response/guided_moves:_go_on
        frontend/response/split_choices:_generate frontend/response/split_choices:_read
        frontend/response/worker_stream:read_and_record
        frontend/response/worker_stream:read_outputs postprocess/choice:_find_stop""",
    "a request's choices and what its worker has not sent": """
        postprocess/chunk_scheduler:__init__ postprocess/chunk_scheduler:_set_due
        postprocess/chunk_scheduler:_take postprocess/chunk_scheduler:flush
        postprocess/chunk_scheduler:forget postprocess/chunk_scheduler:oldest
        postprocess/chunk_scheduler:take postprocess/stage_timing:take
        frontend/response/split_choices:_add_usages frontend/response/split_choices:_place
        frontend/response/worker_stream:restart guided/continuation:go_on_after
        postprocess/messages:split postprocess/postprocessor:_fail""",
    "a call that is held back, within MAX_DISCARDED_TOKENS, MAX_DOUBTED and MAX_TOOLS": """
        guided/call_again:build_call_grammar guided/call_again:count_kept
        postprocess/call_hold:__init__ postprocess/call_hold:_is_in_doubt
        postprocess/call_hold:_pass_on postprocess/call_hold:calls""",
    "what is recorded or inspected": """postprocess/delta_builder:logprobs
        postprocess/stop_strings:held""",
    "the engines' own servers' fields": """frontend/request/tool_schema_cache:compiles_tools
        guided/guided_request:has_schemas guided/client_schemas:find_keyword""",
    "at most `MAX_FETCHED_TURNS` turns, or messages that a row compares": """
        frontend/turns/shared_turns:fetch frontend/turns/turn_keeper:_add_fetched
        frontend/turns/turn_keeper:_find_missing frontend/turns/turn_keeper:undo""",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
# The file, the first line, the name.
Place = tuple[str, int, str]


def parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a function, without the functions in it."""
    for part in ast.iter_child_nodes(node):
        yield part
        if not isinstance(part, (*Function.__args__, ast.Lambda)):
            yield from parts_of(part)


def walks(function: Function) -> bool:
    """Whether a function has a loop, or calls itself."""
    itself = {function.name, f"self.{function.name}", f"cls.{function.name}"}
    return any(
        isinstance(part, LOOPS) or (isinstance(part, ast.Call) and ast.unparse(part.func) in itself)
        for part in parts_of(function)
    )


def find_walkers() -> Iterator[tuple[str, Place]]:
    """Yield the name and the place of each function that walks anything."""
    for path in itertools.chain(*((ROOT / folder).rglob("*.py") for folder in FOLDERS)):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, Function) and walks(node):
                first = min(part.lineno for part in (node, *node.decorator_list))
                yield (
                    f"{path.relative_to(ROOT).with_suffix('')}:{node.name}",
                    (str(path.relative_to(ROOT)), first, node.name),
                )


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[CodeType]]:
    """The functions that are called until the test ends."""
    found: set[CodeType] = set()
    before = sys.getprofile()

    def note(frame: FrameType, *_: object) -> None:
        found.add(frame.f_code)

    monkeypatch.setattr(growth, "SIZES", (1000,))
    monkeypatch.setattr(growth, "RUNS", 1)
    threading.setprofile(note)
    sys.setprofile(note)
    yield found
    sys.setprofile(before)
    threading.setprofile(before)


def place_of(code: CodeType) -> Place:
    """Return where a function is."""
    path = os.path.relpath(os.path.realpath(code.co_filename), ROOT)
    return path, code.co_firstlineno, code.co_name


def test_every_walk_has_a_row(reached: set[CodeType]) -> None:
    for rows in growth.TABLES.values():
        for _ in rows():
            pass
    called = set(map(place_of, reached.copy()))
    walkers = dict(find_walkers())
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()}
    missing = {name for name, place in walkers.items() if place not in called}
    assert missing - elsewhere == set()
    assert elsewhere - walkers.keys() == set()
