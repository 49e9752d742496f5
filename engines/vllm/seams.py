"""The seams in vLLM and in Dynamo's vLLM worker and frontend."""

from __future__ import annotations

import functools

from ...base.seams import Seam

PACKAGES = ("ai-dynamo", "vllm")
FREED = "freeing the memory of models that are gone"
# Dynamo version -> supported version of vLLM, both without their last part.
VERSIONS = {"1.6": "0.31", "1.7": "0.32"}
GROUPS = "sending groups of tokens"
ENVS_CACHE = "the cache of vLLM's environment variables"

_dynamo = functools.partial(Seam, kind="replaced", role="worker", since="1.6")
_groups = functools.partial(
    Seam,
    role="worker",
    since="0.31",
    why="vLLM has one interval for all requests, set when it starts",
    without="tokens come one by one",
    used_in=("engines/vllm/worker.py:VllmRequestHandle.set_stream_interval",),
    feature=GROUPS,
)
_parsers = functools.partial(Seam, kind="called", role="parsers", since="0.31")
_offline = functools.partial(Seam, kind="called", role="offline", since="0.31")

ADD_FLAGS = Seam(
    name="vllm.engine.arg_utils:EngineArgs.add_cli_args",
    kind="replaced",
    role="flags",
    since="0.31",
    parameters=("parser",),
    why="vLLM's plugins may not add flags",
    without="the command line has no flags of Backedge",
    used_in=("worker/plugin.py:register",),
)
BUILD_CONFIG = _dynamo(
    name="dynamo.vllm.args:_build_config",
    role="flags",
    parameters=("dynamo_config", "vllm_args"),
    why="the configuration that Dynamo returns has lost flags that it does not know",
    without="Backedge's flags are not seen",
    used_in=("engines/vllm/worker.py:watch_arguments",),
)
SETUP_ENGINE = _dynamo(
    name="dynamo.vllm.main:setup_vllm_engine",
    parameters=("config",),
    why="nothing else runs between the fetching of the model and the loading of the engine",
    without="tokenizer and parsers are not tried before the engine loads",
    used_in=("engines/vllm/worker.py:VllmWorker.install",),
)
METRICS = _dynamo(
    name="dynamo.vllm.main:setup_metrics_collection",
    keywords=("generate_endpoint",),
    why="only its caller knows the endpoint whose /metrics is served",
    without="the worker's /metrics lacks Backedge's",
    used_in=("engines/vllm/worker.py:ENGINE",),
)
REGISTER = _dynamo(
    name="dynamo.vllm.main:register_model",
    keywords=("runtime_config",),
    why="its runtime configuration is the model card, which nothing else can extend",
    without="frontends do not learn that the worker post-processes",
    used_in=("engines/vllm/worker.py:VllmWorker.install_card",),
)
REGISTER_LORA = _dynamo(
    name="dynamo.vllm.handlers:register_model",
    keywords=("runtime_config",),
    why="as for the model, for LoRA adapters",
    without="frontends do not learn that the worker post-processes",
    used_in=("engines/vllm/worker.py:VllmWorker.install_card",),
)
GENERATE = _dynamo(
    name="dynamo.vllm.handlers:DecodeWorkerHandler.generate",
    parameters=("self", "request", "context"),
    why="Dynamo has no hook around a worker's outputs",
    without="no output is post-processed",
    used_in=("engines/vllm/worker.py:VllmWorker.install",),
)

WORKER: tuple[Seam, ...] = (
    ADD_FLAGS,
    BUILD_CONFIG,
    SETUP_ENGINE,
    METRICS,
    REGISTER,
    REGISTER_LORA,
    GENERATE,
    Seam(
        name="vllm.v1.engine.output_processor:OutputProcessor.external_req_ids",
        kind="read",
        role="worker",
        since="0.31",
        why="vLLM names the requests of several choices itself",
        without="a choice cannot be ended alone",
        used_in=("engines/vllm/worker.py:VllmRequestHandle._internal_ids",),
    ),
    Seam(
        name="vllm.v1.engine.parallel_sampling:ParentRequest.get_child_info",
        kind="text",
        role="worker",
        since="0.31",
        contains=('f"{index}_{self.request_id}"',),
        why="the index of a choice is only in its engine's name",
        without="a choice cannot be ended alone",
        used_in=("engines/vllm/worker.py:VllmRequestHandle._internal_ids",),
    ),
    Seam(
        name="vllm.v1.engine.async_llm:AsyncLLM.abort",
        kind="called",
        role="worker",
        since="0.31",
        parameters=("self", "request_id", "internal"),
        why="the public name of a request ends all its choices",
        without="a choice cannot be ended alone",
        used_in=("engines/vllm/worker.py:VllmRequestHandle.abort",),
    ),
    _groups(
        name="vllm.v1.engine.output_processor:RequestState.make_request_output",
        kind="text",
        contains=("self.stream_interval > 1", "self.sent_tokens_offset == 0"),
    ),
    *(
        _groups(name=f"vllm.v1.engine.output_processor:{field}", kind="read")
        for field in (
            "OutputProcessor.request_states",
            "OutputProcessor.stream_interval",
            "RequestState.stream_interval",
            "RequestState.sent_tokens_offset",
        )
    ),
    _groups(
        name="vllm.v1.engine.detokenizer:IncrementalDetokenizer.num_output_tokens", kind="called"
    ),
    Seam(
        name="vllm.envs:enable_envs_cache",
        kind="called",
        role="worker",
        since="0.31",
        why="vLLM calls it only in its engine's process",
        without="vLLM reads two environment variables for each token of each request",
        used_in=("engines/vllm/worker.py:VllmWorker.spare_overhead",),
        feature=ENVS_CACHE,
    ),
    Seam(
        name="vllm.tokenizers:cached_tokenizer_from_config",
        kind="called",
        role="worker",
        since="0.31",
        parameters=("model_config",),
        why="the engine's tokenizer lives in its own process",
        without="the worker has no tokenizer",
        used_in=("engines/vllm/worker.py:load_tokenizer",),
    ),
    Seam(
        name="vllm.v1.engine.detokenizer:IncrementalDetokenizer.from_new_request",
        kind="called",
        role="detokenizer",
        since="0.31",
        parameters=("tokenizer", "request"),
        why="vLLM detokenizes only in its own output processor",
        without="--postprocess-detokenizer native has no detokenizer",
        used_in=("engines/vllm/worker.py:native_detokenizers",),
    ),
    Seam(
        name="vllm.v1.engine:EngineCoreRequest",
        kind="called",
        role="detokenizer",
        since="0.31",
        keywords=("prompt_token_ids", "sampling_params"),
        why="vLLM's detokenizer starts from the engine's own request",
        without="--postprocess-detokenizer native has no detokenizer",
        used_in=("engines/vllm/worker.py:native_detokenizers",),
    ),
    _parsers(
        name="vllm.parser:ParserManager.get_parser",
        keywords=tuple(
            "tool_parser_name reasoning_parser_name enable_auto_tools is_harmony".split()
        ),
        why="vLLM composes a model's parsers only in its server",
        without="there are no native parsers",
        used_in=("engines/vllm/parsers.py:VllmParsers._parser_class",),
    ),
    *(
        _parsers(
            name=f"{manager}.list_registered",
            why="vLLM lists its parsers nowhere else",
            without="unknown names of parsers are not found",
            used_in=("engines/vllm/parsers.py:known_names",),
        )
        for manager in (
            "vllm.tool_parsers:ToolParserManager",
            "vllm.reasoning:ReasoningParserManager",
        )
    ),
    _parsers(
        name="vllm.parser.abstract_parser:DelegatingParser.parse_delta",
        parameters=("self", "delta_text", "delta_token_ids", "request", "prompt_token_ids"),
        keywords=("finished",),
        why="vLLM's own server is its only caller",
        without="native parsers cannot be fed",
        used_in=("engines/vllm/parsers.py:VllmStreamParser",),
    ),
    _parsers(
        name="vllm.parser.abstract_parser:Parser._stream_state",
        kind="read",
        why="vLLM says nowhere else that reasoning has ended",
        without="reasoning tokens of native parsers are not counted",
        used_in=("engines/vllm/parsers.py:VllmStreamParser",),
    ),
    _parsers(
        name="vllm.parser.abstract_parser:StreamState.reasoning_ended",
        kind="read",
        why="vLLM says nowhere else that reasoning has ended",
        without="reasoning tokens of native parsers are not counted",
        used_in=("engines/vllm/parsers.py:VllmStreamParser",),
    ),
    *(
        _parsers(
            name=f"vllm.parser.harmony:HarmonyParser.{field}",
            kind="read",
            why="vLLM says nowhere else which channel of gpt-oss is open",
            without="reasoning tokens of gpt-oss are not counted",
            used_in=("engines/vllm/parsers.py:HarmonyStreamParser",),
        )
        for field in ("_harmony_parser", "count_reasoning_tokens", "model_tokenizer")
    ),
    _parsers(
        name="vllm.utils.import_utils:import_from_path",
        parameters=("module_name", "file_path"),
        why="vLLM's loader of plugins only logs what fails",
        without="--tool-parser-plugin imports nothing",
        used_in=("engines/vllm/parsers.py:load_tool_parser_plugin",),
    ),
    *(
        _offline(
            name=f"vllm.v1.engine.llm_engine:LLMEngine.{path}",
            parameters=parameters,
            why="LLM.generate returns only when all rows are done",
            without="rows cannot be ended at their own stop strings",
            used_in=(f"engines/vllm/offline.py:{owner}",),
        )
        for path, parameters, owner in (
            ("add_request", ("self", "request_id", "prompt", "params"), "_Requests.add"),
            ("abort_request", ("self", "request_ids"), "_Requests"),
            ("step", ("self",), "_Requests.step"),
        )
    ),
    _offline(
        name="vllm.v1.engine.llm_engine:LLMEngine.engine_core",
        kind="read",
        why="LLM has no way to end its engine's process",
        without="the memory of the GPU is not freed",
        used_in=("engines/vllm/offline.py:VllmBackend.close",),
    ),
    _offline(
        name="vllm.exceptions:VLLMClientError",
        why="vLLM raises it for rows that it refuses",
        without="a refused row ends the batch",
        used_in=("engines/vllm/offline.py:_Requests.add",),
    ),
)

_prepares = functools.partial(
    Seam,
    role="frontend",
    since="1.6",
    why="Dynamo's vLLM chat processor cannot prepare a request without sending it",
    without="vLLM's prompts cannot be made",
    used_in=("engines/vllm/frontend.py:VllmProcessor",),
)
_renders = functools.partial(
    Seam,
    role="frontend",
    since="0.31",
    why="vLLM's renderer has no hook",
    without="a chat template may take any time and memory",
    used_in=("engines/vllm/frontend.py:VllmModelBuilder",),
)
_frees = functools.partial(
    Seam,
    kind="called",
    role="frontend",
    since="0.31",
    why="vLLM frees nothing of a model",
    without="the tokenizers of 128 models that are gone stay in memory",
    used_in=("engines/vllm/frontend.py:release_caches",),
    feature=FREED,
)
_parsers_of_frontend = functools.partial(
    Seam,
    kind="called",
    role="frontend",
    since="0.31",
    why="vLLM does not document its registry of parsers",
    without="the installed parsers are not known",
    used_in=("engines/vllm/frontend.py:INSTALLED",),
)

FRONTEND: tuple[Seam, ...] = (
    _prepares(
        name="dynamo.frontend.vllm_processor:VllmProcessor",
        kind="subclassed",
        parameters=tuple(
            "tokenizer input_processor output_processor tool_parser_class "
            "reasoning_parser_class".split()
        ),
    ),
    *(
        _prepares(
            name=f"dynamo.frontend.vllm_processor:VllmProcessor.{field}",
            kind="read",
            used_in=(f"engines/vllm/frontend.py:{owner}",),
        )
        for field, owner in (
            ("tokenizer", "build_parsers"),
            ("input_processor", "build_parsers"),
            ("reasoning_parser_class", "VllmProcessor"),
            ("structural_tag_mode", "VllmProcessor"),
        )
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:VllmProcessor.generator",
        kind="called",
        parameters=("self", "request", "context"),
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:VllmProcessor._generate_and_stream",
        kind="replaced",
        parameters=tuple(
            "self request_id request dynamo_preproc tokens vllm_preproc post_processors "
            "mm_routing_info context".split()
        ),
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:VllmProcessor._generator_inner",
        kind="text",
        contains=(
            "in self._generate_and_stream(",
            "StreamingPostProcessor(",
            "request_for_sampling=request_for_sampling",
        ),
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:_inject_routing_metadata",
        kind="called",
        parameters=("dynamo_preproc", "target", "mm_routing_info"),
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:StreamingPostProcessor",
        kind="replaced",
        keywords=("request_for_sampling",),
        used_in=("engines/vllm/frontend.py:AdjustedOutput",),
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:EngineFactory",
        kind="called",
        parameters=("config", "flags"),
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._build_processor",),
    ),
    _prepares(
        name="dynamo.frontend.vllm_processor:EngineFactory.chat_engine_factory",
        kind="called",
        parameters=("self", "instance_id", "mdc", "routed_engine"),
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._build_processor",),
    ),
    _prepares(
        name="dynamo.frontend.prepost:preprocess_chat_request",
        kind="text",
        contains=('if "prompt_token_ids" in engine_prompt',),
        why="Dynamo would tokenize without the cache of prompts, in a thread of its own",
        used_in=("engines/vllm/prompt_renderer.py:PromptRenderer",),
    ),
    _renders(
        name="vllm.renderers.hf:HfRenderer._apply_chat_template_async",
        kind="replaced",
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._replace_rendering",),
    ),
    _renders(
        name="vllm.renderers.hf:HfRenderer.render_messages_async",
        kind="text",
        contains=("self._apply_chat_template_async(", "parse_dec_only_prompt(prompt_raw)"),
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._replace_rendering",),
    ),
    _renders(
        name="vllm.renderers.hf:HfRenderer.use_unified_vision_chunk",
        kind="read",
        without="the prompts of some models with videos are wrong",
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._replace_rendering",),
    ),
    _renders(
        name="vllm.renderers.hf:safe_apply_chat_template",
        kind="called",
        parameters=("model_config", "tokenizer", "conversation"),
        keywords=("tools", "tokenize"),
        used_in=("engines/vllm/prompt_renderer.py:PromptRenderer._render",),
    ),
    _renders(
        name="vllm.renderers.hf:_cached_resolve_chat_template_kwargs",
        kind="replaced",
        parameters=("chat_template",),
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._build_processor",),
    ),
    _renders(
        name="vllm.renderers.hf:resolve_chat_template_kwargs",
        kind="text",
        contains=("_cached_resolve_chat_template_kwargs(chat_template)",),
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._build_processor",),
    ),
    _renders(
        name="vllm.tokenizers.registry:cached_tokenizer_from_config",
        kind="called",
        parameters=("model_config",),
        why="the renderer's own tokenizer is a pool of copies",
        without="concurrent prompts make copies of the tokenizer",
        used_in=("engines/vllm/frontend.py:VllmModelBuilder._replace_rendering",),
    ),
    Seam(
        name="vllm.exceptions:VLLMValidationError",
        kind="read",
        role="frontend",
        since="0.31",
        keywords=("parameter", "value"),
        why="vLLM does not document its errors",
        without="a refused request does not learn which field is wrong",
        used_in=("engines/vllm/frontend.py:naming_fields",),
    ),
    Seam(
        name="vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest",
        kind="read",
        role="frontend",
        since="0.31",
        why="vLLM does not document its errors",
        without="a refused request does not learn which field is wrong",
        used_in=("engines/vllm/frontend.py:naming_fields",),
    ),
    _frees(name="vllm.tokenizers.registry:cached_get_tokenizer.cache_clear"),
    _frees(name="vllm.utils.func_utils:_supports_kw.cache_clear"),
    _frees(name="vllm.renderers.hf:HfRenderer.shutdown"),
    _parsers_of_frontend(name="vllm.reasoning:ReasoningParserManager.list_registered"),
    _parsers_of_frontend(name="vllm.tool_parsers:ToolParserManager.list_registered"),
)
