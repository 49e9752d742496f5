"""The seams in Dynamo that all engines share."""

from __future__ import annotations

import functools

from ...base.seams import Seam

PACKAGES = ("ai-dynamo",)
JEMALLOC = "DYN_FRONTEND_JEMALLOC"
METRICS = "the frontend's metrics"

_worker = functools.partial(Seam, role="worker", since="1.6")
_replay = functools.partial(Seam, role="replay", since="1.6", kind="called")

WORKER: tuple[Seam, ...] = (
    _worker(
        name="dynamo.common.utils.token_ids:normalize_request_token_ids",
        kind="called",
        parameters=("request",),
        why="a request has its tokens in one of several forms, which only Dynamo's workers know",
        without="no prompt can be read",
        used_in=(
            "worker/engine_worker.py:Worker.with_postprocessing",
            "testing/replay_worker/engine.py:ReplayEngine.start",
        ),
    ),
    _worker(
        name="dynamo.common.utils.prometheus:register_engine_metrics_callback",
        kind="called",
        keywords=("endpoint", "registry"),
        why="an endpoint serves only metrics that were registered with it",
        without="the worker's /metrics lacks Backedge's",
        used_in=("worker/metrics.py:WorkerMetrics.expose",),
    ),
    _worker(
        name="dynamo._core:get_tool_parser_names",
        kind="called",
        why="Dynamo re-exports the names of its Rust parsers nowhere",
        without="markers of Rust parsers are not found",
        used_in=("worker/stock_frontends/rust_names.py:known_in_rust",),
        feature="Dynamo's own parser names",
    ),
    _worker(
        name="dynamo._core:get_reasoning_parser_names",
        kind="called",
        why="Dynamo re-exports the names of its Rust parsers nowhere",
        without="markers of Rust parsers are not found",
        used_in=("worker/stock_frontends/rust_names.py:known_in_rust",),
        feature="Dynamo's own parser names",
    ),
    Seam(  # of Python: the parsers that Dynamo and the engines build
        name="argparse:ArgumentParser._option_string_actions",
        kind="read",
        role="flags",
        since="Python 3.10",
        why="argparse does not say otherwise which flags a parser has",
        without="flags that the engine has as well would be added twice",
        used_in=("worker/flags.py:add_flags",),
    ),
    _replay(
        name="dynamo.common.utils.runtime:create_runtime",
        parameters=("discovery_backend", "request_plane"),
        why="Dynamo's own workers make their runtime by it; the binding's constructor changes",
        without="the replay worker has no runtime",
        used_in=("testing/replay_worker/worker.py:serve",),
    ),
    _replay(
        name="dynamo.runtime.logging:configure_dynamo_logging",
        why="Dynamo does not document how a worker of another's logs",
        without="the replay worker logs nothing",
        used_in=("testing/replay_worker/__main__.py:main",),
    ),
)

_start = functools.partial(Seam, role="frontend", since="1.6")
_replaced = functools.partial(
    _start,
    kind="replaced",
    why="Dynamo has no hook for an engine factory of another package",
    without="Dynamo's own chat processor answers requests",
    used_in=("frontend/main.py:main", "frontend/main.py:watch_engine_factory"),
)
_request = functools.partial(
    _start,
    kind="called",
    why="Dynamo does not document how its chat processors read a request",
    without="requests are prepared in another way than by Dynamo's own frontend",
)

FRONTEND: tuple[Seam, ...] = (
    _start(
        name="dynamo.frontend.__main__:_maybe_preload_jemalloc",
        kind="called",
        why="only `python -m dynamo.frontend` calls it",
        without="DYN_FRONTEND_JEMALLOC has no effect",
        used_in=("frontend/main.py:main",),
        feature=JEMALLOC,
    ),
    _replaced(
        name="dynamo.frontend.main:setup_engine_factory", parameters=("config", "vllm_flags")
    ),
    _replaced(
        name="dynamo.frontend.main:setup_sglang_engine_factory",
        parameters=("config", "sglang_flags"),
        used_in=("frontend/main.py:main",),
    ),
    _replaced(
        name="dynamo.frontend.main:async_main",
        kind="text",
        contains=(
            " setup_engine_factory(",
            " setup_sglang_engine_factory(",
            ").chat_engine_factory",
            "runtime = DistributedRuntime(",
        ),
    ),
    _start(
        name="dynamo.frontend.main:DistributedRuntime",
        kind="replaced",
        why="a process has one runtime, and Dynamo passes it to no factory",
        without="engines of users and the frontend's metrics have no runtime",
        used_in=("frontend/main.py:main",),
    ),
    *(
        _start(
            name=f"dynamo.frontend.frontend_args:FrontendConfig.{field}",
            kind="read",
            why="Dynamo does not document the fields of its parsed flags",
            without="the frontend does not know Dynamo's flags",
            used_in=("engines/dynamo/types.py:FrontendConfig",),
        )
        for field in (
            "preprocess_workers",
            "kv_cache_block_size",
            "exclude_tools_when_tool_choice_none",
            "trust_remote_code",
        )
    ),
    *(
        _start(
            name=f"dynamo._core:ModelDeploymentCard.{method}",
            kind="called",
            why="Dynamo does not document the binding's model card",
            without="nothing is known of a model",
            used_in=("engines/dynamo/types.py:ModelCard",),
        )
        for method in ("name", "local_dir", "runtime_config", "model_type")
    ),
    _start(
        name="dynamo.llm:PythonAsyncEngine",
        kind="called",
        parameters=("generator", "event_loop"),
        why="an engine in Python is an internal type of Dynamo's binding",
        without="no engine can be given to Dynamo",
        used_in=("frontend/factory.py:EngineFactory.chat_engine_factory",),
    ),
    _start(
        name="dynamo.llm:ModelRuntimeConfig",
        kind="called",
        why="the binding gives up objects only while Python calls it",
        without="the memory of a model that is gone stays until the next request",
        used_in=("frontend/runtime/teardown.py:Teardown",),
    ),
    *(
        _start(
            name=f"dynamo.llm.exceptions:{error}",
            kind="read",
            why="Dynamo does not document which error has which HTTP status",
            without="errors have no HTTP status",
            used_in=(used_in,),
        )
        for error, used_in in (
            ("Cancelled", "frontend/http_errors.py:as_http_errors"),
            ("DynamoException", "frontend/runtime/containment.py:EXPECTED"),
            ("InvalidArgument", "frontend/http_errors.py:as_http_errors"),
            ("Unknown", "frontend/http_errors.py:as_http_errors"),
            ("WorkerUnavailable", "frontend/http_errors.py:as_http_errors"),
        )
    ),
    _start(
        name="dynamo.llm.exceptions:HttpError",
        kind="called",
        parameters=("code", "message"),
        why="Dynamo does not document which error has which HTTP status",
        without="errors have no HTTP status",
        used_in=("frontend/http_errors.py:as_http_errors",),
    ),
    _start(
        name="dynamo.frontend.utils:as_error_envelope",
        kind="text",
        contains=('{"_dynamo_annotated": True, "event": "error"',),
        why="Dynamo hides the text of an error that is raised",
        without="a client is not told why its request is refused",
        used_in=("frontend/http_errors.py:build_refusal",),
    ),
    _start(
        name="dynamo.frontend.utils:backend_invalid_argument_to_http_error",
        kind="text",
        contains=("<ErrorType>: ", 'parsed.get("code")', 'parsed.get("message")'),
        why="an error of a worker arrives as text",
        without="a request that a worker refuses is answered with HTTP 500",
        used_in=("frontend/response/worker_stream.py:parse_client_error",),
    ),
    _request(
        name="dynamo.frontend.utils:extract_mm_urls",
        parameters=("messages",),
        used_in=(
            "frontend/chat_model.py:ChatModel.writer",
            "engines/sglang/frontend.py:SglangPrompts.__call__",
        ),
    ),
    _request(
        name="dynamo.frontend.utils:random_uuid",
        used_in=("frontend/prompt_preprocessor.py:PromptPreprocessor.__call__",),
    ),
    _request(
        name="dynamo.frontend.structural_tag_policy:runtime_structural_tag_options",
        parameters=("runtime_config",),
        used_in=("frontend/request/card_policy.py:read_call_policy",),
    ),
    _request(
        name="dynamo.frontend.structural_tag_policy:runtime_structural_tag_excludes_reasoning",
        parameters=("runtime_config",),
        used_in=("frontend/request/card_policy.py:read_call_policy",),
    ),
    _request(
        name="dynamo.frontend.thinking:runtime_default_thinking_mode",
        parameters=("runtime_config",),
        used_in=("engines/transformers/frontend.py:HuggingFacePrompts.__init__",),
    ),
    _request(
        name="dynamo.frontend.thinking:apply_default_thinking_mode_to_template_kwargs",
        parameters=("chat_template_kwargs", "default_thinking_mode"),
        keywords=("request_has_root_thinking",),
        used_in=("engines/transformers/frontend.py:HuggingFacePrompts._build_template_kwargs",),
    ),
    _start(
        name="dynamo.common.utils.prometheus:register_engine_metrics_callback",
        kind="called",
        keywords=("endpoint", "registry"),
        why="Dynamo's /metrics serves only metrics that were registered with an endpoint",
        without="/metrics lacks Backedge's",
        used_in=("frontend/metrics.py:FrontendMetrics.expose",),
        feature=METRICS,
    ),
)
