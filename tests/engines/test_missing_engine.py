"""A Backedge without an engine's folder: that engine counts as not installed, all else works."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ENGINES = ("sglang", "transformers", "trtllm", "vllm")
# Hides the folder in a fresh process, imports what must not need it, and tells what is there.
PROGRAM = """
import importlib, json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(f"backedge.engines.{sys.argv[1]}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
for module in ("cli.main", "frontend.main", "offline", "worker.flags", "worker.plugin"):
    importlib.import_module(f"backedge.{module}")

from backedge.base.engines import has_engine
from backedge.base.errors import SetupError
from backedge.cli.doctor.installation import check_engine
from backedge.cli.parse import list_parsers
from backedge.frontend.model_builder import BUILDERS, load_builder
from backedge.offline import GenerationEngine, ModelLoadConfig
from backedge.offline.inference_backend import ENGINES, able_backends
from backedge.tokenization.tokenizer_selection import is_installed

def refuses(call, *arguments):
    try:
        call(*arguments)
    except SetupError as error:
        return str(error)

engine = sys.argv[1]
config = ModelLoadConfig("examples/tiny_model", backend="replay")
with GenerationEngine(config) as offline:
    offline.load()
print(json.dumps({
    "has": has_engine(engine),
    "parsers": len(list_parsers()),
    "able": able_backends("logprobs"),
    "backend": [refuses(GenerationEngine, ModelLoadConfig("examples/tiny_model", backend=name))
                for name, (folder, _) in ENGINES.items() if folder == engine],
    "builder": [refuses(load_builder, name)
                for name, (folder, _) in BUILDERS.items() if folder == engine],
    "installed": is_installed(engine) if engine in ("vllm", "sglang") else False,
    "doctor": [f"{finding.severity}: {finding.message}" for finding in check_engine(engine)]
              if engine != "transformers" else [],
}))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_without_its_folder(engine: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    names = {"transformers": "hf"}
    assert not told["has"]
    assert not told["installed"]
    assert told["parsers"] > 50
    assert "replay" in told["able"]
    assert names.get(engine, engine) not in told["able"]
    for message in (*told["backend"], *told["builder"]):
        assert f"for the engine '{engine}'" in message
    for finding in told["doctor"]:
        assert finding.startswith("note: "), finding
        assert "is not installed here" in finding
