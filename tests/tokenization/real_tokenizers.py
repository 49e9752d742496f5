"""Real vocabularies, which mistral-common ships, as tokenizers of `tokenizers`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import mistral_common
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers.convert_slow_tokenizer import bytes_to_unicode, import_protobuf

DATA = Path(mistral_common.__file__).parent / "data"
TEKKEN = "tekken_240911.json"
SENTENCEPIECE = "mistral_instruct_tokenizer_240323.model.v3"
NORMAL, UNKNOWN, CONTROL = 1, 2, 3
MARKERS = ("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]")


def find_merges(ranks: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return all ways to make a piece of two others, the best piece first."""
    merges = [
        (ranks[piece], ranks[piece[:at]], ranks[piece[at:]], piece[:at], piece[at:])
        for piece in ranks
        for at in range(1, len(piece))
        if piece[:at] in ranks and piece[at:] in ranks
    ]
    return [(left, right) for *_, left, right in sorted(merges)]


def tekken() -> Tokenizer:
    """Return the tokenizer of Mistral Nemo: 130,000 pieces of bytes."""
    file = json.loads((DATA / TEKKEN).read_text(encoding="utf-8"))
    config = file["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    letters = bytes_to_unicode()
    ranks = {
        "".join(letters[byte] for byte in base64.b64decode(entry["token_bytes"])): entry["rank"]
        for entry in file["vocab"][:size]
    }
    tokenizer = Tokenizer(models.BPE(ranks, find_merges(ranks), ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(config["pattern"]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(MARKERS))
    return tokenizer


def sentencepiece(*, first: bool) -> Tokenizer:
    """Return the tokenizer of Mistral 7B: 32,768 pieces, 770 of them control tokens.

    first: whether a space is put in front of the text alone, or of what follows a token, too.
    """
    model = import_protobuf().ModelProto()
    model.ParseFromString((DATA / SENTENCEPIECE).read_bytes())
    vocabulary = {piece.piece: number for number, piece in enumerate(model.pieces)}
    ranks = {piece.piece: vocabulary[piece.piece] for piece in model.pieces if piece.type == NORMAL}
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary, find_merges(ranks), unk_token="<unk>", fuse_unk=True, byte_fallback=True
        )
    )
    if first:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    tokenizer.add_special_tokens(
        [piece.piece for piece in model.pieces if piece.type in (UNKNOWN, CONTROL)]
    )
    return tokenizer
