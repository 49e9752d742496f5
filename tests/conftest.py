"""How tests spread over the processes of pytest-xdist, and which examples Hypothesis draws."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath

import pytest
from typing_extensions import override
from xdist.scheduler import LoadScopeScheduling

from tools.machine import describe_machine
from tools.run_tests import SHORT

# The official client builds the classes of its responses when they are first used; two threads that
# do so at once fail now and then ("BaseModel cannot be instantiated directly").
os.environ.setdefault("DEFER_PYDANTIC_BUILD", "false")

# The same examples each time, unless a campaign asks for others; no example has a time limit.
with contextlib.suppress(ImportError):  # the clients' tests have no Hypothesis
    from hypothesis import settings

    settings.register_profile("fixed", settings.get_profile("ci"), max_examples=25)
    settings.register_profile(
        "random", settings.get_profile("ci"), max_examples=50, derandomize=False
    )
    campaigns = {"FUZZ_EXAMPLES", "HOSTILE_TIMES"} & os.environ.keys()
    settings.load_profile("random" if campaigns else "fixed")

# Left to `make test-more`: what takes long, by the beginnings of ids.
MORE = (
    "tests/benchmarks/test_turns.py::test_public_templates_stay_one_sequence",
    "tests/benchmarks/test_turns.py::test_the_cost_and_the_look_ups",
    "tests/cli/doctor/test_start.py",
    "tests/cli/inspect/test_page.py",
    "tests/cli/replay/test_command.py",
    "tests/cli/test_mistakes.py",
    "tests/conformance/",
    "tests/deploy/test_commands.py",
    "tests/deploy/test_install.py",
    "tests/e2e/test_bad_requests.py",
    "tests/e2e/test_described.py",
    "tests/e2e/test_described_plain.py",
    "tests/e2e/test_described_workers.py",
    "tests/e2e/test_gpu_bench.py",
    "tests/e2e/test_guided_moves.py",
    "tests/e2e/test_kv_routing.py",
    "tests/e2e/test_lifecycle.py",
    "tests/e2e/test_migration.py",
    *(
        f"tests/e2e/test_mistral.py::test_every_cell_is_served_or_refused_by_name[{kind}"
        for kind in ("vllm, ", "plain", "sglang")
    ),
    "tests/tokenization/test_mistral.py::test_prompts_of_later_versions_have_the_engines_ids",
    "tests/e2e/test_native_parsers.py",
    "tests/e2e/test_offline.py",
    "tests/e2e/test_offline_command.py",
    "tests/e2e/test_open_calls.py",
    "tests/e2e/test_peer_servers.py",
    "tests/e2e/test_plain_tokenizers.py",
    "tests/e2e/test_plugin.py",
    "tests/e2e/test_pool.py",
    "tests/e2e/test_read_again.py",
    "tests/e2e/test_regenerate.py",
    "tests/e2e/test_regenerate_loss.py",
    "tests/e2e/test_requests.py::test_dynamos_frontend_with_the_flag_is_the_same",
    "tests/e2e/test_rogue_worker.py",
    "tests/e2e/test_sglang.py",
    "tests/e2e/test_sglang_kv_routing.py",
    "tests/e2e/test_sglang_sidecar.py",
    "tests/e2e/test_sidecar.py",
    "tests/e2e/test_stock_arguments.py",
    "tests/e2e/test_stock_frontend.py",
    "tests/e2e/test_stock_parsers.py",
    "tests/e2e/test_tokenizer_backends.py",
    "tests/e2e/test_transformers_worker.py",
    "tests/e2e/test_trtllm.py",
    "tests/e2e/test_trtllm_disaggregated.py",
    "tests/e2e/test_turns.py",
    "tests/e2e/test_wheel.py",
    "tests/e2e/test_worker_loss.py",
    "tests/engines/frontends/test_bad_requests.py",
    "tests/engines/frontends/test_seams.py",
    "tests/engines/parsers/test_sglang_scenarios.py",
    "tests/engines/sglang/test_parsers.py::TestSamples",
    "tests/engines/sglang/test_reasoning.py",
    "tests/engines/test_seams.py",
    "tests/engines/transformers/test_frontend_pool.py",
    "tests/engines/vllm/test_parsers.py::TestSamples",
    "tests/examples/test_offline.py",
    "tests/frontend/test_template_attacks.py",
    "tests/hostile/",
    "tests/offline/test_batch_images.py",
    "tests/offline/test_command.py",
    "tests/offline/test_kills.py",
    "tests/offline/test_ray.py",
    "tests/offline/test_row_fuzz.py",
    "tests/parsers/test_api.py::test_one_engine_does_not_import_the_other",
    "tests/parsers/test_calls_beside_no_call.py",
    "tests/parsers/test_families.py::test_any_cut",
    "tests/parsers/test_families.py::test_truncated_anywhere",
    "tests/parsers/test_families_vllm.py",
    "tests/parsers/test_forced_calls.py",
    "tests/parsers/test_frames_of_calls.py",
    "tests/parsers/test_fuzz.py",
    "tests/parsers/test_generated.py",
    "tests/parsers/test_json_rest.py",
    "tests/parsers/test_linear_cost.py",
    "tests/parsers/test_linear_samples.py",
    "tests/parsers/test_pitfalls.py::test_pitfall_at_random_cuts",
    "tests/parsers/test_schema_steps.py::test_adversarial_schemas",
    "tests/parsers/test_structural_tag.py",
    "tests/parsers/test_swallowed_markup.py::test_marks_in_a_value_are_no_markup",
    "tests/recording/test_redacted_structure.py",
    "tests/slips/",
    "tests/templates/test_transformers_tokenizers.py::test_what_transformers_compiles_is_bounded",
    "tests/testing/tokenizer_kit/test_runner.py",
    "tests/tokenization/detokenizer/test_base.py",
    "tests/tokenization/test_cut_points.py",
    "tests/tokenization/test_mistral.py",
    "tests/tokenization/test_prompt_encoder.py",
    "tests/tools/test_docs_site.py",
    "tests/tools/test_release_check.py",
    "tests/worker/pool/test_described.py",
    "tests/worker/pool/test_faults.py",
    "tests/worker/test_build.py::test_a_recording_without_words_replays_as_it_was_sent",
    "tests/worker/test_leaks.py",
    "tests/worker/test_plugin.py",
)

# Left to `make test-long`: what repeats a thing that `make test-more` checks once, with more
# engines, formats or sizes.
LONG = (
    "tests/e2e/test_offline_command.py",
    "tests/e2e/test_requests.py::test_dynamos_frontend_with_the_flag_is_the_same[--vllm",
    "tests/e2e/test_sglang.py::test_the_text_is_that_of_sglangs_own_server",
    "tests/offline/test_kills.py",
    "tests/offline/test_ray.py",
    "tests/parsers/test_api.py::test_one_engine_does_not_import_the_other",
    "tests/slips/test_engines.py::test_a_grammar_holds_whether_or_not_the_engine_sees_a_thoughts_end[sglang]",
    "tests/tools/test_release_check.py::test_the_wheel_works_in_an_empty_environment[3.12]",
    "tests/tools/test_release_check.py::test_the_wheel_works_in_an_empty_environment[3.13]",
)

# Beginnings of ids: `make test-more` runs one of so many such tests, `make test-long` the others.
THINNED = {
    "tests/cli/doctor/test_start.py": 3,
    "tests/cli/replay/test_command.py": 3,
    "tests/cli/test_mistakes.py": 3,
    "tests/conformance/test_outside_schemas.py": 3,
    "tests/conformance/test_outside_wellformed.py": 4,
    "tests/e2e/test_migration.py::test_the_stream_goes_on": 2,
    "tests/engines/frontends/test_seams.py": 4,
    "tests/engines/sglang/test_parsers.py::TestSamples": 2,
    "tests/engines/test_seams.py::test_a_process_says_one_sentence_and_ends": 2,
    "tests/engines/test_seams.py::test_an_engine_that_does_not_fit": 3,
    "tests/engines/vllm/test_parsers.py::TestSamples": 2,
    "tests/hostile/test_linear_output.py": 2,
    "tests/hostile/test_nested_output.py": 2,
    "tests/parsers/test_families.py::test_any_cut": 2,
    "tests/parsers/test_families.py::test_truncated_anywhere": 3,
    "tests/parsers/test_families_vllm.py": 2,
    "tests/parsers/test_forced_calls.py": 2,
    "tests/parsers/test_fuzz.py": 4,
    "tests/parsers/test_generated.py": 4,
    "tests/parsers/test_linear_cost.py": 3,
    "tests/parsers/test_linear_samples.py": 2,
    "tests/parsers/test_structural_tag.py::test_a_slip_is_refused_unless_it_means_the_same": 4,
    "tests/parsers/test_structural_tag.py::test_a_walk_over_the_masks_is_read_as_it_was_written": 3,
    "tests/parsers/test_swallowed_markup.py::test_marks_in_a_value_are_no_markup": 3,
    "tests/recording/test_redacted_structure.py": 2,
    "tests/slips/test_answers.py": 4,
    "tests/slips/test_properties.py": 4,
    "tests/slips/test_regeneration.py": 2,
    "tests/slips/test_slips.py": 3,
    "tests/slips/test_wellformed.py": 3,
    "tests/testing/tokenizer_kit/test_runner.py": 4,
    "tests/tokenization/detokenizer/test_base.py": 2,
    "tests/tokenization/test_cut_points.py": 2,
    "tests/tokenization/test_prompt_encoder.py": 2,
    "tests/worker/test_plugin.py::test_how_the_flags_get_in": 4,
}

# Modules of tests/e2e that share a stack run in one process. Groups start in this order, those
# with the most to do first. A module in no group is one of its own.
GROUPS = {
    "fleet": (
        *("test_transcripts", "test_requests", "test_errors", "test_metrics"),
        *("test_native_parsers", "test_pool", "test_plugin", "test_stock_frontend", "test_turns"),
        "test_sidecar",
    ),
    "sglang": ("test_sglang",),
    "offline": ("test_offline",),
    "trtllm": ("test_trtllm", "test_trtllm_disaggregated"),
    "replay": ("test_replay", "test_migration"),
    "command": ("test_offline_command",),
    "routed": ("test_bad_requests", "test_tokenizer_backends", "test_kv_routing"),
    "tokenizers": ("test_plain_tokenizers",),
}
GROUP_BY_MODULE = {module: group for group, modules in GROUPS.items() for module in modules}
ORDER = list(GROUP_BY_MODULE)


def pytest_report_header() -> str:
    return describe_machine()


@pytest.fixture(autouse=True)
def unbounded_log() -> None:
    """A test's log lines do not count against those of the tests before it."""
    if (log := sys.modules.get("backedge.base.log")) is not None:  # the clients' tests have none
        log.line_filter.places.clear()


ROOT = Path(__file__).parent
MISSING_ENGINES = {
    name
    for name in ("sglang", "transformers", "trtllm", "vllm")
    if not (ROOT.parent / "engines" / name / "__init__.py").is_file()
} | {name for name in ("sglang", "vllm") if importlib.util.find_spec(name) is None}
ENGINE_IMPORT = re.compile(
    r"(?:backedge\.engines(?:\.| import )|^(?:from|import) (?!backedge))(\w+)", re.MULTILINE
)
HELPER_IMPORT = re.compile(r"^(?:from|import) ((?:tests|benchmarks)(?:\.\w+)+)", re.MULTILINE)


class ModuleLeftOut(pytest.Module):
    """A module of tests about an engine that is not installed, or whose folder is not here."""

    @override
    def collect(self) -> list[pytest.Item]:
        pytest.skip("an engine that it imports is missing here", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if MISSING_ENGINES & find_engines(module_path):
        left_out: pytest.Module = ModuleLeftOut.from_parent(parent, path=module_path)
        return left_out
    return None


def find_engines(path: Path) -> set[str]:
    """Return the engines whose folders a module of tests imports, itself or by a helper."""
    found, seen, left = set[str](), set[Path](), [path]
    while MISSING_ENGINES and left:
        seen.add(path := left.pop())
        text = path.read_text(encoding="utf-8")
        found.update(ENGINE_IMPORT.findall(text))
        helpers = [
            ROOT.parent / f"{name.replace('.', '/')}.py" for name in HELPER_IMPORT.findall(text)
        ]
        left += [helper for helper in helpers if helper.is_file() and helper not in seen]
    return found


@pytest.fixture
def bounded_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have transformers compile chat templates with limits until the test ends."""
    from backedge.templates.transformers_tokenizers import bound_templates
    from transformers import processing_utils
    from transformers.utils import chat_template_utils

    for module, name in (
        (chat_template_utils, "_compile_jinja_template"),
        (processing_utils, "_get_template_variables"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    bound_templates()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what has only some engines be installed; it takes their names with spaces between."""
    # Late: the environment of tests/clients has no Backedge.
    from backedge.tokenization import tokenizer_selection

    def install(engines: str) -> None:
        names = [*engines.split(), "dynamo"]
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in names or None)
        monkeypatch.setattr(tokenizer_selection, "has_engine", lambda _: True)

    return install


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that `-m` leaves out whole: to import them takes a minute."""
    module = collection_path.relative_to(ROOT.parent).as_posix()
    chosen = config.getoption("markexpr")
    if collection_path.suffix != ".py" or chosen not in (SHORT, "more", "long"):
        return None
    if chosen == SHORT:
        return has_all(module, MORE) or has_all(module, LONG) or None
    if chosen == "more":
        return has_all(module, LONG) or not has_some(module, MORE) or None
    return not has_some(module, (*LONG, *THINNED)) or None


def has_all(module: str, starts: Iterable[str]) -> bool:
    """Whether the ids of all tests of a module have one of these beginnings."""
    return module.startswith(tuple(start for start in starts if "::" not in start))


def has_some(module: str, starts: Iterable[str]) -> bool:
    return has_all(module, starts) or any(start.startswith(f"{module}::") for start in starts)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen = Counter[str]()
    for item in items:
        if item.nodeid.startswith(LONG) or is_left_out(item.nodeid, seen):
            item.add_marker("long")
        elif item.nodeid.startswith(MORE):
            item.add_marker("more")
        if item.path.parent == ROOT:
            item.add_marker("house")
        if "e2e" in item.path.parts:
            item.add_marker("e2e")
    items.sort(key=lambda item: rank(item.path.stem) if "e2e" in item.path.parts else -1)
    check_groups(items)


def is_left_out(name: str, seen: Counter[str]) -> bool:
    """Whether a test is not among those that `THINNED` keeps. seen: how many came before."""
    start = next((start for start in THINNED if name.startswith(start)), None)
    if start is None:
        return False
    seen[start] += 1
    return seen[start] % THINNED[start] != 1


def check_groups(items: list[pytest.Item]) -> None:
    """Raise UsageError if a stack is used in several groups: it ends with the first of them."""
    groups: dict[str, set[str]] = {}
    for item in items:
        found = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
        for name, (*_, used) in found.items():
            if used.scope == "session" and used.baseid == "tests/e2e":
                groups.setdefault(name, set()).add(name_group(item.path))
    for name, users in groups.items():
        if len(users) > 1:
            raise pytest.UsageError(
                f"{name} is used in {sorted(users)}; put them into one of GROUPS"
            )


def rank(module: str) -> int:
    return ORDER.index(module) if module in ORDER else len(ORDER)


def name_group(path: PurePath) -> str:
    """Return the group of a test file, or the file."""
    return GROUP_BY_MODULE.get(path.stem, str(path)) if path.parent.name == "e2e" else str(path)


class GroupScheduling(LoadScopeScheduling):
    """Gives each process one group or file at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return name_group(PurePath(nodeid.partition("::")[0]))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling | None:
    """Replace `--dist loadgroup`, whose marks xdist 3.8 loses under pytest 9.2."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None
