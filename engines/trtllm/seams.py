"""The seams in TensorRT-LLM and in Dynamo's worker for it."""

from __future__ import annotations

from ...base.seams import Seam, Seams, called, read, replaced, text
from ..dynamo.seams import ENDPOINT

PACKAGES = ("ai-dynamo", "tensorrt-llm")
# Dynamo version -> supported version of TensorRT-LLM, both without their last part.
VERSIONS = {"1.6": "1.3", "1.7": "1.4"}
EGRESS = "sending outside the event loop"

# Beginnings of names.
HANDLER = "dynamo.trtllm.request_handlers.handler_base:HandlerBase."
LLM_WORKER = "dynamo.trtllm.workers.llm_worker:"
REASONING = "tensorrt_llm.llmapi.reasoning_parser:ReasoningParserFactory."
SERVE = "tensorrt_llm.serve."

FLAGS = (
    Seam(
        replaced("dynamo.trtllm.args:DynamoTrtllmArgGroup.add_arguments", "self, parser"),
        why="TensorRT-LLM has no plugins, and Dynamo builds its command line here",
        without="the command line has no flags of Backedge",
    ),
    Seam(
        replaced("dynamo.trtllm.args:Config.validate", "self"),
        why="only here has the configuration all parsed flags, those of others too",
        without="Backedge's flags are not seen",
    ),
)
WORKER = (
    Seam(
        replaced(LLM_WORKER + "get_llm_engine", "engine_args"),
        why="only here are the engine's arguments complete, and nothing is loaded",
        without="tokenizer and parsers are not tried before the engine loads",
    ),
    Seam(
        replaced(LLM_WORKER + "RequestHandlerConfig", "*, generate_endpoint"),
        why="only its caller knows the endpoint whose /metrics is served",
        without="/metrics lacks Backedge's, and frontends find a worker that cannot answer",
        feature=ENDPOINT,
    ),
    Seam(
        replaced(LLM_WORKER + "register_model", "*, runtime_config"),
        why="its runtime configuration is the model card, which nothing else can extend",
        without="frontends do not learn that the worker post-processes",
    ),
    Seam(
        replaced(HANDLER + "generate_locally", "self, request, context"),
        why="all handlers call it; a wrapper around `generate` would hide its pushed responses",
        without="no output is post-processed",
    ),
    Seam(
        replaced(
            "dynamo.trtllm.request_handlers.push_egress:drive_push_egress",
            "stream, response_sender",
        ),
        why="Dynamo's sends all chunks from the event loop",
        without="a client that reads slowly stops the worker's event loop",
        feature=EGRESS,
    ),
    Seam(
        replaced(HANDLER + "_cancellation_monitor", "self, generation_result, context"),
        why="only here is the engine's request known",
        without="a request cannot be ended at its stop string",
    ),
    Seam(
        text(HANDLER + "generate_locally", "temporarily rejecting new requests"),
        why="a worker that sleeps answers with the kind of error of a bad request",
        without="a client would be blamed for a worker that sleeps",
        feature="the error of a worker that sleeps",
    ),
    Seam(
        called("tensorrt_llm.executor.result:GenerationResult.abort", "self"),
        why="Dynamo ends a request only when its client leaves",
        without="a request cannot be ended at its stop string",
    ),
    Seam(
        called("tensorrt_llm.llmapi.tokenizer:tokenizer_factory", "obj"),
        why="the engine's tokenizer exists only once the engine is loaded",
        without="the worker has no tokenizer",
    ),
)
PARSERS = (
    Seam(
        called(REASONING + "keys"),
        called(REASONING + "create_reasoning_parser", "reasoning_parser, chat_template_kwargs"),
        called(REASONING + "needs_raw_special_tokens", "reasoning_parser"),
        read(SERVE + "tool_parser.tool_parser_factory:ToolParserFactory.parsers"),
        called(
            SERVE + "tool_parser.tool_parser_factory:ToolParserFactory.create_tool_parser",
            "tool_parser",
        ),
        called(SERVE + "openai_protocol:ChatCompletionToolsParam", "*, type, function"),
        called(SERVE + "openai_protocol:FunctionDefinition", "*, name, description, parameters"),
        why="TensorRT-LLM's own server is the only user of its parsers",
        without="there are no native parsers",
    ),
)
SEAMS: Seams = {
    "flags": FLAGS,
    "worker": WORKER,
    "parsers": PARSERS,
}
