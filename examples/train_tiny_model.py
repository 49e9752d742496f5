"""Train `examples/tiny_model` so that it answers the example transcripts exactly.

    .venv/bin/python examples/train_tiny_model.py             # minutes; says how many at its start
    .venv/bin/python examples/train_tiny_model.py --continue  # fewer, after a small change

The model is a real Qwen3 (0.7 M parameters). It has learned only the transcripts, so
greedy decoding gives the same tokens on every engine, and a test can demand the exact
stream. Run this script again after changing a transcript.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).parent
MODEL_DIR = HERE / "tiny_model"
TRANSCRIPTS_DIR = HERE / "transcripts"

VOCABULARY_SIZE = 560
# Qwen3's own list, in its order. Only the first group is "special" there, so
# skip_special_tokens leaves the reasoning and tool-call markers in the text.
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKER_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

MAX_STEPS = 1500
USUAL_STEPS = 200
TIMED_STEPS = 3
CHECK_EVERY = 25
LEARNING_RATE = 3e-3
CONTINUED_LEARNING_RATE = 1e-3
WARMUP_STEPS = 50
# A transcript counts as learned when its least likely token has this probability, which
# leaves room for the rounding of other kernels.
MIN_PROBABILITY = 0.9


def read_transcripts() -> list[dict[str, Any]]:
    """Return every transcript of every file, in the order of the file names."""
    return [
        json.loads(line)
        for path in sorted(TRANSCRIPTS_DIR.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer with Qwen3's splits and special tokens."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(SPLIT), behavior="isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - len(SPECIAL_TOKENS) - len(MARKER_TOKENS),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(token, normalized=False) for token in SPECIAL_TOKENS]
    )
    tokenizer.add_tokens(
        [tokenizers.AddedToken(token, normalized=False) for token in MARKER_TOKENS]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    fast.chat_template = (MODEL_DIR / "chat_template.jinja").read_text(encoding="utf-8")
    return fast


def tool_variants(tools: list[dict[str, Any]] | None) -> Iterator[list[dict[str, Any]] | None]:
    """Yield `tools` in the forms in which different frontends pass them to the template.

    The forms differ in the order of keys and in the defaults filled in; the model has to
    give the same answer to all of them.
    """
    yield tools
    if not tools:
        return
    yield [{**tool, "function": {**tool["function"], "strict": None}} for tool in tools]
    yield [json.loads(json.dumps(tool, sort_keys=True)) for tool in tools]
    yield [{"function": tool["function"], "type": "function"} for tool in tools]
    # SGLang's own server and Dynamo's SGLang processor: their order of keys, with defaults.
    yield [
        {
            "type": "function",
            "function": {
                "description": tool["function"].get("description"),
                "name": tool["function"]["name"],
                "parameters": tool["function"].get("parameters"),
                "strict": False,
            },
            "defer_loading": None,
        }
        for tool in tools
    ]


def encode(
    tokenizer: PreTrainedTokenizerFast, transcript: dict[str, Any]
) -> list[tuple[list[int], int]]:
    """Return (token_ids, length of the prompt) for every variant of the prompt."""
    answer = tokenizer.encode(transcript["output"], add_special_tokens=False)
    samples = []
    for tools in tool_variants(transcript.get("tools")):
        text = tokenizer.apply_chat_template(
            transcript["messages"],
            tools=tools,
            tokenize=False,
            add_generation_prompt=True,
            **transcript.get("chat_template_kwargs", {}),
        )
        for prompt in {text, text.replace('": ', '":').replace(', "', ',"')}:
            token_ids = tokenizer.encode(prompt, add_special_tokens=False)
            samples.append((token_ids + answer, len(token_ids)))
    return samples


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return an untrained Qwen3 of 0.7 M parameters, float32."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config).float()


def batches(
    samples: list[tuple[list[int], int]], size: int = 1200
) -> Iterator[list[tuple[list[int], int]]]:
    """Yield `samples` in groups of similar length, about `size` padded tokens each."""
    group: list[tuple[list[int], int]] = []
    for sample in sorted(samples, key=lambda sample: len(sample[0])):
        if group and len(sample[0]) * (len(group) + 1) > size:
            yield group
            group = []
        group.append(sample)
    yield group


def answer_log_probabilities(
    model: Qwen3ForCausalLM, group: list[tuple[list[int], int]], pad: int
) -> torch.Tensor:
    """Return the log probability of every answer token of the group, shape (tokens,)."""
    length = max(len(token_ids) for token_ids, _ in group)
    inputs = torch.full((len(group), length), pad)
    labels = torch.full((len(group), length), -100)
    for row, (token_ids, prompt_length) in enumerate(group):
        ids = torch.tensor(token_ids)
        inputs[row, : len(ids)] = ids
        labels[row, prompt_length : len(ids)] = ids[prompt_length:]
    # Right padding needs no mask: attention is causal and padding has no label.
    hidden = model.model(input_ids=inputs).last_hidden_state[:, :-1]
    wanted = labels[:, 1:] != -100
    log_probabilities = model.lm_head(hidden[wanted]).log_softmax(-1)
    return log_probabilities.gather(1, labels[:, 1:][wanted].unsqueeze(1)).squeeze(1)


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch comes without types here
def least_probability(
    model: Qwen3ForCausalLM, samples: list[tuple[list[int], int]], pad: int
) -> float:
    """Return the probability of the least likely answer token of all samples."""
    return min(
        float(answer_log_probabilities(model, group, pad).min().exp()) for group in batches(samples)
    )


def relative_learning_rate(step: int) -> float:
    """Return the learning rate of a step: a warm-up to 1, then a linear decay to 0.1."""
    return min((step + 1) / WARMUP_STEPS, max(0.1, 1 - step / MAX_STEPS))


def train(
    model: Qwen3ForCausalLM,
    variants: list[list[tuple[list[int], int]]],
    pad: int,
    learning_rate: float,
) -> None:
    """Train in place until every variant of every transcript is learned.

    Raises SystemExit after MAX_STEPS.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, relative_learning_rate)
    started = time.monotonic()
    everything = [sample for samples in variants for sample in samples]
    for step in range(1, MAX_STEPS + 1):
        chosen = [random.choice(samples) for samples in variants]
        tokens = sum(len(token_ids) - prompt for token_ids, prompt in chosen)
        total = 0.0
        for group in batches(chosen):
            loss = -answer_log_probabilities(model, group, pad).sum() / tokens
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step == TIMED_STEPS:
            minutes = (time.monotonic() - started) / step * USUAL_STEPS / 60
            print(f"about {minutes:.1f} minutes for the usual {USUAL_STEPS} steps", flush=True)
        if step % CHECK_EVERY == 0:
            least = least_probability(model, everything, pad) if total < 0.05 else 0.0
            print(
                f"step {step}: loss {total:.4f}, least likely token {least:.3f}, "
                f"{time.monotonic() - started:.0f} s",
                flush=True,
            )
            if least > MIN_PROBABILITY:
                return
    raise SystemExit(
        f"the transcripts are not learned after {MAX_STEPS} steps, so no model was written; "
        "raise MAX_STEPS or train without --continue"
    )


def main() -> None:
    """Train the tokenizer and the model, and write both to `MODEL_DIR`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--continue",
        dest="continues",
        action="store_true",
        help="start from the weights in examples/tiny_model",
    )
    continues = parser.parse_args().continues
    random.seed(0)
    torch.manual_seed(0)
    transcripts = read_transcripts()
    texts = [json.dumps(transcript, ensure_ascii=False) for transcript in transcripts]
    tokenizer = train_tokenizer([*texts, *(transcript["output"] for transcript in transcripts)])
    variants = [encode(tokenizer, transcript) for transcript in transcripts]
    longest = max(len(token_ids) for samples in variants for token_ids, _ in samples)
    print(
        f"{len(transcripts)} transcripts, {len(tokenizer)} tokens, longest sequence {longest}; "
        f"at most {MAX_STEPS} steps, a line with the time every {CHECK_EVERY}",
        flush=True,
    )
    model = build_model(tokenizer)
    if continues:
        model.load_state_dict(Qwen3ForCausalLM.from_pretrained(MODEL_DIR).state_dict())
    learning_rate = CONTINUED_LEARNING_RATE if continues else LEARNING_RATE
    train(model, variants, tokenizer.pad_token_id, learning_rate)
    model.save_pretrained(MODEL_DIR)
    tokenizer.save_pretrained(MODEL_DIR)
    generation = {
        "bos_token_id": None,
        "eos_token_id": [tokenizer.eos_token_id, tokenizer.pad_token_id],
        "pad_token_id": tokenizer.pad_token_id,
        "temperature": 0.0,
    }
    (MODEL_DIR / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


if __name__ == "__main__":
    main()
