"""The example of a byte-pair tokenizer keeps the contract, and fastai takes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from backedge.testing.tokenizer_kit import contract_tests

from examples.byte_pair_tokenizer import BytePairTokenizer
from tests.support import TINY_MODEL
from tools.stack import ROOT

TEXTS = ["Call get_weather for Paris.", "Grüße <|im_end|>"]
FASTAI = ROOT / ".venv" / "fastai"
# In a process of its own: fastai's packages are for this test alone.
THEIRS = """
import json, sys
from fastai.text.core import Tokenizer
from examples.byte_pair_tokenizer import BytePairTokenizer
theirs = Tokenizer(BytePairTokenizer(sys.argv[1]), rules=[])
print(json.dumps([list(theirs(text)) for text in json.loads(sys.argv[2])]))
"""

test_the_contract = contract_tests(lambda: BytePairTokenizer(str(TINY_MODEL)))


@pytest.mark.skipif(not FASTAI.is_dir(), reason="fastai is not to be had here (tools/setup)")
def test_fastai_takes_it() -> None:
    path = os.pathsep.join((str(ROOT), str(FASTAI)))
    command = (sys.executable, "-c", THEIRS, str(TINY_MODEL), json.dumps(TEXTS))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    own = BytePairTokenizer(str(TINY_MODEL))
    for text, tokens in zip(TEXTS, json.loads(done.stdout), strict=True):
        assert tokens == next(iter(own([text])))
        assert "".join(tokens) == text
