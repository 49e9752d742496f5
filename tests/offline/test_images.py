"""Images of any file: what is none is a row's error, and costs no memory."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import zlib
from types import SimpleNamespace

import pytest
from backedge.offline import VlmPreprocessOptions, vision
from backedge.offline.rows import RowFailure
from backedge.offline.vision import build_processor_arguments, fit_pixels, load_image
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image


def encode(image, kind="PNG"):
    data = io.BytesIO()
    image.save(data, kind)
    return data.getvalue()


RED = Image.new("RGB", (3, 2), "red")


def test_a_path_bytes_and_an_image_are_the_same(tmp_path):
    path = tmp_path / "red.png"
    path.write_bytes(encode(RED))
    for given_image in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), RED):
        loaded = load_image(given_image)
        assert (loaded.mode, loaded.size, loaded.tobytes()) == ("RGB", (3, 2), RED.tobytes())


# mode, colour, what it is in RGB: transparent is white
MODES = [
    ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
    ("RGBA", (255, 0, 0, 255), (255, 0, 0)),
    ("RGBA", (255, 0, 0, 128), (255, 127, 127)),
    ("LA", (0, 0), (255, 255, 255)),
    ("L", 7, (7, 7, 7)),
    ("1", 1, (255, 255, 255)),
    ("CMYK", (0, 0, 0, 255), (0, 0, 0)),
]


@pytest.mark.parametrize(("mode", "colour", "expected"), MODES)
def test_every_mode_becomes_rgb(mode, colour, expected):
    assert load_image(Image.new(mode, (1, 1), colour)).getpixel((0, 0)) == expected


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width, height):
    """Return a PNG of a few bytes that says it is large."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


PNG = encode(RED)
# image, part of the message
NO_IMAGES = [
    (None, "has no image"),
    (5, "must be one path, bytes or PIL image, not 5."),
    ([b"a", b"b"], "must be one path, bytes or PIL image"),
    (b"", "the image of 0 bytes is not an image"),
    (b"<svg/>", "is not an image"),
    (b"%PDF-1.7", "is not an image"),
    (encode(RED, "EPS"), "is not an image in PNG, JPEG, WEBP, GIF, BMP, TIFF"),
    (encode(RED, "ICO"), "is not an image in PNG"),
    (encode(RED, "PPM"), "is not an image in PNG"),
    (PNG[:40], "image of 40 bytes"),
    (encode(RED, "JPEG")[:-200], "image of"),
    (bomb(8193, 8192), "has 8193 x 8192 pixels; at most 67,108,864 are allowed"),
    (bomb(0x7FFFFFFF, 0x7FFFFFFF), "image of"),
    (bomb(1 << 16, 1 << 16), "image of"),
    (bomb(8192, 8192)[:60], "image of"),
    ("/nowhere/x.png", "cannot be read"),
    ("a\0b", "cannot be read"),
    ("/", "is not a file"),
    ("/dev/zero", "is not a file"),
    ("x" * 10_000, "cannot be read"),
]


@pytest.mark.parametrize(("image", "part"), NO_IMAGES)
def test_what_is_no_image(image, part):
    with pytest.raises(RowFailure) as caught:
        load_image(image)
    assert caught.value.error.kind == "image"
    assert part in caught.value.error.message
    assert len(caught.value.error.message) < 1000


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RowFailure, match="is not a file"):
        load_image(tmp_path / "pipe")


def test_a_large_file_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(vision, "MAX_IMAGE_BYTES", 100)
    path = tmp_path / "large"
    path.write_bytes(b"x" * 101)
    for image in (path, b"x" * 101):
        with pytest.raises(RowFailure, match="has more than 100 bytes"):
            load_image(image)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, len(PNG)), st.integers(0, len(PNG)))
def test_damaged_files_are_images_or_failures_of_their_rows(noise, start, end):
    data = PNG[:start] + noise + PNG[end:]
    with contextlib.suppress(RowFailure):
        assert load_image(data).mode == "RGB"


# size, options, size of the fitted image
FITTED = [
    ((100, 50), {}, (100, 50)),
    ((100, 50), {"max_pixels": 1250}, (50, 25)),
    ((10, 5), {"min_pixels": 200}, (20, 10)),
    ((100, 50), {"max_pixels": 1250, "do_resize": False}, (100, 50)),
    ((1000, 1), {"max_pixels": 10}, (100, 1)),
]


@pytest.mark.parametrize(("size", "options", "expected"), FITTED)
def test_an_image_fits_the_budget(size, options, expected):
    fitted = fit_pixels(Image.new("RGB", size), VlmPreprocessOptions(**options))
    assert fitted.size == expected


def processor(**fields):
    size = {"shortest_edge": 784, "longest_edge": 50176}
    valid = SimpleNamespace(__annotations__=fields)
    return SimpleNamespace(image_processor=SimpleNamespace(size=size, valid_kwargs=valid))


QWEN = processor(max_pixels=int, min_pixels=int)
# processor, options, arguments
ARGUMENTS = [
    (QWEN, {}, {}),
    (QWEN, {"do_resize": False}, {"do_resize": False}),
    (QWEN, {"max_pixels": 3136}, {"size": {"shortest_edge": 784, "longest_edge": 3136}}),
    (QWEN, {"max_pixels": 400}, {"size": {"shortest_edge": 400, "longest_edge": 400}}),
    (QWEN, {"min_pixels": 60000}, {"size": {"shortest_edge": 60000, "longest_edge": 60000}}),
    (processor(), {"max_pixels": 400}, {}),
]


@pytest.mark.parametrize(("of", "options", "expected"), ARGUMENTS)
def test_what_the_processor_is_told(of, options, expected):
    assert build_processor_arguments(of, VlmPreprocessOptions(**options)) == expected
