"""The seams in TensorRT-LLM and in Dynamo's worker for it."""

from __future__ import annotations

import functools

from ...base.seams import Seam

PACKAGES = ("ai-dynamo", "tensorrt-llm")
# Dynamo version -> supported version of TensorRT-LLM, both without their last part.
VERSIONS = {"1.6": "1.3", "1.7": "1.4"}

ARGUMENTS = "dynamo.trtllm.args"
LLM_WORKER = "dynamo.trtllm.workers.llm_worker"
HANDLER = "dynamo.trtllm.request_handlers.handler_base"

_dynamo = functools.partial(Seam, kind="replaced", role="worker", since="1.6")
_trtllm = functools.partial(Seam, kind="called", role="worker", since="1.3")
_parsers = functools.partial(
    _trtllm,
    role="parsers",
    why="TensorRT-LLM's own server is the only user of its parsers",
    without="there are no native parsers",
)

ADD_FLAGS = _dynamo(
    name=f"{ARGUMENTS}:DynamoTrtllmArgGroup.add_arguments",
    role="flags",
    parameters=("self", "parser"),
    why="TensorRT-LLM has no plugins, and Dynamo builds its command line here",
    without="the command line has no flags of Backedge",
    used_in=("engines/trtllm/worker.py:watch_arguments",),
)
VALIDATE = _dynamo(
    name=f"{ARGUMENTS}:Config.validate",
    role="flags",
    parameters=("self",),
    why="only here has the configuration all parsed flags, those of others too",
    without="Backedge's flags are not seen",
    used_in=("engines/trtllm/worker.py:watch_arguments", "engines/trtllm/worker.py:enable_once"),
)
LOAD_ENGINE = _dynamo(
    name=f"{LLM_WORKER}:get_llm_engine",
    parameters=("engine_args",),
    why="only here are the engine's arguments complete, and nothing is loaded",
    without="tokenizer and parsers are not tried before the engine loads",
    used_in=("engines/trtllm/worker.py:TrtllmWorker.install",),
)
METRICS = _dynamo(
    name=f"{LLM_WORKER}:RequestHandlerConfig",
    keywords=("generate_endpoint",),
    why="only its caller knows the endpoint whose /metrics is served",
    without="the worker's /metrics lacks Backedge's",
    used_in=("engines/trtllm/worker.py:ENGINE",),
)
REGISTER = _dynamo(
    name=f"{LLM_WORKER}:register_model",
    keywords=("runtime_config",),
    why="its runtime configuration is the model card, which nothing else can extend",
    without="frontends do not learn that the worker post-processes",
    used_in=("engines/trtllm/worker.py:TrtllmWorker.install_card",),
)
GENERATE = _dynamo(
    name=f"{HANDLER}:HandlerBase.generate_locally",
    parameters=("self", "request", "context"),
    why="all handlers call it; a wrapper around `generate` would hide its pushed responses",
    without="no output is post-processed",
    used_in=("engines/trtllm/worker.py:TrtllmWorker.install",),
)
SEND_ALL = _dynamo(
    name="dynamo.trtllm.request_handlers.push_egress:drive_push_egress",
    parameters=("stream", "response_sender"),
    why="Dynamo's sends all chunks from the event loop",
    without="a client that reads slowly stops the worker's event loop",
    used_in=("engines/trtllm/worker.py:TrtllmWorker.install",),
)
MONITOR = _dynamo(
    name=f"{HANDLER}:HandlerBase._cancellation_monitor",
    parameters=("self", "generation_result", "context"),
    why="only here is the engine's request known",
    without="a request cannot be ended at its stop string",
    used_in=("engines/trtllm/worker.py:TrtllmWorker.install",),
)

WORKER: tuple[Seam, ...] = (
    ADD_FLAGS,
    VALIDATE,
    LOAD_ENGINE,
    METRICS,
    REGISTER,
    GENERATE,
    SEND_ALL,
    MONITOR,
    _dynamo(
        name=f"{HANDLER}:HandlerBase.generate_locally",
        kind="text",
        contains=("temporarily rejecting new requests",),
        why="a worker that sleeps answers with the kind of error of a bad request",
        without="a client would be blamed for a worker that sleeps",
        used_in=("engines/trtllm/worker.py:SLEEPING",),
    ),
    _trtllm(
        name="tensorrt_llm.executor.result:GenerationResult.abort",
        parameters=("self",),
        why="Dynamo ends a request only when its client leaves",
        without="a request cannot be ended at its stop string",
        used_in=("engines/trtllm/worker.py:TrtllmRequestHandle._end_if_unwanted",),
    ),
    _trtllm(
        name="tensorrt_llm.llmapi.tokenizer:tokenizer_factory",
        why="the engine's tokenizer exists only once the engine is loaded",
        without="the worker has no tokenizer",
        used_in=("engines/trtllm/worker.py:load_tokenizer",),
    ),
    *(
        _parsers(
            name=f"tensorrt_llm.llmapi.reasoning_parser:ReasoningParserFactory.{path}",
            parameters=parameters,
            used_in=(f"engines/trtllm/parsers.py:{owner}",),
        )
        for path, parameters, owner in (
            ("keys", (), "known_names"),
            (
                "create_reasoning_parser",
                ("reasoning_parser", "chat_template_kwargs"),
                "TrtllmParsers.__call__",
            ),
            (
                "needs_raw_special_tokens",
                ("reasoning_parser",),
                "TrtllmParsers.shows_special_tokens",
            ),
        )
    ),
    _parsers(
        name="tensorrt_llm.serve.tool_parser.tool_parser_factory:ToolParserFactory.parsers",
        kind="read",
        used_in=(
            "engines/trtllm/parsers.py:known_names",
            "engines/trtllm/parsers.py:TrtllmParsers.shows_special_tokens",
        ),
    ),
    _parsers(
        name="tensorrt_llm.serve.tool_parser.tool_parser_factory:"
        "ToolParserFactory.create_tool_parser",
        parameters=("tool_parser",),
        used_in=("engines/trtllm/parsers.py:TrtllmParsers.__call__",),
    ),
    *(
        _parsers(
            name=f"tensorrt_llm.serve.openai_protocol:{name}",
            used_in=("engines/trtllm/parsers.py:build_tools",),
        )
        for name in ("ChatCompletionToolsParam", "FunctionDefinition")
    ),
)

FRONTEND: tuple[Seam, ...] = ()
