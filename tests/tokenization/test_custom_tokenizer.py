import gc
import logging
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from backedge.base.errors import SetupError
from backedge.tokenization import (
    LazyTokenizer,
    TokenizerFailedError,
    TokenizerLoadError,
    load,
    split_name,
)

from tests.tokenization.bad_modules import Slow, SlowToFail

BAD = "tests.tokenization.bad_modules"
EXAMPLE = ("examples.my_tokenizer", "MyTokenizer")
THREADS = 8


def test_loads_what_it_is_told():
    tokenizer = load(*EXAMPLE, "model")
    assert tokenizer.encode("hi<|im_end|>") == [104, 105, 257]
    assert tokenizer.encode_batch(["h", ""]) == [[104], []]
    assert tokenizer.decode([104, 105, 257]) == "hi"
    assert tokenizer.decode([104, 257], skip_special_tokens=False) == "h<|im_end|>"
    assert repr(tokenizer) == "LazyTokenizer(examples.my_tokenizer:MyTokenizer, 'model')"
    assert repr(tokenizer.unwrap()) == "MyTokenizer('model')"


def test_a_function_makes_a_tokenizer():
    tokenizer = load(BAD, "create", "some/model")
    assert tokenizer.encode("h") == [104]
    assert repr(tokenizer.unwrap()) == "MyTokenizer('some/model')"
    assert tokenizer.converts_text


def test_a_tokenizer_may_make_prompts_only():
    tokenizer = load(BAD, "PromptsOnly", "model")
    assert tokenizer.prompt_token_ids([{"role": "user", "content": "x"}], model="m") == [1, 1, 0]
    assert not tokenizer.converts_text
    with pytest.raises(TokenizerFailedError, match="AttributeError"):
        tokenizer.encode("x")


def test_nothing_is_imported_before_it_is_used(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("from examples.my_tokenizer import MyTokenizer\n")
    monkeypatch.syspath_prepend(tmp_path)
    tokenizer = load("imported_late", "MyTokenizer", "model")
    assert "imported_late" not in sys.modules
    tokenizer.encode("")
    assert "imported_late" in sys.modules


def test_threads_that_ask_at_once_get_one_instance():
    tokenizers = [load(BAD, "Slow", "model") for _ in range(THREADS)]
    barrier = threading.Barrier(THREADS)

    def ask(tokenizer: LazyTokenizer) -> object:
        barrier.wait()
        return tokenizer.unwrap()

    before = Slow.made
    with ThreadPoolExecutor(THREADS) as pool:
        made = set(map(id, pool.map(ask, tokenizers)))
    assert len(made) == 1
    assert Slow.made == before + 1


def engine_error(tokenizer):
    with pytest.raises(TokenizerLoadError) as caught:
        tokenizer.encode("x")
    return caught.value


def test_a_failure_is_remembered_and_logged_once(caplog):
    tokenizer = load(BAD, "SlowToFail", "model")
    before = SlowToFail.made
    with caplog.at_level(logging.ERROR), ThreadPoolExecutor(THREADS) as pool:
        errors = list(pool.map(lambda _: engine_error(tokenizer), range(THREADS)))
    (said,) = set(map(str, errors))
    assert said == (
        f"tokenizer {BAD}:SlowToFail for model model could not be constructed: "
        "RuntimeError: no licence. "
        "The class is called with the model's path as its only argument; see docs/tokenizers.md."
    )
    assert SlowToFail.made == before + 1
    assert len(caplog.records) == 1
    # A new error each, or they would share a traceback that grows.
    assert len(set(map(id, errors))) == THREADS


def test_goes_with_its_last_holder_and_comes_back_new():
    tokenizer = load(*EXAMPLE, "a model")
    assert load(*EXAMPLE, "a model") is tokenizer
    assert load(*EXAMPLE, "another model") is not tokenizer
    made = id(tokenizer.unwrap())
    alive = tokenizer.unwrap()
    del tokenizer
    gc.collect()
    assert id(load(*EXAMPLE, "a model").unwrap()) != made
    assert id(alive) == made


def test_is_pickled_as_its_name():
    tokenizer = load(*EXAMPLE, "model")
    pickled = pickle.dumps(tokenizer)
    assert pickle.loads(pickled) is tokenizer  # noqa: S301 - what we pickled
    assert len(pickled) < 200


@pytest.mark.parametrize(
    ("module", "class_name", "stage", "cause"),
    [
        (
            "no_such_module",
            "X",
            "imported",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (f"{BAD}.x", "X", "imported", "is not a package"),
        ("", "X", "imported", "ValueError: Empty module name"),
        (
            BAD,
            "Missing",
            "found",
            "the module has no Missing; its tokenizers: MyTokenizer, NoBatch, ",
        ),
        (BAD, "NUMBER", "found", "NUMBER is neither a class nor a function but 7"),
        (BAD, "NoBatch", "found", "it has no encode_batch; BaseTokenizer has encode_batch"),
        (BAD, "Raises", "constructed", "FileNotFoundError: no vocab.txt in some/model"),
        (BAD, "Exits", "constructed", "SystemExit: 3"),
        (BAD, "NoArguments", "constructed", "TypeError: NoArguments() takes no arguments"),
        (BAD, "AsksForItself", "constructed", "its constructor asks for this very tokenizer"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_its_cause(module, class_name, stage, cause):
    tokenizer = load(module, class_name, "some/model")
    for _ in range(2):
        with pytest.raises(TokenizerLoadError) as caught:
            tokenizer.decode([1])
        assert (caught.value.name, caught.value.stage) == (f"{module}:{class_name}", stage)
        assert (
            f"tokenizer {module}:{class_name} for model some/model could not be {stage}: "
            in str(caught.value)
        )
        assert cause in str(caught.value)


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "1 / 0", "def"])
def test_a_module_that_raises_is_an_error_of_its_own(code, tmp_path, monkeypatch):
    name = f"raises_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        TokenizerLoadError,
        match=r"could not be imported: (SystemExit|ZeroDivisionError|SyntaxError)",
    ):
        load(name, "X", "model").unwrap()


def test_a_name_has_two_parts():
    assert split_name("a.b:C") == ("a.b", "C")
    for name in ("a.b", "a:", ":C", ""):
        with pytest.raises(SetupError, match=r"package\.module:Class"):
            split_name(name)
