"""The seams in SGLang and in Dynamo's SGLang worker and frontend."""

from __future__ import annotations

import functools

from ...base.seams import Seam

PACKAGES = ("ai-dynamo", "sglang")
CONTENT_FORMATS = "remembering the forms of content of chat templates"
# Dynamo version -> supported version of SGLang, both without their last part.
VERSIONS = {"1.6": "0.5", "1.7": "0.5"}
GROUPS = "sending groups of tokens"

_dynamo = functools.partial(Seam, kind="replaced", role="worker", since="1.6")
_sglang = functools.partial(Seam, kind="read", role="worker", since="0.5.21")
_groups = functools.partial(
    _sglang,
    why="SGLang cannot change the interval of a running request",
    without="tokens come one by one",
    used_in=("engines/sglang/worker.py:SglangRequestHandle.set_stream_interval",),
    feature=GROUPS,
)
_detokenizer = functools.partial(
    _sglang,
    role="detokenizer",
    why="SGLang detokenizes only in a separate process, reached through sockets",
    without="--postprocess-detokenizer native has no detokenizer",
    used_in=("engines/sglang/worker.py:native_detokenizers",),
)
_parsers = functools.partial(
    _sglang,
    role="parsers",
    why="SGLang's own server is the only user of its parsers",
    without="there are no native parsers",
)
_reasoning = functools.partial(
    _parsers, used_in=("engines/sglang/reasoning.py:ReasoningParserFactory",)
)
_offline = functools.partial(_sglang, role="offline")
TOKENIZER_MANAGER = "sglang.srt.managers.tokenizer_manager"
REASONING = "sglang.srt.parser.reasoning_parser"
CALLS = "sglang.srt.function_call"

ADD_FLAGS = _sglang(
    name="sglang.srt.server_args:ServerArgs.add_cli_args",
    kind="replaced",
    role="flags",
    parameters=("parser",),
    why="SGLang loads its plugins only after the flags have been parsed",
    without="the command line has no flags of Backedge",
    used_in=("worker/plugin.py:patch_add_cli_args",),
)
CONFIG = _dynamo(
    name="dynamo.sglang.args:Config.__init__",
    parameters=("self", "server_args", "dynamo_args"),
    why="nothing else runs between the parsing of flags and the loading of the engine",
    without="post-processing is not switched on",
    used_in=(
        "engines/sglang/worker.py:watch_arguments",
        "engines/sglang/worker.py:enable_once",
    ),
)
METRICS = _dynamo(
    name="dynamo.sglang.init_llm:setup_sgl_metrics",
    keywords=("generate_endpoint",),
    why="only its caller knows the endpoint whose /metrics is served",
    without="the worker's /metrics lacks Backedge's",
    used_in=("engines/sglang/worker.py:ENGINE",),
)
CARD = _dynamo(
    name="dynamo.sglang.register:get_runtime_config",
    parameters=("engine", "server_args", "dynamo_args"),
    why="it returns the model card, which nothing else can extend",
    without="frontends do not learn that the worker post-processes",
    used_in=("engines/sglang/worker.py:SglangWorker.install_card",),
)
GENERATE = _dynamo(
    name="dynamo.sglang.request_handlers:DecodeWorkerHandler.generate",
    parameters=("self", "request", "context"),
    why="Dynamo has no hook around a worker's outputs",
    without="no output is post-processed",
    used_in=("engines/sglang/worker.py:SglangWorker.install",),
)
# The second replaces the first in a process that shares another one's engine.
ASYNC_GENERATE = tuple(
    _dynamo(
        name=name,
        parameters=("self", "prompt", "sampling_params"),
        keywords=("rid", "require_reasoning"),
        why="only here are the engine's names of a request's choices known",
        without="a choice cannot be ended alone, and grammars begin with the reasoning",
        used_in=("engines/sglang/worker.py:SglangWorker.install",),
    )
    for name in (
        "sglang.srt.entrypoints.engine:Engine.async_generate",
        "dynamo.sglang.gateway:GatewayEngine.async_generate",
    )
)

WORKER: tuple[Seam, ...] = (
    ADD_FLAGS,
    _dynamo(
        name="dynamo.sglang.args:parse_args",
        kind="text",
        role="flags",
        contains=("ServerArgs.add_cli_args(", ".parse_args("),
        why="SGLang's record of the flags drops ours, so the parser's method is replaced",
        without="Backedge's flags are not seen",
        used_in=("engines/sglang/worker.py:watch_arguments",),
    ),
    CONFIG,
    METRICS,
    CARD,
    GENERATE,
    *ASYNC_GENERATE,
    _sglang(
        name=f"{TOKENIZER_MANAGER}:TokenizerManager.abort_request",
        kind="called",
        parameters=("self", "rid"),
        why="Engine has no way to end a request",
        without="a choice cannot be ended alone",
        used_in=(
            "engines/sglang/worker.py:SglangRequestHandle.abort",
            "engines/sglang/offline.py:SglangBackend._run_choice",
        ),
    ),
    *(
        _groups(name=f"{TOKENIZER_MANAGER}:{field}")
        for field in (
            "ReqState.out_list ReqState.finished ReqState.event "
            "TokenizerManager.rid_to_state".split()
        )
    ),
    _groups(
        name=f"{TOKENIZER_MANAGER}:TokenizerManager",
        kind="text",
        contains=("state.event.set()", "state.out_list"),
    ),
    _sglang(
        name="sglang.srt.utils.hf_transformers_utils:get_tokenizer",
        kind="called",
        keywords=("tokenizer_mode", "trust_remote_code"),
        why="the engine's tokenizer lives in its own process",
        without="the worker has no tokenizer",
        used_in=("engines/sglang/worker.py:load_tokenizer",),
    ),
    _detokenizer(
        name="sglang.srt.managers.detokenizer_manager:"
        "DetokenizerManager._decode_batch_token_id_output",
        kind="called",
        parameters=("self", "recv_obj"),
        contains=tuple(
            "self.vocab_size self.decode_status self.disable_tokenizer_batch_decode "
            "recv_obj.read_offsets recv_obj.no_stop_trim recv_obj.decoded_texts".split()
        ),
    ),
    _detokenizer(name="sglang.srt.managers.schedule_batch:INIT_INCREMENTAL_DETOKENIZATION_OFFSET"),
    _parsers(
        name=f"{CALLS}.function_call_parser:FunctionCallParser",
        kind="called",
        parameters=("tools", "tool_call_parser", "tokenizer"),
        used_in=("engines/sglang/parsers.py:SglangParsers._tool_parser",),
    ),
    _parsers(
        name=f"{CALLS}.function_call_parser:FunctionCallParser.ToolCallParserEnum",
        without="unknown names of parsers are not found",
        used_in=("engines/sglang/parsers.py:check_names",),
    ),
    *(
        _parsers(
            name=f"{CALLS}.function_call_parser:FunctionCallParser.{path}",
            kind="called",
            used_in=("engines/sglang/parsers.py:SglangStreamParser",),
        )
        for path in ("parse_stream_chunk", "parse_stream_end")
    ),
    *(
        _parsers(
            name=f"{CALLS}.base_format_detector:BaseFormatDetector.{field}",
            without="the end of a call is lost",
            used_in=("engines/sglang/parsers.py:SglangStreamParser",),
        )
        for field in ("eot_token", "prev_tool_call_arr")
    ),
    _parsers(
        name=f"{CALLS}.base_format_detector:logger",
        why="SGLang's parsers log the same error for each token",
        without="SGLang's parsers may fill the log",
        used_in=("engines/sglang/logs.py:throttle_logs",),
        feature="the limit on what SGLang's parsers log",
    ),
    _reasoning(
        name=f"{REASONING}:ReasoningParser",
        kind="called",
        parameters=("model_type",),
        keywords=("force_reasoning", "request", "tokenizer", "tool_call_parser_active"),
    ),
    _parsers(
        name=f"{REASONING}:ReasoningParser.DetectorMap",
        without="unknown names of parsers are not found",
        used_in=("engines/sglang/parsers.py:check_names",),
    ),
    *(
        _parsers(
            name=f"{REASONING}:ReasoningParser.{path}",
            kind="called",
            used_in=("engines/sglang/parsers.py:SglangStreamParser",),
        )
        for path in ("parse_stream_chunk", "parse_stream_end")
    ),
    *(
        _parsers(
            name=f"{REASONING}:BaseReasoningFormatDetector.{field}",
            without="reasoning tokens of native parsers are not counted",
            used_in=("engines/sglang/parsers.py:SglangStreamParser._read_phase",),
        )
        for field in ("_in_reasoning", "stripped_think_start")
    ),
    *(
        _reasoning(
            name=f"{REASONING}:BaseReasoningFormatDetector.{field}",
            without="whether an answer begins with reasoning is not known",
        )
        for field in ("reasoning_default", "think_start_token", "think_end_token")
    ),
    _reasoning(
        name="sglang.srt.parser.template_detection:detect_reasoning_pattern",
        kind="called",
        parameters=("template",),
        without="whether an answer begins with reasoning is not known",
    ),
    *(
        _parsers(
            name=f"sglang.srt.parser.template_detection:ReasoningToggleConfig.{field}",
            without="whether an answer begins with reasoning is not known",
            used_in=("engines/sglang/reasoning.py:template_thinks",),
        )
        for field in ("toggle_param", "default_enabled", "always_on", "special_case")
    ),
    _parsers(
        name=f"{REASONING}:IQuestQ1ReasoningDetector.thinking_enabled",
        kind="called",
        parameters=("chat_kwargs",),
        without="whether an answer begins with reasoning is not known",
        used_in=("engines/sglang/reasoning.py:OWN_RULES",),
    ),
    _offline(
        name="sglang.srt.entrypoints.engine:Engine.loop",
        why="Engine.generate returns only when a whole row is done",
        without="rows cannot run side by side",
        used_in=("engines/sglang/offline.py:SglangBackend.generate",),
    ),
    _offline(
        name="sglang.srt.entrypoints.engine:Engine.async_generate",
        kind="called",
        keywords=tuple(
            "input_ids sampling_params return_logprob top_logprobs_num stream rid".split()
        ),
        why="Engine.generate returns only when a whole row is done",
        without="rows cannot run side by side",
        used_in=("engines/sglang/offline.py:SglangBackend._run_choice",),
    ),
    _offline(
        name="sglang.srt.sampling.sampling_params:SamplingParams",
        kind="called",
        keywords=("stream_interval", "sampling_seed"),
        why="SGLang has one interval for all requests unless a request says it",
        without="each row comes token by token",
        used_in=("engines/sglang/offline.py:SglangBackend._build_params",),
    ),
)

_prepares = functools.partial(
    Seam,
    kind="called",
    role="frontend",
    since="1.6",
    why="Dynamo's SGLang chat processor cannot prepare a request without sending it",
    without="SGLang's prompts cannot be made",
    used_in=("engines/sglang/frontend.py:SglangPrompts",),
)
_installed = functools.partial(
    Seam,
    kind="read",
    role="frontend",
    since="0.5.21",
    why="SGLang does not document its registry of parsers",
    without="the installed parsers are not known",
    used_in=("engines/sglang/frontend.py:INSTALLED",),
)

FRONTEND: tuple[Seam, ...] = (
    _prepares(
        name="dynamo.frontend.sglang_prepost:preprocess_chat_request",
        parameters=("request",),
        keywords=tuple(
            "tokenizer tool_call_parser_name reasoning_parser_name "
            "exclude_tools_when_tool_choice_none template_force_reasoning "
            "default_thinking_mode structural_tag_mode structural_tag_scope "
            "structural_tag_schema".split()
        ),
    ),
    *(
        _prepares(
            name=f"dynamo.frontend.sglang_prepost:SglangPreprocessResult.{field}", kind="read"
        )
        for field in ("prompt_token_ids", "guided_decoding", "request", "force_reasoning")
    ),
    _prepares(
        name="dynamo.frontend.sglang_prepost:detect_force_reasoning_from_template",
        parameters=("chat_template",),
    ),
    _prepares(
        name="dynamo.frontend.sglang_prepost:_guided_output_requires_reasoning",
        parameters=("request", "force_reasoning", "reasoning_parser_name", "guided_decoding"),
    ),
    _prepares(
        name="dynamo.frontend.sglang_prepost:detect_jinja_template_content_format",
        kind="replaced",
        parameters=("chat_template",),
        why="Dynamo parses the chat template anew for each request",
        without="each request costs 3 ms more",
        used_in=("engines/sglang/frontend.py:remember_content_formats",),
        feature=CONTENT_FORMATS,
    ),
    _prepares(
        name="dynamo.frontend.sglang_processor:_load_tokenizer",
        parameters=("source_path", "trust_remote_code"),
        used_in=("engines/sglang/frontend.py:SglangModelBuilder._load_tokenizer",),
    ),
    _prepares(
        name="dynamo.frontend.sglang_processor:_load_chat_template",
        parameters=("chat_template",),
        used_in=("engines/sglang/frontend.py:SglangModelBuilder._load_tokenizer",),
    ),
    _prepares(
        name="dynamo.common.multimodal.cache_uuid:reject_unsupported_multimodal_uuids",
        parameters=("multi_modal_uuids",),
    ),
    _prepares(name="dynamo.frontend.utils:PreprocessError", kind="read"),
    _installed(
        name="sglang.srt.function_call.function_call_parser:FunctionCallParser.ToolCallParserEnum"
    ),
    _installed(name="sglang.srt.parser.reasoning_parser:ReasoningParser.DetectorMap"),
)
