"""How the flags get into the command lines of workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from backedge.base.engines import has_engine
from backedge.worker import plugin

# What is run in a fresh process, and what it prints.
OURS = "print(sorted(name for name in sys.modules if name.startswith('backedge.')))"
ENTRY_POINT = (
    f"import sys; from backedge.worker import plugin; print(plugin.register_sglang()); {OURS}"
)
ADDED = (
    "import argparse, sys; import sglang.srt.platforms as p; p._resolve_platform();"
    "from sglang.srt.server_args import ServerArgs; from backedge.worker import plugin; {then};"
    "parser = argparse.ArgumentParser(); ServerArgs.add_cli_args(parser);"
    "print('--sglang-processing' in parser.format_help())"
)
TORCH = (
    f"import sys; before = [*sys.meta_path]; {{then}}; from backedge.worker import plugin;"
    f"print(plugin.register_trtllm(), len(sys.meta_path) - len(before)); {OURS}"
)
VLLM = (
    "import sys; from backedge.worker import plugin; plugin.register();"
    "from vllm.reasoning import ReasoningParserManager as reasoning;"
    "from vllm.tool_parsers import ToolParserManager as calls;"
    "found = calls.list_registered(), reasoning.list_registered();"
    "print('backedge_hermes' in found[0], 'backedge' in found[1]);"
    "from vllm.parser import ParserManager as parsers;"
    f"parsers.get_parser(tool_parser_name='hermes', enable_auto_tools=True); {OURS}"
)
NAMES_TOO = (
    "['backedge.base', 'backedge.base.server_names', 'backedge.worker', 'backedge.worker.plugin']"
)
PLUGIN_ALONE = "['backedge.worker', 'backedge.worker.plugin']\n"
PROCESSES = [
    ("torch anywhere else", TORCH.format(then="pass"), {}, f"None 0\n{PLUGIN_ALONE}"),
    (
        "torch in dynamo's trtllm worker",
        TORCH.format(then="sys.modules['dynamo.trtllm'] = sys"),
        {},
        f"None 1\n{PLUGIN_ALONE}",
    ),
    (
        "torch imports nothing else of ours",
        f"import sys, torch; {OURS}",
        {},
        PLUGIN_ALONE,
    ),
    (
        "the entry point imports nothing",
        ENTRY_POINT,
        {},
        "None\n['backedge.worker', 'backedge.worker.plugin']\n",
    ),
    (
        "vllm's own server",
        VLLM,
        {},
        f"True True\n{NAMES_TOO}\n",
    ),
    ("sglang's own server", ADDED.format(then="pass"), {}, "False\n"),
    ("dynamo's worker", ADDED.format(then="sys.modules['dynamo.sglang.args'] = sys"), {}, "True\n"),
    (
        "a list of plugins without ours",
        ADDED.format(then="sys.modules['dynamo.sglang.args'] = sys"),
        {"SGLANG_PLUGINS": "others"},
        "False\n",
    ),
    (
        "and started by us",
        ADDED.format(then="plugin.register_sglang(); sys.modules['dynamo.sglang.args'] = sys"),
        {"SGLANG_PLUGINS": "others"},
        "True\n",
    ),
]


@pytest.mark.parametrize(
    ("program", "environment", "printed"),
    [
        # Without SGLang's folder its worker gets no flags.
        pytest.param(*case, id=name)
        for name, *case in PROCESSES
        if has_engine("sglang") or case[-1] != "True\n"
    ],
)
def test_how_the_flags_get_in(
    program: str, environment: dict[str, str], printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed


@pytest.mark.parametrize(
    "tables", [plugin.VLLM_TABLES, plugin.SGLANG_TABLES], ids=["vllm", "sglang"]
)
def test_another_version_without_these_tables_starts(
    tables: dict[str, Callable[[ModuleType], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, patch in tables.items():
        other = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, other)
        before = {**vars(other)}
        plugin.when_loaded(name, patch)
        assert vars(other) == before
