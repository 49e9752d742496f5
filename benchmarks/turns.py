"""The benefit of keeping turns for an agent, and its cost.

    python -m benchmarks.turns FOLDER [--parts templates stack cost store] [--json]

`templates` counts how many prompts of a loop begin, id by id, with the last prompt and the last
answer. FOLDER has chat templates (`**/*.jinja`). For each template of a thinking model with tools,
a stand-in for the model makes five calls. It writes as the template does; for `exact`, its JSON has
no spaces and its tokens are cut elsewhere. The client drops the reasoning, writes the arguments
anew and trims white space; for `sent_back` it sends the reasoning. The last column says why
a template has fewer than five with `exact`; with --json, `others` says why one is not measured.

The other parts need no FOLDER: `stack` is an agent on real engines (`turns_stack`), `cost` the CPU
time of a frontend (`turns_cost`), and `store` the look-ups in a store of several frontends
(`turns_store`).
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
from backedge.base.errors import RequestError, SetupError
from backedge.base.json_types import JsonObject
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.prompt_preprocessor import PromptPreprocessor
from backedge.frontend.prompt_queue import PromptQueue
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.frontend.turns.flags import TurnMode, TurnSettings
from backedge.frontend.turns.turn_keeper import TurnKeeper
from backedge.frontend.turns.turn_store import TurnStore
from backedge.guided.call_policy import CallPolicy
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import Chunk
from backedge.postprocess.postprocessor import Postprocessor
from backedge.templates.auto_parsers import AUTO, resolve_auto
from backedge.templates.chat_template import ModelPrompts, load_template
from backedge.tokenization.detokenizer import detokenizers, read_vocabulary
from tokenizers import AddedToken, Tokenizer

from .answers import TINY_MODEL
from .report import build_parser, show

CALLS = 5
CAPACITY = 1 << 26
CONTEXT_LENGTH = 100_000
BOS, EOS = "<s>", "</s>"
# Markers of chat templates; each becomes one token.
BAR = "\N{FULLWIDTH VERTICAL LINE}"
MARKER = re.compile(
    rf"</?[|{BAR}]?[\w:/▁.-]+(?: \w+)?[|{BAR}]?>|<[|{BAR}][^<>{{}}\s]+[|{BAR}]>|\[/?[A-Z_]{{3,}}\]"
    r"|\]~!?b[\[\]]|\[e~\[|<\|/?\w+|◁/?\w+▷"
)
# The tokens with which models end a turn, as their generation configs say.
END = re.compile(
    r"<\|im_end\|>|</assistant>|<\|END_OF_TURN_TOKEN\|>|\[e~\[|<seed:eos>"
    rf"|<{BAR}end▁of▁sentence{BAR}>"
    r"|<sep>|<\|tool_response>|<turn\|>|<\|eot\|>|<\|call\|>|<\|end_of_msg\|>|</s>"
)
TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Return the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
THINKING = {"enable_thinking": True, "thinking": True}


class Row(msgspec.Struct):
    """The prompts of one template that begin with the last prompt and answer, of `CALLS`.

    sent_back: for a client that sends the reasoning. reason: why `exact` is below `CALLS`.
    """

    template: str
    off: int = 0
    sent_back: int = 0
    reasoning: int = 0
    exact: int = 0
    reason: str = ""


class Other(msgspec.Struct):
    """A template that is not measured, and why."""

    template: str
    reason: str


class NotMeasuredError(Exception):
    """The template has no reasoning or no tools, or the stand-in cannot write as it does."""


class StandIn:
    """A model that writes as its chat template does. folder: of its files, which are written."""

    def __init__(self, source: str, folder: Path) -> None:
        tokenizer = Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))
        markers = dict.fromkeys((BOS, EOS, *MARKER.findall(source)))
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in markers])
        tokenizer.save(str(folder / "tokenizer.json"))
        for name in ("config.json", "generation_config.json"):
            (folder / name).write_bytes((TINY_MODEL / name).read_bytes())
        config = {"bos_token": BOS, "eos_token": EOS, "model_max_length": CONTEXT_LENGTH}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
        (folder / "chat_template.jinja").write_text(source, "utf-8")
        self.names = resolve_auto(ParserNames(AUTO, AUTO), str(folder))
        self.files = ModelPrompts(str(folder), None, "vllm", CONTEXT_LENGTH)
        self._template = load_template(self.files, None, "vllm")
        self.tokenizer = tokenizer
        self.factories = (
            detokenizers(tokenizer),
            linear_parsers(self.names, read_vocabulary(tokenizer)),
        )

    def _render(
        self, messages: Sequence[JsonObject], *, add_generation_prompt: bool = False
    ) -> str:
        return self._template.render(
            list(messages), [TOOL], add_generation_prompt=add_generation_prompt, **THINKING
        )

    def write(self, messages: Sequence[JsonObject], answer: JsonObject) -> tuple[str, str]:
        """Return the text of `answer` and the token that ends it."""
        prompt = self._render(messages, add_generation_prompt=True)
        turn = self._render([*messages, answer])
        if not turn.startswith(prompt) or answer["reasoning_content"] not in turn[len(prompt) :]:
            raise NotMeasuredError("the template does not render the thoughts of a loop")
        call = answer["tool_calls"][0]
        more = self._render([*messages, answer, result_of(call)])
        text = more[len(prompt) :]
        end = END.search(text)
        if end is not None:
            return text[: end.start()], end.group()
        # As GLM's: the tool's message begins with the token that ends the answer.
        following = MARKER.search(more[len(turn) :])
        return turn[len(prompt) :].rstrip(), EOS if following is None else following.group()

    def generate(self, text: str, end: str, *, is_free: bool) -> list[int]:
        """Return the token ids. is_free: cut otherwise than the tokenizer cuts the whole text."""
        if not is_free:
            ids: list[int] = self.tokenizer.encode(text + end, add_special_tokens=False).ids
            return ids
        parts = [part for part in re.split(f"({MARKER.pattern})", text) if part] + [end]
        pieces = [
            piece
            for part in parts
            for piece in ([part] if MARKER.fullmatch(part) else re.findall(r"(?s).{1,3}", part))
        ]
        encoded = [self.tokenizer.encode(piece, add_special_tokens=False).ids for piece in pieces]
        return [token_id for ids in encoded for token_id in ids]


def answer_of(number: int) -> JsonObject:
    """Return an assistant's message with reasoning and one call."""
    arguments = {"city": f"City {number}", "days": number}
    return {
        "role": "assistant",
        "content": "",
        "reasoning_content": f"Step {number}: I look it up, then I compare.",
        "tool_calls": [
            {
                "id": f"call0000{number}",
                "type": "function",
                "function": {"name": "get_weather", "arguments": arguments},
            }
        ],
    }


def result_of(call: JsonObject) -> JsonObject:
    """Return a tool's result."""
    return {"role": "tool", "tool_call_id": call["id"], "name": "get_weather", "content": "21 C"}


class Agent:
    """One agent's loop with a model.

    is_free: whether the model's JSON and tokens differ from the template's. sends_reasoning:
    whether the client does.
    """

    def __init__(
        self, model: StandIn, mode: TurnMode, *, is_free: bool, sends_reasoning: bool = False
    ) -> None:
        self._model = model
        self._is_free = is_free
        self._sends_reasoning = sends_reasoning
        queue = PromptQueue(threads=1)
        prompts = HuggingFacePrompts(
            model.files.prompt_token_ids, {}, CallPolicy(enabled=False), has_reasoning_parser=True
        )
        self._preprocess = PromptPreprocessor(prompts, model.files, queue, CONTEXT_LENGTH)
        self._store = TurnStore(CAPACITY)
        self._keeper = TurnKeeper(TurnSettings(mode), self._store, queue, lambda: model.factories)

    @property
    def reason(self) -> str:
        """Why turns were not restored."""
        return ", ".join(reason for reason, count in self._store.counts.missed.items() if count)

    async def run(self) -> int:
        """Return how many of the prompts begin with the last one and its answer."""
        messages: list[JsonObject] = [{"role": "user", "content": "Compare the weather."}]
        written = list(messages)
        before: list[int] = []
        kept = 0
        for number in range(CALLS + 1):
            answer = answer_of(number)
            generated = self._generate(written, answer)
            prompt, message = await self._ask(messages, generated)
            kept += number > 0 and prompt[: len(before)] == before
            before = prompt + generated
            messages += [message, result_of(message["tool_calls"][0])]
            answer["tool_calls"][0]["id"] = message["tool_calls"][0]["id"]
            written += [answer, result_of(answer["tool_calls"][0])]
        return kept

    def _generate(self, written: list[JsonObject], answer: JsonObject) -> list[int]:
        text, end = self._model.write(written, answer)
        if self._is_free:
            arguments = answer["tool_calls"][0]["function"]["arguments"]
            compact = json.dumps(arguments, separators=(",", ":"))
            text = text.replace(json.dumps(arguments), compact)
        return self._model.generate(text, end, is_free=self._is_free)

    async def _ask(
        self, messages: list[JsonObject], generated: list[int]
    ) -> tuple[list[int], JsonObject]:
        """Return the prompt, and the message that the client sends back."""
        ends = [generated[-1]]
        raw = {"model": "m", "tools": [TOOL], "messages": msgspec.json.decode(encode(messages))}
        request = decode_chat_request(
            {**raw, "chat_template_kwargs": THINKING, "stop_token_ids": ends}
        )
        conversation = await self._keeper.restore(request, None)
        async with self._preprocess(request) as prepared:
            params, preprocessed = prepared.params, prepared.preprocessed
            if conversation is not None:
                params = await self._keeper.splice(conversation, request, preprocessed, params)
            prompt = preprocessed["token_ids"]
            post = Postprocessor(params, *self._model.factories, prompt_token_ids=prompt)
            chunk = Chunk(token_ids=generated, finish_reason="stop")
            deltas = post.feed(chunk)
            if conversation is not None:
                collector = self._keeper.collect(conversation, preprocessed, params, [generated])
                collector.add(deltas)
        whole = aggregate_deltas(deltas).delta
        if not (whole.reasoning_content and len(whole.tool_calls) == 1):
            raise NotMeasuredError("the parsers do not read what the template writes")
        [call] = whole.tool_calls
        function = {
            "name": call.function.name,
            "arguments": json.dumps(json.loads(call.function.arguments), indent=1),
        }
        message = {
            "role": "assistant",
            "content": (whole.content or "").strip(),
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        }
        if self._sends_reasoning:
            message["reasoning_content"] = whole.reasoning_content
        return prompt, message


encode = msgspec.json.encode


def measure(template: Path) -> Row:
    """Measure one template. Raises `NotMeasuredError`."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = StandIn(template.read_text("utf-8"), Path(folder))
            row = Row(template.stem)
            for mode in get_args(TurnMode):
                agent = Agent(model, mode, is_free=mode == "exact")
                setattr(row, mode, asyncio.run(agent.run()))
            row.reason = "" if row.exact == CALLS else agent.reason
            agent = Agent(model, "off", is_free=False, sends_reasoning=True)
            row.sent_back = asyncio.run(agent.run())
        except (SetupError, RequestError) as error:
            raise NotMeasuredError(str(error)) from error
    return row


def measure_all(folder: Path) -> tuple[list[Row], list[Other]]:
    """Return a row for each template, whole loops first, and those that are not measured."""
    rows, others = [], []
    for path in sorted(folder.rglob("*.jinja")):
        try:
            rows.append(measure(path))
        except NotMeasuredError as error:
            others.append(Other(path.stem, str(error)))
    names = ("off", "sent_back", "reasoning", "exact")
    whole = [sum(getattr(row, name) == CALLS for row in rows) for name in names]
    return [Row(f"whole loops of {len(rows)}", *whole), *rows], others


# --parts -> the rounds of the part; `templates` has no rounds.
ROUNDS = {"stack": 4, "cost": 40, "store": 40}


def measure_part(part: str, rounds: int) -> Sequence[msgspec.Struct]:
    """Return the rows of a part that needs no folder."""
    if part == "cost":
        from .turns_cost import measure_cost

        return measure_cost(rounds)
    if part == "stack":
        from .turns_stack import measure_stack

        return measure_stack(rounds)
    from .turns_store import measure_store

    return measure_store(rounds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its results."""
    parser = build_parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of chat templates")
    parser.add_argument("--parts", nargs="+", choices=("templates", *ROUNDS), default=["templates"])
    parser.add_argument("--rounds", type=int, help="of each part; default: a part's own")
    flags = parser.parse_args(arguments)
    if "templates" in flags.parts and flags.folder is None:
        parser.error("templates need a FOLDER; `--parts stack cost store` needs none")
    tables: dict[str, Sequence[msgspec.Struct]] = {}
    for part in flags.parts:
        if part == "templates":
            tables[part], tables["others"] = measure_all(flags.folder)
        else:
            tables[part] = measure_part(part, flags.rounds or ROUNDS[part])
    show(tables, as_json=flags.json)


if __name__ == "__main__":
    main()
