"""The seams in TensorRT-LLM and in Dynamo's worker for it."""

from __future__ import annotations

from ...base.seams import Seam, read_table

PACKAGES = ("ai-dynamo", "tensorrt-llm")
# Dynamo version -> supported version of TensorRT-LLM, both without their last part.
VERSIONS = {"1.6": "1.3", "1.7": "1.4"}

WORKER = read_table(
    "engines/trtllm/",
    """\
== flags 1.6
replaced dynamo.trtllm.args:DynamoTrtllmArgGroup.add_arguments(self, parser)
    why: TensorRT-LLM has no plugins, and Dynamo builds its command line here
    without: the command line has no flags of Backedge
    used_in: worker.py:watch_arguments
replaced dynamo.trtllm.args:Config.validate(self)
    why: only here has the configuration all parsed flags, those of others too
    without: Backedge's flags are not seen
    used_in: worker.py:watch_arguments worker.py:enable_once
== worker 1.6
replaced dynamo.trtllm.workers.llm_worker:get_llm_engine(engine_args)
    why: only here are the engine's arguments complete, and nothing is loaded
    without: tokenizer and parsers are not tried before the engine loads
    used_in: worker.py:TrtllmWorker.install
replaced dynamo.trtllm.workers.llm_worker:RequestHandlerConfig(*, generate_endpoint)
    why: only its caller knows the endpoint whose /metrics is served
    without: the worker's /metrics lacks Backedge's
    used_in: worker.py:ENGINE
replaced dynamo.trtllm.workers.llm_worker:register_model(*, runtime_config)
    why: its runtime configuration is the model card, which nothing else can extend
    without: frontends do not learn that the worker post-processes
    used_in: worker.py:TrtllmWorker.install_card
replaced dynamo.trtllm.request_handlers.handler_base:HandlerBase.generate_locally(self, request,
        context)
    why: all handlers call it; a wrapper around `generate` would hide its pushed responses
    without: no output is post-processed
    used_in: worker.py:TrtllmWorker.install
replaced dynamo.trtllm.request_handlers.push_egress:drive_push_egress(stream, response_sender)
    why: Dynamo's sends all chunks from the event loop
    without: a client that reads slowly stops the worker's event loop
    used_in: worker.py:TrtllmWorker.install
replaced dynamo.trtllm.request_handlers.handler_base:HandlerBase._cancellation_monitor(self,
        generation_result, context)
    why: only here is the engine's request known
    without: a request cannot be ended at its stop string
    used_in: worker.py:TrtllmWorker.install
text dynamo.trtllm.request_handlers.handler_base:HandlerBase.generate_locally `temporarily
        rejecting new requests`
    why: a worker that sleeps answers with the kind of error of a bad request
    without: a client would be blamed for a worker that sleeps
    used_in: worker.py:SLEEPING
== worker 1.3
called tensorrt_llm.executor.result:GenerationResult.abort(self)
    why: Dynamo ends a request only when its client leaves
    without: a request cannot be ended at its stop string
    used_in: worker.py:TrtllmRequestHandle._end_if_unwanted
called tensorrt_llm.llmapi.tokenizer:tokenizer_factory(obj)
    why: the engine's tokenizer exists only once the engine is loaded
    without: the worker has no tokenizer
    used_in: worker.py:load_tokenizer
== parsers 1.3
called llmapi.reasoning_parser:ReasoningParserFactory.keys
called llmapi.reasoning_parser:ReasoningParserFactory.create_reasoning_parser(reasoning_parser,
        chat_template_kwargs)
called llmapi.reasoning_parser:ReasoningParserFactory.needs_raw_special_tokens(reasoning_parser)
read serve.tool_parser.tool_parser_factory:ToolParserFactory.parsers
called serve.tool_parser.tool_parser_factory:ToolParserFactory.create_tool_parser(tool_parser)
called serve.openai_protocol:ChatCompletionToolsParam(*, type, function)
called serve.openai_protocol:FunctionDefinition(*, name, description, parameters)
    of: tensorrt_llm.
    why: TensorRT-LLM's own server is the only user of its parsers
    without: there are no native parsers
    used_in: parsers.py:known_names parsers.py:TrtllmParsers.__call__
        parsers.py:TrtllmParsers.shows_special_tokens parsers.py:build_tools
""",
)
FRONTEND: tuple[Seam, ...] = ()
