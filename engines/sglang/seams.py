"""The seams in SGLang and in Dynamo's SGLang worker and frontend."""

from __future__ import annotations

from ...base.seams import Seam, Seams, called, read, replaced, subclassed, text
from ..dynamo.seams import ENDPOINT

PACKAGES = ("ai-dynamo", "sglang")
# Dynamo version -> supported version of SGLang, both without their last part.
VERSIONS = {"1.6": "0.5", "1.7": "0.5"}
CONTENT_FORMATS = "remembering the forms of content of chat templates"
GROUPS = "sending groups of tokens"

# Beginnings of names.
TOOL_PARSER = "sglang.srt.function_call.function_call_parser:FunctionCallParser"
REASONING = "sglang.srt.parser.reasoning_parser:"
TEMPLATE = "sglang.srt.parser.template_detection:"
PREPOST = "dynamo.frontend.sglang_prepost:"
MANAGERS = "sglang.srt.managers."
ENGINE = "sglang.srt.entrypoints.engine:Engine."
DETECTOR = "sglang.srt.function_call.base_format_detector:"

FLAGS = (
    Seam(
        replaced("sglang.srt.server_args:ServerArgs.add_cli_args", "parser"),
        why="SGLang loads its plugins only after the flags have been parsed",
        without="the command line has no flags of Backedge",
    ),
    Seam(
        text("dynamo.sglang.args:parse_args", "ServerArgs.add_cli_args(", ".parse_args("),
        why="SGLang's record of the flags drops ours, so the parser's method is replaced",
        without="Backedge's flags are not seen",
    ),
    Seam(
        replaced("dynamo.sglang.args:Config.__init__", "self, server_args, dynamo_args"),
        why="nothing else runs between the parsing of flags and the loading of the engine",
        without="post-processing is not switched on",
    ),
)
WORKER = (
    Seam(
        replaced("dynamo.sglang.init_llm:setup_sgl_metrics", "*, generate_endpoint"),
        why="only its caller knows the endpoint whose /metrics is served",
        without="/metrics lacks Backedge's, and frontends find a worker that cannot answer",
        feature=ENDPOINT,
    ),
    Seam(
        replaced("dynamo.sglang.register:get_runtime_config", "engine, server_args, dynamo_args"),
        why="it returns the model card, which nothing else can extend",
        without="frontends do not learn that the worker post-processes",
    ),
    Seam(
        replaced(
            "dynamo.sglang.request_handlers:DecodeWorkerHandler.generate", "self, request, context"
        ),
        why="Dynamo has no hook around a worker's outputs",
        without="no output is post-processed",
    ),
    Seam(
        replaced(
            ENGINE + "async_generate", "self, prompt, sampling_params, *, rid, require_reasoning"
        ),
        replaced(
            "dynamo.sglang.gateway:GatewayEngine.async_generate",
            "self, prompt, sampling_params, *, rid, require_reasoning",
        ),
        why="only here are the engine's names of a request's choices known",
        without="a choice cannot be ended alone, and grammars begin with the reasoning",
    ),
    Seam(
        called(MANAGERS + "tokenizer_manager:TokenizerManager.abort_request", "self, rid"),
        why="Engine has no way to end a request",
        without="a choice cannot be ended alone",
    ),
    Seam(
        read(MANAGERS + "tokenizer_manager:ReqState.out_list"),
        read(MANAGERS + "tokenizer_manager:ReqState.finished"),
        read(MANAGERS + "tokenizer_manager:ReqState.event"),
        read(MANAGERS + "tokenizer_manager:TokenizerManager.rid_to_state"),
        text(
            MANAGERS + "tokenizer_manager:TokenizerManager", "state.event.set()", "state.out_list"
        ),
        why="SGLang cannot change the interval of a running request",
        without="tokens come one by one",
        feature=GROUPS,
    ),
    Seam(
        called(
            "sglang.srt.utils.hf_transformers_utils:get_tokenizer",
            "*, tokenizer_mode, trust_remote_code",
        ),
        why="the engine's tokenizer lives in its own process",
        without="the worker has no tokenizer",
    ),
)
DETOKENIZER = (
    Seam(
        called(
            MANAGERS + "detokenizer_manager:DetokenizerManager._decode_batch_token_id_output",
            "self, recv_obj",
            contains=[
                "self.vocab_size",
                "self.decode_status",
                "self.disable_tokenizer_batch_decode",
                "recv_obj.read_offsets",
                "recv_obj.no_stop_trim",
                "recv_obj.decoded_texts",
            ],
        ),
        read(MANAGERS + "schedule_batch:INIT_INCREMENTAL_DETOKENIZATION_OFFSET"),
        why="SGLang detokenizes only in a separate process, reached through sockets",
        without="--postprocess-detokenizer native has no detokenizer",
    ),
)
PARSERS = (
    Seam(
        called(TOOL_PARSER, "tools, tool_call_parser, tokenizer"),
        called(TOOL_PARSER + ".parse_stream_chunk", "self, chunk_text"),
        called(TOOL_PARSER + ".parse_stream_end"),
        called(
            REASONING + "ReasoningParser",
            "model_type, *, force_reasoning, request, tokenizer, tool_call_parser_active",
        ),
        called(REASONING + "ReasoningParser.parse_stream_chunk", "self, chunk_text"),
        called(REASONING + "ReasoningParser.parse_stream_end"),
        why="SGLang's own server is the only user of its parsers",
        without="there are no native parsers",
    ),
    Seam(
        read(TOOL_PARSER + ".ToolCallParserEnum"),
        read(REASONING + "ReasoningParser.DetectorMap"),
        why="SGLang's own server is the only user of its parsers",
        without="unknown names of parsers are not found",
    ),
    Seam(
        read(DETECTOR + "BaseFormatDetector.eot_token"),
        read(DETECTOR + "BaseFormatDetector.prev_tool_call_arr"),
        why="SGLang's own server is the only user of its parsers",
        without="the end of a call is lost",
    ),
    Seam(
        read(DETECTOR + "logger"),
        why="SGLang's parsers log the same error for each token",
        without="SGLang's parsers may fill the log",
        feature="the limit on what SGLang's parsers log",
    ),
    Seam(
        read(REASONING + "BaseReasoningFormatDetector._in_reasoning"),
        read(REASONING + "BaseReasoningFormatDetector.stripped_think_start"),
        why="SGLang's own server is the only user of its parsers",
        without="reasoning tokens of native parsers are not counted",
    ),
    Seam(
        read(REASONING + "BaseReasoningFormatDetector.reasoning_default"),
        read(REASONING + "BaseReasoningFormatDetector.think_start_token"),
        read(REASONING + "BaseReasoningFormatDetector.think_end_token"),
        called(TEMPLATE + "detect_reasoning_pattern", "template"),
        read(TEMPLATE + "ReasoningToggleConfig.toggle_param"),
        read(TEMPLATE + "ReasoningToggleConfig.default_enabled"),
        read(TEMPLATE + "ReasoningToggleConfig.always_on"),
        read(TEMPLATE + "ReasoningToggleConfig.special_case"),
        called(REASONING + "IQuestQ1ReasoningDetector.thinking_enabled", "chat_kwargs"),
        why="SGLang's own server is the only user of its parsers",
        without="whether an answer begins with reasoning is not known",
    ),
)
OFFLINE = (
    Seam(
        read(ENGINE + "loop"),
        called(
            ENGINE + "async_generate",
            "*, input_ids, sampling_params, return_logprob, top_logprobs_num, lora_path, stream, "
            "rid",
        ),
        why="Engine.generate returns only when a whole row is done",
        without="rows cannot run side by side",
    ),
    Seam(
        called(
            MANAGERS + "tokenizer_manager:TokenizerManager.generate_request", "self, obj, request"
        ),
        called(MANAGERS + "io_struct:EmbeddingReqInput", "*, input_ids"),
        why="Engine.encode takes no token ids",
        without="there are no embeddings",
    ),
    Seam(
        called(MANAGERS + "tokenizer_manager:TokenizerManager.auto_create_handle_loop", "self"),
        why="SGLang takes the process's signals with its first request, to kill it if another ends",
        without="a batch whose engine dies is killed instead of ended",
    ),
    Seam(
        called(
            "sglang.srt.sampling.sampling_params:SamplingParams",
            "*, stream_interval, sampling_seed",
        ),
        why="SGLang has one interval for all requests unless a request says it",
        without="each row comes token by token",
    ),
)
FRONTEND = (
    Seam(
        called(
            PREPOST + "preprocess_chat_request",
            "request, *, tokenizer, tool_call_parser_name, reasoning_parser_name, "
            "exclude_tools_when_tool_choice_none, template_force_reasoning, "
            "default_thinking_mode, structural_tag_mode, structural_tag_scope, "
            "structural_tag_schema",
        ),
        read(PREPOST + "SglangPreprocessResult.prompt_token_ids"),
        read(PREPOST + "SglangPreprocessResult.guided_decoding"),
        read(PREPOST + "SglangPreprocessResult.request"),
        read(PREPOST + "SglangPreprocessResult.force_reasoning"),
        called(PREPOST + "detect_force_reasoning_from_template", "chat_template"),
        called(
            PREPOST + "_guided_output_requires_reasoning",
            "request, force_reasoning, reasoning_parser_name, guided_decoding",
        ),
        called(
            "dynamo.frontend.sglang_processor:_load_tokenizer", "source_path, trust_remote_code"
        ),
        called("dynamo.frontend.sglang_processor:_load_chat_template", "chat_template"),
        called(
            "dynamo.common.multimodal.cache_uuid:reject_unsupported_multimodal_uuids",
            "multi_modal_uuids",
        ),
        read("dynamo.frontend.utils:PreprocessError"),
        why="Dynamo's SGLang chat processor cannot prepare a request without sending it",
        without="SGLang's prompts cannot be made",
    ),
    Seam(
        replaced(PREPOST + "detect_jinja_template_content_format", "chat_template"),
        why="Dynamo parses the chat template anew for each request",
        without="each request costs 3 ms more",
        feature=CONTENT_FORMATS,
    ),
)
# Checked when the flags of `sglang.launch_server` name our parsers.
SERVER = (
    Seam(
        read(TOOL_PARSER + ".ToolCallParserEnum"),
        read(REASONING + "ReasoningParser.DetectorMap"),
        read("sglang.srt.function_call.parser_names:TOOL_CALL_PARSER_NAMES"),
        read("sglang.srt.parser.reasoning_parser_names:REASONING_PARSER_NAMES"),
        why="SGLang has no plugins for parsers",
        without="its flags do not take the names of Backedge's parsers",
    ),
    Seam(
        read(DETECTOR + "BaseFormatDetector"),
        read("sglang.srt.function_call.core_types:ToolCallItem"),
        why="SGLang has no plugins for parsers",
        without="calls are not read",
    ),
    Seam(
        subclassed(
            REASONING + "BaseReasoningFormatDetector",
            "think_start_token, think_end_token, *, force_reasoning, stream_reasoning, "
            "reasoning_default",
        ),
        read(REASONING + "BaseReasoningFormatDetector._in_reasoning"),
        read("sglang.srt.runtime_context:get_serving"),
        why="SGLang has no plugins for parsers",
        without="reasoning is not read",
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
