"""The seams in SGLang and in Dynamo's SGLang worker and frontend."""

from __future__ import annotations

from ...base.seams import read_table

PACKAGES = ("ai-dynamo", "sglang")
# Dynamo version -> supported version of SGLang, both without their last part.
VERSIONS = {"1.6": "0.5", "1.7": "0.5"}
CONTENT_FORMATS = "remembering the forms of content of chat templates"
GROUPS = "sending groups of tokens"

WORKER = read_table(
    "engines/sglang/",
    """\
== flags 0.5.21
replaced sglang.srt.server_args:ServerArgs.add_cli_args(parser)
    why: SGLang loads its plugins only after the flags have been parsed
    without: the command line has no flags of Backedge
    used_in: worker/plugin.py:patch_add_cli_args
== flags 1.6
text dynamo.sglang.args:parse_args `ServerArgs.add_cli_args(` `.parse_args(`
    why: SGLang's record of the flags drops ours, so the parser's method is replaced
    without: Backedge's flags are not seen
    used_in: worker.py:watch_arguments
== worker 1.6
replaced dynamo.sglang.args:Config.__init__(self, server_args, dynamo_args)
    why: nothing else runs between the parsing of flags and the loading of the engine
    without: post-processing is not switched on
    used_in: worker.py:watch_arguments worker.py:enable_once
replaced dynamo.sglang.init_llm:setup_sgl_metrics(*, generate_endpoint)
    why: only its caller knows the endpoint whose /metrics is served
    without: the worker's /metrics lacks Backedge's
    used_in: worker.py:ENGINE
replaced dynamo.sglang.register:get_runtime_config(engine, server_args, dynamo_args)
    why: it returns the model card, which nothing else can extend
    without: frontends do not learn that the worker post-processes
    used_in: worker.py:SglangWorker.install_card
replaced dynamo.sglang.request_handlers:DecodeWorkerHandler.generate(self, request, context)
    why: Dynamo has no hook around a worker's outputs
    without: no output is post-processed
    used_in: worker.py:SglangWorker.install
replaced sglang.srt.entrypoints.engine:Engine.async_generate(self, prompt, sampling_params, *, rid,
        require_reasoning)
replaced dynamo.sglang.gateway:GatewayEngine.async_generate(self, prompt, sampling_params, *, rid,
        require_reasoning)
    why: only here are the engine's names of a request's choices known
    without: a choice cannot be ended alone, and grammars begin with the reasoning
    used_in: worker.py:SglangWorker.install
== worker 0.5.21
called sglang.srt.managers.tokenizer_manager:TokenizerManager.abort_request(self, rid)
    why: Engine has no way to end a request
    without: a choice cannot be ended alone
    used_in: worker.py:SglangRequestHandle.abort offline.py:SglangBackend._run_choice
read ReqState.out_list ReqState.finished ReqState.event TokenizerManager.rid_to_state
text TokenizerManager `state.event.set()` `state.out_list`
    of: sglang.srt.managers.tokenizer_manager:
    why: SGLang cannot change the interval of a running request
    without: tokens come one by one
    used_in: worker.py:SglangRequestHandle.set_stream_interval
    feature: sending groups of tokens
called sglang.srt.utils.hf_transformers_utils:get_tokenizer(*, tokenizer_mode, trust_remote_code)
    why: the engine's tokenizer lives in its own process
    without: the worker has no tokenizer
    used_in: worker.py:load_tokenizer
== detokenizer 0.5.21
called detokenizer_manager:DetokenizerManager._decode_batch_token_id_output(self, recv_obj)
        `self.vocab_size` `self.decode_status` `self.disable_tokenizer_batch_decode`
        `recv_obj.read_offsets` `recv_obj.no_stop_trim` `recv_obj.decoded_texts`
read schedule_batch:INIT_INCREMENTAL_DETOKENIZATION_OFFSET
    of: sglang.srt.managers.
    why: SGLang detokenizes only in a separate process, reached through sockets
    without: --postprocess-detokenizer native has no detokenizer
    used_in: worker.py:native_detokenizers
== parsers 0.5.21
called sglang.srt.function_call.function_call_parser:FunctionCallParser(tools, tool_call_parser,
        tokenizer)
called sglang.srt.function_call.function_call_parser:FunctionCallParser.parse_stream_chunk(
        self, chunk_text)
called sglang.srt.function_call.function_call_parser:FunctionCallParser.parse_stream_end
called sglang.srt.parser.reasoning_parser:ReasoningParser(model_type, *, force_reasoning, request,
        tokenizer, tool_call_parser_active)
called sglang.srt.parser.reasoning_parser:ReasoningParser.parse_stream_chunk(self,
        chunk_text)
called sglang.srt.parser.reasoning_parser:ReasoningParser.parse_stream_end
    why: SGLang's own server is the only user of its parsers
    without: there are no native parsers
    used_in: parsers.py:SglangParsers._tool_parser parsers.py:SglangStreamParser
        parsers.py:ReasoningParserFactory
read sglang.srt.function_call.function_call_parser:FunctionCallParser.ToolCallParserEnum
read sglang.srt.parser.reasoning_parser:ReasoningParser.DetectorMap
    why: SGLang's own server is the only user of its parsers
    without: unknown names of parsers are not found
    used_in: parsers.py:known_names
read eot_token prev_tool_call_arr
    of: sglang.srt.function_call.base_format_detector:BaseFormatDetector.
    why: SGLang's own server is the only user of its parsers
    without: the end of a call is lost
    used_in: parsers.py:SglangStreamParser
read sglang.srt.function_call.base_format_detector:logger
    why: SGLang's parsers log the same error for each token
    without: SGLang's parsers may fill the log
    used_in: parsers.py:throttle_logs
    feature: the limit on what SGLang's parsers log
read _in_reasoning stripped_think_start
    of: sglang.srt.parser.reasoning_parser:BaseReasoningFormatDetector.
    why: SGLang's own server is the only user of its parsers
    without: reasoning tokens of native parsers are not counted
    used_in: parsers.py:SglangStreamParser.read_phase
read reasoning_parser:BaseReasoningFormatDetector.reasoning_default
read reasoning_parser:BaseReasoningFormatDetector.think_start_token
read reasoning_parser:BaseReasoningFormatDetector.think_end_token
called template_detection:detect_reasoning_pattern(template)
read template_detection:ReasoningToggleConfig.toggle_param
read template_detection:ReasoningToggleConfig.default_enabled
read template_detection:ReasoningToggleConfig.always_on
read template_detection:ReasoningToggleConfig.special_case
called reasoning_parser:IQuestQ1ReasoningDetector.thinking_enabled(chat_kwargs)
    of: sglang.srt.parser.
    why: SGLang's own server is the only user of its parsers
    without: whether an answer begins with reasoning is not known
    used_in: parsers.py:ReasoningParserFactory parsers.py:template_thinks
        parsers.py:OWN_RULES
== offline 0.5.21
read loop
called async_generate(*, input_ids, sampling_params, return_logprob, top_logprobs_num, lora_path,
        stream, rid)
    of: sglang.srt.entrypoints.engine:Engine.
    why: Engine.generate returns only when a whole row is done
    without: rows cannot run side by side
    used_in: offline.py:SglangBackend.generate offline.py:SglangBackend._run_choice
called sglang.srt.managers.tokenizer_manager:TokenizerManager.generate_request(self, obj, request)
called sglang.srt.managers.io_struct:EmbeddingReqInput(*, input_ids)
    why: Engine.encode takes no token ids
    without: there are no embeddings
    used_in: offline.py:SglangBackend._embed
called sglang.srt.managers.tokenizer_manager:TokenizerManager.auto_create_handle_loop(self)
    why: SGLang takes the process's signals with the first request, to kill it if a process ends
    without: a batch whose engine dies is killed instead of ended
    used_in: offline.py:SglangBackend._take_signals_back
called sglang.srt.sampling.sampling_params:SamplingParams(*, stream_interval, sampling_seed)
    why: SGLang has one interval for all requests unless a request says it
    without: each row comes token by token
    used_in: offline.py:SglangBackend._build_params
""",
)
FRONTEND = read_table(
    "engines/sglang/",
    """\
== frontend 1.6
called dynamo.frontend.sglang_prepost:preprocess_chat_request(request, *, tokenizer,
        tool_call_parser_name, reasoning_parser_name, exclude_tools_when_tool_choice_none,
        template_force_reasoning, default_thinking_mode, structural_tag_mode, structural_tag_scope,
        structural_tag_schema)
read dynamo.frontend.sglang_prepost:SglangPreprocessResult.prompt_token_ids
read dynamo.frontend.sglang_prepost:SglangPreprocessResult.guided_decoding
read dynamo.frontend.sglang_prepost:SglangPreprocessResult.request
read dynamo.frontend.sglang_prepost:SglangPreprocessResult.force_reasoning
called dynamo.frontend.sglang_prepost:detect_force_reasoning_from_template(chat_template)
called dynamo.frontend.sglang_prepost:_guided_output_requires_reasoning(request, force_reasoning,
        reasoning_parser_name, guided_decoding)
called dynamo.frontend.sglang_processor:_load_tokenizer(source_path, trust_remote_code)
called dynamo.frontend.sglang_processor:_load_chat_template(chat_template)
called dynamo.common.multimodal.cache_uuid:reject_unsupported_multimodal_uuids(multi_modal_uuids)
read dynamo.frontend.utils:PreprocessError
    why: Dynamo's SGLang chat processor cannot prepare a request without sending it
    without: SGLang's prompts cannot be made
    used_in: frontend.py:SglangPrompts frontend.py:SglangModelBuilder._load_tokenizer
replaced dynamo.frontend.sglang_prepost:detect_jinja_template_content_format(chat_template)
    why: Dynamo parses the chat template anew for each request
    without: each request costs 3 ms more
    used_in: frontend.py:remember_content_formats
    feature: remembering the forms of content of chat templates
== frontend 0.5.21
read sglang.srt.function_call.function_call_parser:FunctionCallParser.ToolCallParserEnum
read sglang.srt.parser.reasoning_parser:ReasoningParser.DetectorMap
    why: SGLang does not document its registry of parsers
    without: the installed parsers are not known
    used_in: frontend.py:INSTALLED
""",
)
