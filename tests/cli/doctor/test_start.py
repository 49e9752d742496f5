"""A command line in which doctor finds no error passes the flag stage of its process, and one that
the process refuses is an error of doctor.

Each process runs by its own `main`, up to where Dynamo or an engine would start.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from backedge.base.engines import load_engine_module
from backedge.base.errors import BackedgeError
from backedge.base.seams import Build
from backedge.cli.doctor.start import FRONTEND, check_frontend_command, check_worker_start
from backedge.cli.doctor.worker_command import parse_worker_command
from backedge.frontend import main as frontend
from backedge.worker.engine_support import EngineSupport
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import TINY_MODEL

Stage = Callable[[Sequence[str]], bool]
"""Whether a process passes its flag stage with these arguments."""

MODEL = ("--model", str(TINY_MODEL))
LIGHT = ("--tokenizer-backend", "huggingface")


def passes(run: Callable[[], object]) -> bool:
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            run()
        except (SystemExit, BackedgeError, OSError, ValueError) as error:
            return isinstance(error, SystemExit) and not error.code
    return True


def find_errors(words: Sequence[str]) -> str:
    """Return what doctor says against a command line."""
    if FRONTEND in words:
        found = check_frontend_command(words)
    else:
        try:
            found = check_worker_start(parse_worker_command(words))
        except BackedgeError as error:
            return str(error)
    return "\n".join(one.message for one in found if one.severity == "error")


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module that is afterwards as it was."""
    module: ModuleType = pytest.importorskip(name)
    for attribute, value in list(vars(module).items()):
        monkeypatch.setattr(module, attribute, value)
    return module


@pytest.fixture
def run_frontend(monkeypatch: pytest.MonkeyPatch) -> Stage:
    dynamo = load("dynamo.frontend.main", monkeypatch)
    monkeypatch.setattr(dynamo, "main", lambda: dynamo.parse_args())  # noqa: PLW0108 - replaced
    monkeypatch.setattr("backedge.base.gc_freeze.pause", lambda: None)
    monkeypatch.setattr("backedge.frontend.main.check_etcd", lambda _: None)

    unchanged = dict(vars(dynamo))

    def run(arguments: Sequence[str]) -> bool:
        vars(dynamo).update(unchanged)
        monkeypatch.setattr(sys, "argv", ["frontend", *arguments])
        return passes(frontend.main)

    return run


@pytest.fixture
def run_replay(monkeypatch: pytest.MonkeyPatch) -> Stage:
    pytest.importorskip("dynamo.common")
    monkeypatch.setattr("uvloop.run", lambda started: started.close())
    monkeypatch.setattr("backedge.base.etcd.check_etcd", lambda _: None)

    def run(arguments: Sequence[str]) -> bool:
        monkeypatch.setattr(sys, "argv", ["replay", *arguments])
        return passes(
            lambda: runpy.run_module("backedge.testing.replay_worker", run_name="__main__")
        )

    return run


@pytest.fixture
def run_vllm(monkeypatch: pytest.MonkeyPatch) -> Stage:
    args = load("dynamo.vllm.args", monkeypatch)
    load_engine_module("vllm", "worker").watch_arguments()
    monkeypatch.setattr(EngineSupport, "replace", lambda *_: None)  # nothing of Dynamo's workers
    return lambda arguments: passes(lambda: args.parse_args(list(arguments)))


def replace_only(monkeypatch: pytest.MonkeyPatch, owner: type, *names: str) -> None:
    """Let our workers replace these methods of Dynamo's flags, and nothing else of it."""
    places = {f"{owner.__name__}.{name}" for name in names}
    for name in names:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    replace = EngineSupport.replace

    def replace_some(support: EngineSupport, place: str, make: Build) -> None:
        if place.partition(":")[2] in places:
            replace(support, place, make)

    monkeypatch.setattr(EngineSupport, "replace", replace_some)
    # Checked by tests of their own; they take a second.
    monkeypatch.setattr(EngineSupport, "check_seams", lambda *_: frozenset())


@pytest.fixture
def run_sglang(monkeypatch: pytest.MonkeyPatch) -> Stage:
    args = load("dynamo.sglang.args", monkeypatch)

    async def fetch_model(path: str) -> str:
        return path

    monkeypatch.setattr(args, "fetch_model", fetch_model)
    # It reads the model, which is no flag.
    monkeypatch.setattr(args.ServerArgs, "from_cli_args", lambda flags: flags)
    replace_only(monkeypatch, args.Config, "__init__")
    init = args.Config.__init__

    def run(arguments: Sequence[str]) -> bool:
        with monkeypatch.context() as patch:  # flags refused later leave it replaced
            patch.setattr(args.Config, "__init__", init)
            return passes(lambda: asyncio.run(args.parse_args(list(arguments))))

    return run


@pytest.fixture
def run_trtllm(monkeypatch: pytest.MonkeyPatch) -> Stage:
    args = load("dynamo.trtllm.args", monkeypatch)
    replace_only(monkeypatch, args.Config, "validate")
    group, worker = args.DynamoTrtllmArgGroup, load_engine_module("trtllm", "worker")

    def run(arguments: Sequence[str]) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(group, "add_arguments", worker.add_flags(group.add_arguments))
            patch.setattr(args.Config, "validate", worker.enable_once(args.Config.validate))
            return passes(lambda: args.parse_args(list(arguments)))

    return run


# Flags of a frontend, right and wrong
OF_FRONTENDS = [
    "--router-mode kv",
    "--router-mode kw",
    "--http-prt 3",
    "--http-port 0",
    "--http-port 99999",
    "--http-port x",
    "--tool-call-parser hermes",
    "--tool-call-parser hemes",
    "--reasoning-parser auto",
    "--chat-template no.jinja",
    "--postprocess-parsers linear",
    "--postprocess-parsers native",
    "--postprocess-latncy x",
    "--tokenizer-module m",
    "--tokenizer-backend python",
    "--engine-factory nowhere:Engine",
    "--engine-factory collections:OrderedDict",
    "--prompt-cache-mb much",
    "--keep-turns exact",
    "--keep-turns all",
    "--dyn-preprocess-workers 2",
    "--dyn-chat-processor rust",
    "--postprocess-record a:2",
    "--interactive",
    "--kserve-grpc-server",
    "--migration-limit -1",
    "--vllm-processing",
    "stray",
]
OF_REPLAY_WORKERS = [
    "--tool-call-parser hermes",
    "--tool-call-parser hemes",
    "--reasoning-parser qwen3",
    "--reasoning-parser auto",
    "--tol-call-parser hermes",
    "--postprocess-parsers linear",
    "--postprocess-parsers lineal",
    "--tokens-per-chunk 0",
    "--tokens-per-second -1",
    "--plain",
    "--recordings no.jsonl",
    "--transcripts nowhere",
    "--tokenizer-backend python",
    "--tokenizer-module no_such_module --tokenizer-class C",
    "--postprocess-record a:2",
    "--postprocess-latency-ms content=1",
    "--postprocess-latency-ms content=fast",
    "--match begin",
    "--discovery-backend zookeper",
    "--request-plane udp",
    "--model nowhere",
    "stray",
]
ALL = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FEW = settings(ALL, max_examples=30)


@pytest.mark.parametrize("flag", OF_FRONTENDS)
def test_a_frontend_and_doctor_refuse_the_same_flag(run_frontend: Stage, flag: str) -> None:
    arguments = [*LIGHT, *flag.split()]
    assert run_frontend(arguments) == (not find_errors(["-m", FRONTEND, *arguments]))


@ALL
@given(st.lists(st.sampled_from(OF_FRONTENDS), min_size=2, max_size=4))
def test_a_frontend_and_doctor_refuse_the_same(run_frontend: Stage, flags: list[str]) -> None:
    arguments = [*LIGHT, *" ".join(flags).split()]
    assert run_frontend(arguments) == (not find_errors(["-m", FRONTEND, *arguments]))


@ALL
@given(st.lists(st.sampled_from(OF_REPLAY_WORKERS), max_size=3))
def test_a_replay_worker_and_doctor_refuse_the_same(run_replay: Stage, flags: list[str]) -> None:
    arguments = " ".join(flags).split()
    words = ["-m", "backedge.worker.demo", *arguments]
    assert run_replay(arguments) == (not find_errors(words))


# Flags of a vLLM worker with the post-processing of its own engine: whether they are taken, and
# part of what doctor says.
OF_VLLM = [
    ("--max-model-len 32k --enable-prefix-caching", ""),
    ("--postprocess-latency lowest --tool-call-parser auto --reasoning-parser auto", ""),
    ("--router-mode kv --router-temperature 0.5 --namespace n", ""),
    ("--kv-transfer-config.kv_role kv_both -O3 --hf-overrides.a 1", ""),
    ("--block-size 64 --postprocess-parsers native", ""),
    ("--max-model-ln 3", "did you mean --max-model-len?"),
    ("--served-modell-name m", "did you mean --served-model-name?"),
    ("--max-model-len many", "--max-model-len"),
    ("--discovery-backend zookeper", "invalid choice: 'zookeper'"),
    ("--vllm-procesing", "did you mean --vllm-processing?"),
    ("--dtype flot16", "did you mean float16?"),
    ("--postprocess-parsers linnear", "did you mean linear?"),
    ("--postprocess-workers -1", "--postprocess-workers"),
    ("--tensor-parallel-size", "expected"),
    ("--tool-call-parser hemes", "did you mean hermes?"),
    ("--reasoning-parser nope", "'nope' is not known"),
    ("--dyn-tool-call-parser nope", "invalid choice: 'nope'"),
    ("--tool-parser-plugin /nowhere.py", "--tool-parser-plugin '/nowhere.py' cannot be"),
    ("--use-vllm-tokenizer", "--use-vllm-tokenizer makes the worker answer with text"),
    ("--tokenizer-backend python", "needs --tokenizer-module"),
    ("--tokenizer-module m", "which is not set"),
    ("--postprocess-record a:2", "must be from 0 to 1"),
    ("--postprocess-detokenizer native --tokenizer-backend huggingface", "omit one of the two"),
    ("--headless --disaggregation-mode prefil", "did you mean prefill?"),
    ("--multimodal-worker --route-to-encoder", "unrecognized"),
    ("--disaggregation-mode prefill", "--kv-transfer-config"),
    ("--connector nixl", "Use --kv-transfer-config instead"),
    ("--engine-request-limit 0", "--engine-request-limit"),
    ("--custom-jinja-template no.jinja", "no.jinja"),
    ("--gms-shadow-mode", "--load-format gms"),
    ("--embedding-worker --enable-multimodal", "--embedding-worker"),
]


@pytest.mark.parametrize(("flags", "part"), OF_VLLM)
def test_a_vllm_worker_and_doctor_refuse_the_same(run_vllm: Stage, flags: str, part: str) -> None:
    arguments = [*MODEL, "--vllm-processing", *flags.split()]
    errors = find_errors(["-m", "dynamo.vllm", *arguments])
    assert run_vllm(arguments) == (not part)
    assert part in errors
    assert bool(errors) == bool(part)


@pytest.mark.parametrize(
    ("flags", "is_installed", "is_ours"),
    [
        ("--vllm-processing", False, False),
        ("--vllm-processing", True, True),
        ("--vllm-processing --dyn-chat-processor vllm", False, True),
        ("--vllm-processing --dyn-chat-processor sglang", False, False),
    ],
)
def test_doctor_knows_where_dynamos_frontend_takes_a_switch(
    flags: str, is_installed: bool, is_ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dynamo.frontend")
    monkeypatch.setattr("backedge.cli.doctor.start.find_file", lambda: tmp_path / "line.pth")
    if is_installed:
        (tmp_path / "line.pth").touch()
    found = list(check_frontend_command(["-m", "dynamo.frontend", *flags.split()]))
    assert [one.severity for one in found] == ["ok" if is_ours else "error"]
    assert is_ours or "backedge frontend-flags --install" in found[0].fix


OF_SGLANG = [
    ("--context-length 2048 --mem-fraction-static 0.5", ""),
    ("--postprocess-latency lowest --tool-call-parser auto --reasoning-parser auto", ""),
    ("--tool-call-parser qwen25 --postprocess-parsers native", ""),
    ("--router-mode kv --router-temperature 0.5 --namespace n", ""),
    ("--enable-multimodal --dedicated-mm-encoder --disaggregation-mode decode", ""),
    ("--served-model-name a,b --dyn-reasoning-parser qwen3", ""),
    ("--mem-fraction-sttic 0.1", "did you mean --mem-fraction-static?"),
    ("--context-length many", "--context-length"),
    ("--attention-backend torch_natve", "did you mean torch_native?"),
    ("--discovery-backend zookeper", "invalid choice: 'zookeper'"),
    ("--sglang-procesing", "did you mean --sglang-processing?"),
    ("--postprocess-parsers linnear", "did you mean linear?"),
    ("--postprocess-workers -1", "--postprocess-workers"),
    ("--tool-call-parser hemes", "did you mean hermes?"),
    ("--reasoning-parser nope", "nope"),
    ("--dyn-tool-call-parser nope", "invalid choice: 'nope'"),
    ("--tool-call-parser hermes --dyn-tool-call-parser hermes", "--dyn-tool-call-parser"),
    ("--use-sglang-tokenizer", "--use-sglang-tokenizer makes the worker answer with text"),
    ("--tokenizer-backend python", "needs --tokenizer-module"),
    ("--postprocess-record a:2", "must be from 0 to 1"),
    ("--postprocess-detokenizer native --tokenizer-backend huggingface", "omit one of the two"),
    ("--dedicated-mm-encoder", "requires --enable-multimodal"),
    ("--gateway-workers 0", "--gateway-workers"),
    ("--engine-request-limit 0", "--engine-request-limit"),
    ("--disagg-config a.yaml", "disagg_config_key"),
    ("--rerank-worker --embedding-worker", "--rerank-worker"),
    ("stray", "stray"),
]
OF_TRTLLM = [
    ("--max-seq-len 2048 --free-gpu-memory-fraction 0.5", ""),
    ("--postprocess-latency lowest --tool-call-parser auto --reasoning-parser auto", ""),
    ("--tool-call-parser qwen3 --postprocess-parsers native", ""),
    ("--router-mode kv --router-temperature 0.5 --namespace n", ""),
    ("--trtllm.kv_cache_config.free_gpu_memory_fraction 0.7 --trtllm.a true", ""),
    ("--publish-events-and-metrics", ""),
    ("--disaggregation-mode decode --modality multimodal", ""),
    ("--max-sequ-len 3", "did you mean --max-seq-len?"),
    ("--max-seq-len many", "--max-seq-len"),
    ("--discovery-backend zookeper", "invalid choice: 'zookeper'"),
    ("--trtllm-procesing", "did you mean --trtllm-processing?"),
    ("--postprocess-parsers linnear", "did you mean linear?"),
    ("--postprocess-workers -1", "--postprocess-workers"),
    ("--postprocess-workers 2 --postprocess-parsers native", "--postprocess-workers 2"),
    ("--tool-call-parser hemes", "did you mean hermes?"),
    ("--reasoning-parser nope", "nope"),
    ("--dyn-tool-call-parser nope", "invalid choice: 'nope'"),
    ("--tokenizer-backend python", "needs --tokenizer-module"),
    ("--tool-call-parser auto --postprocess-parsers native", ""),
    ("--tool-call-parser hermes --postprocess-parsers native", "the engine's own parsers"),
    ("--postprocess-record a:2", "must be from 0 to 1"),
    ("--trtllm.kv_cache_config", "--trtllm.kv_cache_config requires a value"),
    ("--trtllm..a 1", "empty key segment"),
    ("--trtllm.a 1 --trtllm.a.b 1", "Conflicting dynamic flag path"),
    ("--trtllm.a 1 --override-engine-args {}x", "mutually exclusive"),
    ("--disaggregation-mode prefill_and_decode", "invalid choice: 'prefill_and_decode'"),
    ("--enable-multimodal --modality video_diffusion", "--enable-multimodal"),
    ("--engine-request-limit 0", "--engine-request-limit"),
    ("--connector kvbm nixl", "at most one connector"),
    ("--custom-jinja-template no.jinja", "no.jinja"),
    ("stray", "stray"),
]


@pytest.mark.parametrize(("flags", "part"), OF_SGLANG)
def test_an_sglang_worker_and_doctor_refuse_the_same(
    run_sglang: Stage, flags: str, part: str
) -> None:
    agree_because(part, run_sglang, "sglang", flags)


@pytest.mark.parametrize(("flags", "part"), OF_TRTLLM)
def test_a_tensorrt_llm_worker_and_doctor_refuse_the_same(
    run_trtllm: Stage, flags: str, part: str
) -> None:
    agree_because(part, run_trtllm, "trtllm", flags)


@FEW
@given(st.lists(st.sampled_from([flags for flags, _ in OF_SGLANG]), min_size=2, max_size=3))
def test_an_sglang_worker_and_doctor_refuse_the_same_flags(
    run_sglang: Stage, flags: list[str]
) -> None:
    agree(run_sglang, "sglang", flags)


@FEW
@given(st.lists(st.sampled_from([flags for flags, _ in OF_TRTLLM]), min_size=2, max_size=3))
def test_a_tensorrt_llm_worker_and_doctor_refuse_the_same_flags(
    run_trtllm: Stage, flags: list[str]
) -> None:
    agree(run_trtllm, "trtllm", flags)


def agree(run: Stage, engine: str, flags: Sequence[str]) -> str:
    """Check that worker and doctor refuse the same flags; return what doctor says."""
    words = " ".join(flags).split()
    arguments = [f"--{engine}-processing", "--model-path", str(TINY_MODEL), *words]
    errors = find_errors(["-m", f"dynamo.{engine}", *arguments])
    assert run(arguments) == (not errors)
    return errors


def agree_because(part: str, run: Stage, engine: str, flags: str) -> None:
    """Check the same, and that doctor's error has this part; without one it has no error."""
    errors = agree(run, engine, [flags])
    assert part in errors
    assert bool(errors) == bool(part)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_flags_that_cannot_be_checked_are_a_warning(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(*_: object) -> NoReturn:
        raise ModuleNotFoundError("No module named 'dynamo'")

    monkeypatch.setattr("backedge.cli.doctor.start.parse_all", not_installed)
    words = ["-m", f"dynamo.{engine}", "--model-path", "m", f"--{engine}-processing"]
    [found] = check_worker_start(parse_worker_command(words))
    assert found.severity == "warning"
    assert "No module named 'dynamo'" in found.message


def test_a_tokenizer_of_ones_own_is_imported() -> None:
    words = [*MODEL, "--vllm-processing", "--tokenizer-backend", "python"]
    words += ["--tokenizer-module", "no_such_module", "--tokenizer-class", "C"]
    assert "No module named 'no_such_module'" in find_errors(["-m", "dynamo.vllm", *words])


SIDECAR = ("-m", "backedge.worker.sidecar", *MODEL, "--engine")


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ("grpc://127.0.0.1:1 --vllm-processing --tool-call-parser hermes", ""),
        ("grpc://127.0.0.1:1 --sglang-processing --postprocess-latency lowest", ""),
        ("127.0.0.1:1 --vllm-processing", "is not grpc://HOST:PORT"),
        ("grpc://h:1", "one of the arguments --vllm-processing --sglang-processing is required"),
        ("grpc://h:1 --vllm-processing --engine-timeout-s soon", "--engine-timeout-s"),
        ("grpc://h:1 --vllm-processing --postprocess-latncy x", "did you mean --postprocess-lat"),
    ],
)
def test_a_worker_beside_an_engine(flags: str, part: str) -> None:
    pytest.importorskip("smg_grpc_proto")
    errors = find_errors([*SIDECAR, *flags.split()])
    assert part in errors
    assert bool(errors) == bool(part)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ("--tool-call-parser hermes --num-blocks 32 --namespace other", ""),
        ("--num-blocks none", "'none' is not a number of blocks from 1"),
        ("--postprocess-latncy x", "did you mean --postprocess-lat"),
    ],
)
def test_a_worker_around_transformers(flags: str, part: str) -> None:
    pytest.importorskip("torch")
    errors = find_errors(["-m", "backedge.worker.transformers", *MODEL, *flags.split()])
    assert part in errors
    assert bool(errors) == bool(part)
