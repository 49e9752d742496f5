"""The seams in vLLM and in Dynamo's vLLM worker and frontend."""

from __future__ import annotations

from ...base.seams import Seam, Seams, called, read, replaced, subclassed, text
from ..dynamo.seams import ENDPOINT

PACKAGES = ("ai-dynamo", "vllm")
# Dynamo version -> supported version of vLLM, both without their last part.
VERSIONS = {"1.6": "0.31", "1.7": "0.32"}
FILES = "reading the files of a model again"
GROUPS = "sending groups of tokens"
ADAPTERS = "post-processing for LoRA adapters"

# Beginnings of names.
LLM_ENGINE = "vllm.v1.engine.llm_engine:LLMEngine."
OUTPUT = "vllm.v1.engine.output_processor:"
PROCESSOR = "dynamo.frontend.vllm_processor:"
RENDERER = "vllm.renderers.hf:"
PARSER = "vllm.parser."
ONLINE = "vllm.renderers.online_renderer:OnlineRenderer."

FLAGS = (
    Seam(
        replaced("vllm.engine.arg_utils:EngineArgs.add_cli_args", "parser"),
        why="vLLM's plugins may not add flags",
        without="the command line has no flags of Backedge",
    ),
    Seam(
        replaced("dynamo.vllm.args:_build_config", "dynamo_config, vllm_args"),
        why="the configuration that Dynamo returns has lost flags that it does not know",
        without="Backedge's flags are not seen",
    ),
)
WORKER = (
    Seam(
        replaced("dynamo.vllm.main:setup_vllm_engine", "config"),
        why="nothing else runs between the fetching of the model and the loading of the engine",
        without="tokenizer and parsers are not tried before the engine loads",
    ),
    Seam(
        replaced("dynamo.vllm.main:setup_metrics_collection", "*, generate_endpoint"),
        why="only its caller knows the endpoint whose /metrics is served",
        without="/metrics lacks Backedge's, and frontends find a worker that cannot answer",
        feature=ENDPOINT,
    ),
    Seam(
        replaced("dynamo.vllm.main:register_model", "*, runtime_config"),
        why="it gets the model card, which nothing else can extend",
        without="frontends do not learn that the worker post-processes",
    ),
    Seam(
        replaced("dynamo.vllm.handlers:register_model", "*, runtime_config"),
        why="it gets the card of a LoRA adapter, which nothing else can extend",
        without="frontends post-process the answers of adapters themselves",
        feature=ADAPTERS,
    ),
    Seam(
        replaced("dynamo.vllm.handlers:DecodeWorkerHandler.generate", "self, request, context"),
        why="Dynamo has no hook around a worker's outputs",
        without="no output is post-processed",
    ),
    Seam(
        read(OUTPUT + "OutputProcessor.external_req_ids"),
        text(
            "vllm.v1.engine.parallel_sampling:ParentRequest.get_child_info",
            'f"{index}_{self.request_id}"',
        ),
        called("vllm.v1.engine.async_llm:AsyncLLM.abort", "self, request_id, internal"),
        why="a request's public name ends all its choices; only the engine's names have an index",
        without="a choice cannot be ended alone",
    ),
    Seam(
        text(
            OUTPUT + "RequestState.make_request_output",
            "self.stream_interval > 1",
            "self.sent_tokens_offset == 0",
        ),
        read(OUTPUT + "OutputProcessor.request_states"),
        read(OUTPUT + "OutputProcessor.stream_interval"),
        read(OUTPUT + "RequestState.stream_interval"),
        read(OUTPUT + "RequestState.sent_tokens_offset"),
        called("vllm.v1.engine.detokenizer:IncrementalDetokenizer.num_output_tokens"),
        why="vLLM has one interval for all requests, set when it starts",
        without="tokens come one by one",
        feature=GROUPS,
    ),
    Seam(
        called("vllm.tokenizers:cached_tokenizer_from_config", "model_config"),
        why="the engine's tokenizer lives in its own process",
        without="the worker has no tokenizer",
    ),
)
DETOKENIZER = (
    Seam(
        called(
            "vllm.v1.engine.detokenizer:IncrementalDetokenizer.from_new_request",
            "tokenizer, request",
        ),
        called("vllm.v1.engine:EngineCoreRequest", "*, prompt_token_ids, sampling_params"),
        why="vLLM detokenizes only in its own output processor, from the engine's own request",
        without="--postprocess-detokenizer native has no detokenizer",
    ),
)
PARSERS = (
    Seam(
        called(
            "vllm.parser:ParserManager.get_parser",
            "*, tool_parser_name, reasoning_parser_name, enable_auto_tools, is_harmony",
        ),
        why="vLLM composes a model's parsers only in its server",
        without="there are no native parsers",
    ),
    Seam(
        called("vllm.tool_parsers:ToolParserManager.list_registered"),
        called("vllm.reasoning:ReasoningParserManager.list_registered"),
        why="vLLM lists its parsers nowhere else",
        without="unknown names of parsers are not found",
    ),
    Seam(
        called(
            PARSER + "abstract_parser:DelegatingParser.parse_delta",
            "self, delta_text, delta_token_ids, request, prompt_token_ids, *, finished",
        ),
        why="vLLM's own server is its only caller",
        without="native parsers cannot be fed",
    ),
    Seam(
        read(PARSER + "abstract_parser:Parser._stream_state"),
        read(PARSER + "abstract_parser:StreamState.reasoning_ended"),
        read(PARSER + "harmony:HarmonyParser._harmony_parser"),
        called(PARSER + "harmony:HarmonyParser.count_reasoning_tokens", "self, token_ids"),
        read(PARSER + "harmony:HarmonyParser.model_tokenizer"),
        why="vLLM says nowhere else that reasoning has ended, or which channel of gpt-oss is open",
        without="reasoning tokens of native parsers are not counted",
    ),
    Seam(
        called("vllm.utils.import_utils:import_from_path", "module_name, file_path"),
        why="vLLM's loader of plugins only logs what fails",
        without="--tool-parser-plugin imports nothing",
    ),
)
OFFLINE = (
    Seam(
        called(LLM_ENGINE + "add_request", "self, request_id, prompt, params, *, lora_request"),
        called(LLM_ENGINE + "abort_request", "self, request_ids"),
        called(LLM_ENGINE + "step", "self"),
        why="LLM.generate returns only when all rows are done",
        without="rows cannot be ended at their own stop strings",
    ),
    Seam(
        read(LLM_ENGINE + "engine_core"),
        why="LLM has no way to end its engine's process",
        without="the memory of the GPU is not freed",
    ),
    Seam(
        called("vllm.v1.engine.exceptions:EngineDeadError"),
        why="vLLM raises it when its engine has ended, and other errors for rows that it refuses",
        without="each row fails instead of the batch",
    ),
    Seam(
        read("vllm.v1.engine.core_client:SyncMPClient.outputs_queue"),
        why="vLLM waits there for ever if its engine's process is killed",
        without="a batch whose engine dies does not end",
    ),
)
FRONTEND = (
    Seam(
        subclassed(
            PROCESSOR + "VllmProcessor",
            "tokenizer, input_processor, output_processor, tool_parser_class, "
            "reasoning_parser_class",
        ),
        read(PROCESSOR + "VllmProcessor.tokenizer"),
        read(PROCESSOR + "VllmProcessor.input_processor"),
        read(PROCESSOR + "VllmProcessor.reasoning_parser_class"),
        read(PROCESSOR + "VllmProcessor.structural_tag_mode"),
        called(PROCESSOR + "VllmProcessor.generator", "self, request, context"),
        replaced(
            PROCESSOR + "VllmProcessor._generate_and_stream",
            "self, request_id, request, dynamo_preproc, tokens, vllm_preproc, post_processors, "
            "mm_routing_info, context",
        ),
        text(
            PROCESSOR + "VllmProcessor._generator_inner",
            "in self._generate_and_stream(",
            "StreamingPostProcessor(",
            "request_for_sampling=request_for_sampling",
        ),
        called(PROCESSOR + "_inject_routing_metadata", "dynamo_preproc, target, mm_routing_info"),
        replaced(PROCESSOR + "StreamingPostProcessor", "*, request_for_sampling"),
        called(PROCESSOR + "EngineFactory", "config, flags"),
        called(
            PROCESSOR + "EngineFactory.chat_engine_factory", "self, instance_id, mdc, routed_engine"
        ),
        why="Dynamo's vLLM chat processor cannot prepare a request without sending it",
        without="vLLM's prompts cannot be made",
    ),
    Seam(
        text(
            "dynamo.frontend.prepost:preprocess_chat_request",
            'if "prompt_token_ids" in engine_prompt',
        ),
        why="Dynamo would tokenize without the cache of prompts, in a thread of its own",
        without="vLLM's prompts cannot be made",
    ),
    Seam(
        replaced(RENDERER + "HfRenderer._apply_chat_template_async"),
        text(
            RENDERER + "HfRenderer.render_messages_async",
            "self._apply_chat_template_async(",
            "parse_dec_only_prompt(prompt_raw)",
        ),
        called(
            RENDERER + "safe_apply_chat_template",
            "model_config, tokenizer, conversation, *, tools, tokenize",
        ),
        replaced(RENDERER + "_cached_resolve_chat_template_kwargs", "chat_template"),
        text(
            RENDERER + "resolve_chat_template_kwargs",
            "_cached_resolve_chat_template_kwargs(chat_template)",
        ),
        why="vLLM's renderer has no hook",
        without="a chat template may take any time and memory",
    ),
    Seam(
        called(
            RENDERER + "resolve_chat_template", "tokenizer, chat_template, tools, *, model_config"
        ),
        why="vLLM has templates for some models that have none",
        without="a model without a chat template is served, and each of its requests fails",
    ),
    Seam(
        read(RENDERER + "HfRenderer.use_unified_vision_chunk"),
        why="vLLM's renderer has no hook",
        without="the prompts of some models with videos are wrong",
    ),
    Seam(
        called("vllm.tokenizers.registry:cached_tokenizer_from_config", "model_config"),
        why="the renderer's own tokenizer is a pool of copies",
        without="concurrent prompts make copies of the tokenizer",
    ),
    Seam(
        read("vllm.exceptions:VLLMValidationError", "*, parameter, value"),
        read("vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest"),
        why="vLLM does not document its errors",
        without="a refused request does not learn which field is wrong",
    ),
    Seam(
        called("vllm.tokenizers.registry:cached_get_tokenizer.cache_clear"),
        why="vLLM keeps the tokenizers of 128 models, by their folders",
        without="a model that comes back with other files keeps its old tokenizer",
        feature=FILES,
    ),
    Seam(
        called(PROCESSOR + "load_chat_template", "chat_template"),
        why="vLLM takes a file, a text or the name of one of its own templates",
        without="a frontend starts with a template that does not exist",
    ),
)
# Checked when the flags of `vllm serve` name our parsers.
SERVER = (
    Seam(
        replaced(
            "vllm.parser:ParserManager.get_parser",
            "*, tool_parser_name, reasoning_parser_name, enable_auto_tools, is_harmony, "
            "tool_strict_level",
        ),
        why="vLLM composes two registered parsers, which share nothing",
        without="reasoning and calls are not read by one parser",
    ),
    Seam(
        replaced(ONLINE + "warmup", "self"),
        read(ONLINE + "parser"),
        read(ONLINE + "renderer"),
        read(ONLINE + "model_config"),
        read(ONLINE + "chat_template"),
        why="vLLM's parsers do not see the server's chat template",
        without="parsers that do not suit the model are found with the first request",
    ),
    Seam(
        replaced(ONLINE + "preprocess_chat", "self, request"),
        why="vLLM's parsers do not see the prompt of an answer that is not streamed",
        without="it is unknown whether an answer begins with reasoning",
    ),
    Seam(
        subclassed(PARSER + "abstract_parser:Parser", "tokenizer, tools"),
        called(PARSER + "abstract_parser:structured_outputs_to_format", "params"),
        called(PARSER + "utils:count_history_tool_calls", "request"),
        read("vllm.tool_parsers.tool_strict_level:ToolStrictLevel"),
        read("vllm.exceptions:VLLMValidationError", "*, parameter"),
        why="vLLM documents parsers of reasoning or of calls, not of both",
        without="reasoning and calls are not read by one parser",
    ),
)
SEAMS: Seams = {
    "flags": FLAGS,
    "worker": WORKER,
    "detokenizer": DETOKENIZER,
    "parsers": PARSERS,
    "offline": OFFLINE,
    "frontend": FRONTEND,
    "server": SERVER,
}
