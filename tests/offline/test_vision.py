"""Prompts with images, by the tiny vision model with transformers."""

from __future__ import annotations

import pytest
import torch
from backedge.base.errors import RequestError, SetupError
from backedge.engines.transformers import offline as hf
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    ModelLoadConfig,
    VlmGenerationRequest,
    VlmPreprocessOptions,
    vision,
)
from backedge.offline.rows import RowFailure
from backedge.offline.vision import has_vision, place_images
from PIL import Image

from examples.make_vision_model import make
from tests.offline.batches import ask
from tests.offline.vision_rows import BUDGET, SIZES, ask_image, make_image, rows
from tests.support import TINY_MODEL

GREEDY = GenerationOptions(max_new_tokens=5, temperature=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("vision")
    make(path)
    return path


def build_engine(folder, **vlm):
    options = VlmPreprocessOptions(**vlm)
    config = ModelLoadConfig(folder, backend="hf", dtype="float32", vlm=options)
    return GenerationEngine(config)


@pytest.fixture(scope="module")
def engine(folder):
    with build_engine(folder) as loaded:
        yield loaded


def count_image_tokens(engine):
    """Return how many tokens each row's image has."""
    options = GenerationOptions(max_new_tokens=1)
    found = engine.generate_vlm_batch(rows(), options)
    questions = [ask(message["content"]) for row in rows() for message in row.messages or ()]
    texts = engine.generate_text_batch(questions, options)
    around = 2  # the tokens before and after an image
    return [
        with_image.prompt_tokens - text.prompt_tokens - around
        for with_image, text in zip(found, texts, strict=True)
    ]


def test_the_model_is_small(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3_000_000


def test_a_batch_gives_what_each_image_alone_gives(engine):
    batch = engine.generate_vlm_batch(rows(), GREEDY)
    alone = [engine.generate_vlm_batch([row], GREEDY)[0] for row in rows()]
    assert [result.error for result in batch] == [None] * len(SIZES)
    assert [result.token_ids for result in batch] == [result.token_ids for result in alone]
    assert len({tuple(result.token_ids) for result in batch}) == len(SIZES)


def test_large_images_are_not_held_together(engine, monkeypatch):
    batch = engine.generate_vlm_batch(rows(), GREEDY)
    sizes = []

    def generate(**arguments):
        sizes.append(len(arguments["input_ids"]))
        return real(**arguments)

    real = engine.backend.model.generate
    monkeypatch.setattr(engine.backend.model, "generate", generate)
    monkeypatch.setattr(hf, "MAX_HELD_PIXELS", 280 * 140 + 1)
    again = engine.generate_vlm_batch(rows(), GREEDY)
    assert [result.token_ids for result in again] == [result.token_ids for result in batch]
    assert sizes == [2, 3]


def test_the_image_is_seen(engine):
    first, second = engine.generate_vlm_batch(
        [ask_image("What?", make_image(140, 140)), ask_image("What?", make_image(141, 140))], GREEDY
    )
    assert first.prompt_tokens == second.prompt_tokens
    assert first.token_ids != second.token_ids


def test_an_image_has_the_tokens_of_its_pixels(engine):
    assert count_image_tokens(engine) == [count for _, count in SIZES]


# pixel budget, tokens of each image
BUDGETS = [
    ({"max_pixels": BUDGET}, [2, 2, 4, 1, 2]),
    ({"min_pixels": 60 * 784, "max_pixels": 100 * 784}, [66, 70, 64, 64, 72]),
]


@pytest.mark.parametrize(("vlm", "tokens"), BUDGETS)
def test_pixel_budgets_are_kept(folder, vlm, tokens):
    with build_engine(folder, **vlm) as engine:
        assert count_image_tokens(engine) == tokens


def test_text_alone(engine):
    [result] = engine.generate_text_batch([ask("What is it?")], GREEDY)
    assert len(result.token_ids) == 5


def test_rows_with_bad_images_fail_and_the_others_go_on(engine):
    results = engine.generate_vlm_batch(
        [
            ask_image("a", b"no image"),
            ask_image("b", make_image(56, 56)),
            ask_image("c", None),
            ask("d"),
            ask_image("e", make_image(56, 56), options=GenerationOptions(truncate_prompt_tokens=4)),
            ask_image("f", make_image(7000, 20)),
        ],
        GREEDY,
    )
    kinds = [result.error and result.error.kind for result in results]
    assert kinds == ["image", None, "image", "request", "request", "image"]
    assert "the model's processor rejects the image" in str(results[5].error)


def test_texts_that_do_not_fit_the_image_fail_alone(engine):
    image = make_image(56, 56)
    results = engine.generate_vlm_batch(
        [
            ask_image("<|video_pad|>", image),
            VlmGenerationRequest(prompt="Hi", image=image),
            VlmGenerationRequest(prompt="<|video_pad|>", image=image),
            ask_image("What is <|image_pad|>?", image),
            ask_image("What?", image),
        ],
        GREEDY,
    )
    assert [result.error and (result.error.kind, result.error.message) for result in results] == [
        ("image", "'<|video_pad|>' is a place for a video; leave it out."),
        *[("image", "the prompt has no place for an image; add '<|image_pad|>'.")] * 2,
        (
            "image",
            (
                "the prompt has 2 places for images, '<|image_pad|>', and the row 1; a text may "
                "have that token only where an image belongs."
            ),
        ),
        None,
    ]


def test_an_image_that_leaves_no_room(folder):
    config = ModelLoadConfig(folder, backend="hf", max_model_len=40)
    with GenerationEngine(config) as engine:
        [result] = engine.generate_vlm_batch([ask_image("a", make_image(280, 140))], GREEDY)
    assert result.error is not None
    assert result.error.kind == "prompt_too_long"


def test_a_model_without_vision_is_refused_before_weights_load(monkeypatch):
    engine = build_engine(TINY_MODEL)
    backend = type(engine.backend)
    monkeypatch.setattr(backend, "load", lambda self: pytest.fail("weights were loaded"))
    with pytest.raises(SetupError, match="does not read images"):
        engine.generate_vlm_batch(rows())


IMAGE, TEXT = {"type": "image"}, {"type": "text", "text": "x"}


def user(*content):
    return [{"role": "user", "content": list(content)}]


def test_the_image_stands_where_the_messages_have_it():
    for kind in vision.IMAGE_PARTS:
        assert place_images(user(TEXT, {"type": kind}, TEXT), 1) == user(TEXT, IMAGE, TEXT)


def test_or_in_front_of_the_last_question():
    first, last = {"role": "user", "content": "x"}, {"role": "user", "content": "x"}
    answer = {"role": "assistant", "content": None}
    assert place_images([first, answer, last], 1) == [
        *user(TEXT),
        {"role": "assistant", "content": []},
        *user(IMAGE, TEXT),
    ]


@pytest.mark.parametrize(
    ("messages", "part"),
    [
        (user(IMAGE, IMAGE), "have 2 parts for images, and the row has 1"),
        ([{"role": "system", "content": "x"}], "no user message can"),
    ],
)
def test_messages_without_a_place_for_one_image(messages, part):
    with pytest.raises(RowFailure, match=part):
        place_images(messages, 1)


def test_other_media_are_refused():
    with pytest.raises(RequestError, match="a part of text or an image"):
        place_images(user({"type": "video_url"}), 1)


@pytest.mark.parametrize(
    ("config", "expected"), [('{"vision_config": {}}', True), ("{}", False), (None, False)]
)
def test_whether_a_model_sees(tmp_path, config, expected):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert has_vision(tmp_path) is expected


def test_several_images_in_one_row(engine):
    first, last = make_image(140, 140), make_image(280, 140)
    alone = engine.generate_vlm_batch([ask_image("What?", first), ask_image("What?", last)], GREEDY)
    several = [ask_image("What?", pair) for pair in ([first, last], [last, first])]
    placed = user(IMAGE, TEXT, IMAGE)
    batch = [*several, VlmGenerationRequest(messages=placed, image=(first, last))]
    results = engine.generate_vlm_batch(batch, GREEDY)
    assert [result.error for result in results] == [None] * 3
    # 25 and 50 tokens, and one before and after each.
    one, two = (result.prompt_tokens for result in alone)
    assert [result.prompt_tokens for result in results[:2]] == [one + 52, two + 27]
    assert results[0].token_ids != results[1].token_ids
    [again] = engine.generate_vlm_batch([several[1]], GREEDY)
    assert again.token_ids == results[1].token_ids


@pytest.mark.parametrize(
    ("sizes", "part"),
    [
        ([(1, 1)] * 17, "17 images; at most 16"),
        ([(8192, 4097)] * 2, "first 2 images have"),
        ([], "no image"),
    ],
)
def test_images_of_a_row_have_bounds(sizes, part):
    with pytest.raises(RowFailure, match=part):
        vision.load_images([Image.new("L", size) for size in sizes])


def test_a_prompt_of_text_marks_its_image_itself(engine):
    row = VlmGenerationRequest(
        prompt="<|vision_start|><|image_pad|><|vision_end|>", image=make_image(140, 140)
    )
    [result] = engine.generate_vlm_batch([row], GREEDY)
    assert result.prompt_tokens == 27
