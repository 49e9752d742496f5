"""The seams in Dynamo that all engines share."""

from __future__ import annotations

from ...base.seams import Seam, Seams, called, read, replaced, text

PACKAGES = ("ai-dynamo",)
JEMALLOC = "DYN_FRONTEND_JEMALLOC"
ENDPOINT = "access to the worker's endpoint"

# Beginnings of names.
CONFIG = "dynamo.frontend.frontend_args:FrontendConfig."
CARD = "dynamo._core:ModelDeploymentCard."
ERRORS = "dynamo.llm.exceptions:"
MAIN = "dynamo.frontend.main:"
IN_FRONTEND = "dynamo.frontend."

WORKER = (
    Seam(
        called("dynamo.common.utils.token_ids:normalize_request_token_ids", "request"),
        why="a request has its tokens in one of several forms, which only Dynamo's workers know",
        without="no prompt can be read",
    ),
    Seam(
        called("dynamo._core:get_tool_parser_names"),
        called("dynamo._core:get_reasoning_parser_names"),
        why="Dynamo re-exports the names of its Rust parsers nowhere",
        without="markers of Rust parsers are not found",
        feature="Dynamo's own parser names",
    ),
)
FLAGS = (
    Seam(
        read("argparse:ArgumentParser._option_string_actions"),
        why="argparse does not say otherwise which flags a parser has",
        without="flags that the engine has as well would be added twice",
    ),
)
REPLAY = (
    Seam(
        called("dynamo.common.utils.runtime:create_runtime", "discovery_backend, request_plane"),
        why="Dynamo's own workers make their runtime by it; the binding's constructor changes",
        without="the replay worker has no runtime",
    ),
    Seam(
        called("dynamo.runtime.logging:configure_dynamo_logging"),
        why="Dynamo does not document how a worker of another's logs",
        without="the replay worker logs nothing",
    ),
)
METRICS = (
    Seam(
        called(
            "dynamo.common.utils.prometheus:register_engine_metrics_callback",
            "*, endpoint, registry",
        ),
        why="Dynamo's /metrics serves only metrics that were registered with an endpoint",
        without="/metrics lacks Backedge's",
        feature="Backedge's metrics",
    ),
)
FRONTEND = (
    Seam(
        called(IN_FRONTEND + "__main__:_maybe_preload_jemalloc"),
        why="only `python -m dynamo.frontend` calls it",
        without="DYN_FRONTEND_JEMALLOC has no effect",
        feature=JEMALLOC,
    ),
    Seam(
        replaced(MAIN + "parse_args"),
        replaced(MAIN + "setup_engine_factory", "config, vllm_flags"),
        replaced(MAIN + "setup_sglang_engine_factory", "config, sglang_flags"),
        text(
            MAIN + "async_main",
            " setup_engine_factory(",
            " setup_sglang_engine_factory(",
            ").chat_engine_factory",
            "runtime = DistributedRuntime(",
        ),
        why="Dynamo has no hook for an engine factory of another package",
        without="Dynamo's own chat processor answers requests",
    ),
    Seam(
        replaced(MAIN + "DistributedRuntime"),
        why="a process has one runtime, and Dynamo passes it to no factory",
        without="engines of users and the frontend's metrics have no runtime",
    ),
    Seam(
        read(CONFIG + "preprocess_workers"),
        read(CONFIG + "kv_cache_block_size"),
        read(CONFIG + "exclude_tools_when_tool_choice_none"),
        read(CONFIG + "migration_limit"),
        read(CONFIG + "trust_remote_code"),
        read(CONFIG + "http_host"),
        read(CONFIG + "http_port"),
        read(CONFIG + "interactive"),
        read(CONFIG + "discovery_backend"),
        why="Dynamo does not document the fields of its parsed flags",
        without="the frontend does not know Dynamo's flags",
    ),
    Seam(
        called(CARD + "name"),
        called(CARD + "local_dir"),
        called(CARD + "runtime_config"),
        called(CARD + "model_type"),
        why="Dynamo does not document the binding's model card",
        without="nothing is known of a model",
    ),
    Seam(
        called("dynamo.llm:PythonAsyncEngine", "generator, event_loop"),
        why="an engine in Python is an internal type of Dynamo's binding",
        without="no engine can be given to Dynamo",
    ),
    Seam(
        called("dynamo.llm:ModelRuntimeConfig"),
        why="the binding gives up objects only while Python calls it",
        without="the memory of a model that is gone stays until the next request",
    ),
    Seam(
        read(ERRORS + "Cancelled"),
        read(ERRORS + "DynamoException"),
        read(ERRORS + "InvalidArgument"),
        read(ERRORS + "Unknown"),
        read(ERRORS + "WorkerUnavailable"),
        called(ERRORS + "HttpError", "code, message"),
        why="Dynamo does not document which error has which HTTP status",
        without="errors have no HTTP status",
    ),
    Seam(
        text(
            IN_FRONTEND + "utils:as_error_envelope",
            '{"_dynamo_annotated": True, "event": "error"',
        ),
        why="Dynamo hides the text of an error that is raised",
        without="a client is not told why its request is refused",
    ),
    Seam(
        text(
            IN_FRONTEND + "utils:backend_invalid_argument_to_http_error",
            "<ErrorType>: ",
            'parsed.get("code")',
            'parsed.get("message")',
        ),
        why="an error of a worker arrives as text",
        without="a request that a worker refuses is answered with HTTP 500",
    ),
    Seam(
        called(IN_FRONTEND + "utils:extract_mm_urls", "messages"),
        called(
            IN_FRONTEND + "structural_tag_policy:runtime_structural_tag_options", "runtime_config"
        ),
        called(
            IN_FRONTEND + "structural_tag_policy:runtime_structural_tag_excludes_reasoning",
            "runtime_config",
        ),
        called(IN_FRONTEND + "thinking:runtime_default_thinking_mode", "runtime_config"),
        called(
            IN_FRONTEND + "thinking:apply_default_thinking_mode_to_template_kwargs",
            "chat_template_kwargs, default_thinking_mode, *, request_has_root_thinking",
        ),
        why="Dynamo does not document how its chat processors read a request",
        without="requests are prepared in another way than by Dynamo's own frontend",
    ),
    Seam(
        read("re:_parser"),
        why="Python has no other function that reads a regular expression without compiling it",
        without="a tool's pattern of 1,000 characters costs the frontend seconds",
    ),
)
SEAMS: Seams = {
    "worker": WORKER,
    "flags": FLAGS,
    "metrics": METRICS,
    "replay": REPLAY,
    "frontend": FRONTEND,
}
