"""The seams in vLLM and in Dynamo's vLLM worker and frontend."""

from __future__ import annotations

from ...base.seams import read_table

PACKAGES = ("ai-dynamo", "vllm")
# Dynamo version -> supported version of vLLM, both without their last part.
VERSIONS = {"1.6": "0.31", "1.7": "0.32"}
FREED = "freeing the memory of models that are gone"
GROUPS = "sending groups of tokens"
ENVS_CACHE = "the cache of vLLM's environment variables"

WORKER = read_table(
    "engines/vllm/",
    """\
== flags 0.31
replaced vllm.engine.arg_utils:EngineArgs.add_cli_args(parser)
    why: vLLM's plugins may not add flags
    without: the command line has no flags of Backedge
    used_in: worker/plugin.py:register
== flags 1.6
replaced dynamo.vllm.args:_build_config(dynamo_config, vllm_args)
    why: the configuration that Dynamo returns has lost flags that it does not know
    without: Backedge's flags are not seen
    used_in: worker.py:watch_arguments worker.py:check_config
== worker 1.6
replaced dynamo.vllm.main:setup_vllm_engine(config)
    why: nothing else runs between the fetching of the model and the loading of the engine
    without: tokenizer and parsers are not tried before the engine loads
    used_in: worker.py:VllmWorker.install
replaced dynamo.vllm.main:setup_metrics_collection(*, generate_endpoint)
    why: only its caller knows the endpoint whose /metrics is served
    without: the worker's /metrics lacks Backedge's
    used_in: worker.py:ENGINE
replaced main:register_model(*, runtime_config) handlers:register_model(*, runtime_config)
    of: dynamo.vllm.
    why: it gets the model card, or that of a LoRA adapter, which nothing else can extend
    without: frontends do not learn that the worker post-processes
    used_in: worker.py:VllmWorker.install_card
replaced dynamo.vllm.handlers:DecodeWorkerHandler.generate(self, request, context)
    why: Dynamo has no hook around a worker's outputs
    without: no output is post-processed
    used_in: worker.py:VllmWorker.install
== worker 0.31
read output_processor:OutputProcessor.external_req_ids
text parallel_sampling:ParentRequest.get_child_info `f"{index}_{self.request_id}"`
called async_llm:AsyncLLM.abort(self, request_id, internal)
    of: vllm.v1.engine.
    why: a request's public name ends all its choices; only the engine's names have their index
    without: a choice cannot be ended alone
    used_in: worker.py:VllmRequestHandle._internal_ids worker.py:VllmRequestHandle.abort
text output_processor:RequestState.make_request_output `self.stream_interval > 1`
        `self.sent_tokens_offset == 0`
read output_processor:OutputProcessor.request_states
read output_processor:OutputProcessor.stream_interval
read output_processor:RequestState.stream_interval
read output_processor:RequestState.sent_tokens_offset
called detokenizer:IncrementalDetokenizer.num_output_tokens
    of: vllm.v1.engine.
    why: vLLM has one interval for all requests, set when it starts
    without: tokens come one by one
    used_in: worker.py:VllmRequestHandle.set_stream_interval
    feature: sending groups of tokens
called vllm.envs:enable_envs_cache
    why: vLLM calls it only in its engine's process
    without: vLLM reads two environment variables for each token of each request
    used_in: worker.py:VllmWorker.spare_overhead
    feature: the cache of vLLM's environment variables
called vllm.tokenizers:cached_tokenizer_from_config(model_config)
    why: the engine's tokenizer lives in its own process
    without: the worker has no tokenizer
    used_in: worker.py:load_tokenizer
== detokenizer 0.31
called vllm.v1.engine.detokenizer:IncrementalDetokenizer.from_new_request(tokenizer, request)
called vllm.v1.engine:EngineCoreRequest(*, prompt_token_ids, sampling_params)
    why: vLLM detokenizes only in its own output processor, from the engine's own request
    without: --postprocess-detokenizer native has no detokenizer
    used_in: worker.py:native_detokenizers
== parsers 0.31
called vllm.parser:ParserManager.get_parser(*, tool_parser_name, reasoning_parser_name,
        enable_auto_tools, is_harmony)
    why: vLLM composes a model's parsers only in its server
    without: there are no native parsers
    used_in: parsers.py:VllmParsers._parser_class
called vllm.tool_parsers:ToolParserManager.list_registered
called vllm.reasoning:ReasoningParserManager.list_registered
    why: vLLM lists its parsers nowhere else
    without: unknown names of parsers are not found
    used_in: parsers.py:known_names
called vllm.parser.abstract_parser:DelegatingParser.parse_delta(self, delta_text, delta_token_ids,
        request, prompt_token_ids, *, finished)
    why: vLLM's own server is its only caller
    without: native parsers cannot be fed
    used_in: parsers.py:VllmStreamParser
read abstract_parser:Parser._stream_state abstract_parser:StreamState.reasoning_ended
read harmony:HarmonyParser._harmony_parser
called harmony:HarmonyParser.count_reasoning_tokens(self, token_ids)
read harmony:HarmonyParser.model_tokenizer
    of: vllm.parser.
    why: vLLM says nowhere else that reasoning has ended, or which channel of gpt-oss is open
    without: reasoning tokens of native parsers are not counted
    used_in: parsers.py:VllmStreamParser parsers.py:HarmonyStreamParser
called vllm.utils.import_utils:import_from_path(module_name, file_path)
    why: vLLM's loader of plugins only logs what fails
    without: --tool-parser-plugin imports nothing
    used_in: parsers.py:load_tool_parser_plugin
== offline 0.31
called add_request(self, request_id, prompt, params, *, lora_request)
called abort_request(self, request_ids)
called step(self)
    of: vllm.v1.engine.llm_engine:LLMEngine.
    why: LLM.generate returns only when all rows are done
    without: rows cannot be ended at their own stop strings
    used_in: offline.py:_Requests.add offline.py:_Requests offline.py:_Requests.step
read vllm.v1.engine.llm_engine:LLMEngine.engine_core
    why: LLM has no way to end its engine's process
    without: the memory of the GPU is not freed
    used_in: offline.py:VllmBackend.close
called vllm.v1.engine.exceptions:EngineDeadError
    why: vLLM raises it when its engine has ended, and other errors for rows that it refuses
    without: each row fails instead of the batch
    used_in: offline.py:_Requests.add offline.py:VllmBackend.generate
read vllm.v1.engine.core_client:SyncMPClient.outputs_queue
    why: vLLM waits there for ever if its engine's process is killed
    without: a batch whose engine dies does not end
    used_in: offline.py:VllmBackend.load
""",
)
FRONTEND = read_table(
    "engines/vllm/",
    """\
== frontend 1.6
subclassed VllmProcessor(tokenizer, input_processor, output_processor, tool_parser_class,
        reasoning_parser_class)
read VllmProcessor.tokenizer VllmProcessor.input_processor
read VllmProcessor.reasoning_parser_class VllmProcessor.structural_tag_mode
called VllmProcessor.generator(self, request, context)
replaced VllmProcessor._generate_and_stream(self, request_id, request, dynamo_preproc, tokens,
        vllm_preproc, post_processors, mm_routing_info, context)
text VllmProcessor._generator_inner `in self._generate_and_stream(` `StreamingPostProcessor(`
        `request_for_sampling=request_for_sampling`
called _inject_routing_metadata(dynamo_preproc, target, mm_routing_info)
replaced StreamingPostProcessor(*, request_for_sampling)
called EngineFactory(config, flags)
called EngineFactory.chat_engine_factory(self, instance_id, mdc, routed_engine)
    of: dynamo.frontend.vllm_processor:
    why: Dynamo's vLLM chat processor cannot prepare a request without sending it
    without: vLLM's prompts cannot be made
    used_in: frontend.py:VllmProcessor frontend.py:VllmModelBuilder.build frontend.py:AdjustedOutput
        frontend.py:VllmModelBuilder._build_processor
text dynamo.frontend.prepost:preprocess_chat_request `if "prompt_token_ids" in engine_prompt`
    why: Dynamo would tokenize without the cache of prompts, in a thread of its own
    without: vLLM's prompts cannot be made
    used_in: prompt_renderer.py:PromptRenderer
== frontend 0.31
replaced HfRenderer._apply_chat_template_async
text HfRenderer.render_messages_async `self._apply_chat_template_async(`
        `parse_dec_only_prompt(prompt_raw)`
called safe_apply_chat_template(model_config, tokenizer, conversation, *, tools, tokenize)
replaced _cached_resolve_chat_template_kwargs(chat_template)
text resolve_chat_template_kwargs `_cached_resolve_chat_template_kwargs(chat_template)`
    of: vllm.renderers.hf:
    why: vLLM's renderer has no hook
    without: a chat template may take any time and memory
    used_in: frontend.py:VllmModelBuilder._replace_rendering
        prompt_renderer.py:PromptRenderer._render frontend.py:VllmModelBuilder._build_processor
called vllm.renderers.hf:resolve_chat_template(tokenizer, chat_template, tools, *, model_config)
    why: vLLM has templates for some models that have none
    without: a model without a chat template is served, and each of its requests fails
    used_in: frontend.py:VllmModelBuilder._replace_rendering
read vllm.renderers.hf:HfRenderer.use_unified_vision_chunk
    why: vLLM's renderer has no hook
    without: the prompts of some models with videos are wrong
    used_in: frontend.py:VllmModelBuilder._replace_rendering
called vllm.tokenizers.registry:cached_tokenizer_from_config(model_config)
    why: the renderer's own tokenizer is a pool of copies
    without: concurrent prompts make copies of the tokenizer
    used_in: frontend.py:VllmModelBuilder._replace_rendering
read vllm.exceptions:VLLMValidationError(*, parameter, value)
read vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest
    why: vLLM does not document its errors
    without: a refused request does not learn which field is wrong
    used_in: frontend.py:naming_fields
called vllm.tokenizers.registry:cached_get_tokenizer.cache_clear
called vllm.utils.func_utils:_supports_kw.cache_clear vllm.renderers.hf:HfRenderer.shutdown
    why: vLLM frees nothing of a model
    without: the tokenizers of 128 models that are gone stay in memory
    used_in: frontend.py:release_caches
    feature: freeing the memory of models that are gone
called vllm.reasoning:ReasoningParserManager.list_registered
called vllm.tool_parsers:ToolParserManager.list_registered
    why: vLLM does not document its registry of parsers
    without: the installed parsers are not known
    used_in: frontend.py:INSTALLED
called dynamo.frontend.vllm_processor:load_chat_template(chat_template)
    why: vLLM takes a file, a text or the name of one of its own templates
    without: a frontend starts with a template that does not exist
    used_in: frontend.py:check_template_name
""",
)
