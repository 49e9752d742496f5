"""A forward edge without an engine: the model's tokenizer.json and chat template, and the linear parsers.

It imports neither vLLM nor torch. What it does not do, the engines' edges do: images,
tokenizers of other kinds, grammars in the model's own tool syntax.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

from dynamo.frontend.thinking import (
    apply_default_thinking_mode_to_template_kwargs,
    runtime_default_thinking_mode,
)

from ...parsers.base import ParserFactory
from ...parsers.parser_lookup import linear_parsers
from ...tokenization import LazyTokenizer, load
from ...tokenization.chat_template import Message
from ...tokenization.detokenizer import DetokenizerFactory, detokenizers, read_vocabulary
from ...tokenization.model_files import ModelFiles, ModelFolder
from ..chat_model import ChatModel, Request
from ..request.guided_decoding import guided_decoding
from .base import ChatModelBuilder
from .prompt_preprocessor import Prompt, PromptPreprocessor

logger = logging.getLogger(__name__)

# (messages, tools, model=name, **template_kwargs) -> the prompt's token ids
TokenIds = Callable[..., list[int]]
DEPARTURES = {"add_generation_prompt": False, "continue_final_message": True}


class HuggingFaceModelBuilder(ChatModelBuilder):
    """See `ChatModelBuilder`; for "huggingface", and for "python" with a class of the user's."""

    async def model(self, instance_id: Any, routed_engine: Any) -> ChatModel:
        """See `ChatModelBuilder`."""
        return await asyncio.to_thread(self._model, routed_engine)

    def _model(self, routed_engine: Any) -> ChatModel:
        names = self.parsers().names
        engine = self.engine("vllm")
        tokenizer, folder, token_ids = self._tokenization(engine)

        @functools.cache
        def parts() -> tuple[DetokenizerFactory, ParserFactory]:
            return detokenizers(tokenizer), linear_parsers(names, read_vocabulary(tokenizer))

        if self.choice.backend != "python":
            parts()  # not with a stream's first chunk; but a class of the user's waits for its first request
        prompts = HuggingFacePrompts(
            token_ids,
            self.runtime_config,
            reasons=self.configured.names.reasoning is not None,
            shows_unused_tools=not self.config.exclude_tools_when_tool_choice_none,
            shows_only_named=engine == "sglang",
        )
        edge = PromptPreprocessor(
            prompts, folder, self.prompt_queue, self.runtime_config.get("context_length")
        )
        logger.info(
            "model %s: no engine's forward edge, %s, parsers %s",
            self.card.name(),
            self.choice,
            names,
        )
        return ChatModel(self.card, edge, routed_engine, parts)

    def _tokenization(self, engine: str) -> tuple[Any, ModelFolder, TokenIds]:
        """Return the model's tokenizer, what its other files say, and what makes prompts of requests."""
        module, class_name = self.choice.module, self.choice.class_name
        if not (module and class_name):
            files = ModelFiles(self.path, self.flags.chat_template, engine)
            return files.tokenizer, files, files.prompt_token_ids
        tokenizer = load(module, class_name, self.path)
        folder = ModelFolder(self.path, engine, functools.partial(single_token, tokenizer))
        return tokenizer, folder, PythonPrompts(tokenizer, folder, self.flags.chat_template)


def single_token(tokenizer: LazyTokenizer, text: str) -> int | None:
    """Return the token that `text` is by itself, None if it is several."""
    token_ids = tokenizer.encode(text)
    return token_ids[0] if len(token_ids) == 1 else None


class PythonPrompts:
    """The prompts of a tokenizer of the user's own: by its template if it brings one, else by the model's."""

    def __init__(
        self, tokenizer: LazyTokenizer, folder: ModelFolder, chat_template: str | None
    ) -> None:
        self._tokenizer = tokenizer
        self._template = functools.cache(lambda: folder.load_template(chat_template))

    def __call__(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        *,
        model: str,
        **template_kwargs: Any,
    ) -> list[int]:
        """Return the prompt's token ids. Raises `RequestError` and `TokenizerError`."""
        token_ids = self._tokenizer.prompt_token_ids(
            messages, tools, model=model, **template_kwargs
        )
        if token_ids is not None:
            return token_ids
        return self._tokenizer.encode(self._template().render(messages, tools, **template_kwargs))


class HuggingFacePrompts:
    """Renders and tokenizes.

    token_ids: makes the prompt. runtime_config: the model card's. reasons: the model has
    a reasoning parser, known here or not, so the engine is told what decides where
    reasoning ends. shows_unused_tools: the template gets the tools of a request that
    forbids calls, too. shows_only_named: it gets just the one that a request demands.
    """

    def __init__(
        self,
        token_ids: TokenIds,
        runtime_config: dict[str, Any],
        *,
        reasons: bool,
        shows_unused_tools: bool = False,
        shows_only_named: bool = False,
    ) -> None:
        self._token_ids = token_ids
        self._reasons = reasons
        self._thinking_mode = runtime_default_thinking_mode(runtime_config)
        self._shows_unused_tools = shows_unused_tools
        self._shows_only_named = shows_only_named

    def __call__(self, request: Request) -> Prompt:
        """See `PromptPreprocessor`."""
        template_kwargs = self._template_kwargs(request)
        tools = self._tools(request)
        # Only what departs from a template's default: a tokenizer of the user's may not know them.
        given = {
            name: request[name] for name, value in DEPARTURES.items() if request.get(name) is value
        }
        token_ids = self._token_ids(
            request["messages"], tools, model=request["model"], **template_kwargs | given
        )
        prompt = Prompt(token_ids, guided_decoding(request))
        if self._reasons:
            hints = self._reasoning_hints(request, template_kwargs)
            # Also where the workers look for them: Dynamo's router knows no such fields.
            prompt.fields = {**hints, "extra_args": dict(hints)}
        return prompt

    def _tools(self, request: Request) -> list[dict[str, Any]] | None:
        """Return the tools that the model is to see."""
        tools, choice = request.get("tools"), request.get("tool_choice")
        if choice == "none" and not self._shows_unused_tools:
            return None
        if isinstance(choice, dict) and tools and self._shows_only_named:
            return [
                tool for tool in tools if tool["function"]["name"] == choice["function"]["name"]
            ]
        return tools

    def _template_kwargs(self, request: Request) -> dict[str, Any]:
        # Dynamo accepts both names, and hands over its own.
        given = dict(request.get("chat_template_kwargs") or request.get("chat_template_args") or {})
        if request.get("reasoning_effort") is not None:
            given["reasoning_effort"] = request["reasoning_effort"]
        template_kwargs: dict[str, Any] = apply_default_thinking_mode_to_template_kwargs(
            given,
            self._thinking_mode,
            request_has_root_thinking=request.get("thinking") is not None,
        )
        return template_kwargs

    @staticmethod
    def _reasoning_hints(request: Request, template_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return what the engine's guided decoding has to know of the reasoning in front of the answer.

        Where it is not certain, `reasoning_ended` is left out: the engine then asks
        its own parser about the prompt, as Dynamo's vLLM edge would do here.
        """
        hints: dict[str, Any] = {
            "reasoning_parser_kwargs": {"chat_template_kwargs": template_kwargs}
        }
        if (
            template_kwargs.get("enable_thinking") is False
            or request.get("include_reasoning") is False
        ):
            hints["reasoning_ended"] = True
        return hints
