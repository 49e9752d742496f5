"""Makes a vision model of 1 MB with random weights, for tests and to try image jobs.

    python examples/make_vision_model.py FOLDER

It is a Qwen2-VL: an image becomes one token for each 28 x 28 pixels. Its answers are noise, but
reproducible.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken

TEXT_MODEL = Path(__file__).parent / "tiny_model"
VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
TEMPLATE = """\
{%- for message in messages -%}
    {{- "<|im_start|>" + message.role + "\\n" -}}
    {%- if message.content is string -%}{{- message.content -}}{%- else -%}
        {%- for part in message.content -%}
            {%- if part.type == "image" -%}
                {{- "<|vision_start|><|image_pad|><|vision_end|>" -}}
            {%- else -%}{{- part.text -}}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{- "<|im_end|>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_start|>assistant\\n" -}}{%- endif -%}
"""


def make(folder: Path) -> None:
    """Write model and processor into `folder`."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(TEXT_MODEL)
    tokenizer.add_tokens([AddedToken(token, special=True) for token in VISION_TOKENS])
    start, end, image, video = tokenizer.convert_tokens_to_ids(list(VISION_TOKENS))
    config = transformers.Qwen2VLConfig(
        text_config={
            "vocab_size": len(tokenizer) + 4,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "initializer_range": 0.3,
            "max_position_embeddings": 2048,
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [4, 6, 6],
            },
        },
        vision_config={
            "depth": 2,
            "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0},
            "embed_dim": 32,
            "hidden_size": 64,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "initializer_range": 0.3,
        },
        vision_start_token_id=start,
        vision_end_token_id=end,
        image_token_id=image,
        video_token_id=video,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = transformers.Qwen2VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    processor = transformers.Qwen2VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            min_pixels=28 * 28, max_pixels=64 * 28 * 28
        ),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE,
    )
    processor.save_pretrained(folder)


def main() -> None:
    """Make the model in the folder given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    make(parser.parse_args().folder)


if __name__ == "__main__":
    main()
