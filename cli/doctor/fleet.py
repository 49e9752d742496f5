"""Checks a running fleet: what the frontend serves, which workers post-process, differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import groupby
from typing import Any

import msgspec

from ...base.errors import SetupError
from ...parsers.parser_lookup import reasoning_format, tool_format
from ...postprocess.messages import VERSION, WorkerCard
from ..http_answer import decode_json
from .discovery import FleetWorker, fetch_good
from .findings import Finding

# Metrics of Backedge's frontend and workers.
FRONTEND_METRIC = "backedge_prompt_cache_"
WORKER_METRIC = "backedge_"
ERRORS_METRIC = "backedge_parser_errors_total"
ZEROS = ("0", "0.0")


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    """The part of the answer to /v1/models that is read here."""

    data: list[_Model]


class _Health(msgspec.Struct):
    """The part of the answer to /health that is read here."""

    status: str = "unknown"
    instances: list[Any] | None = None


def check_frontend(url: str, workers: Sequence[FleetWorker]) -> Iterator[Finding]:
    """Check the frontend at `url` and its models."""
    url = url.rstrip("/")
    try:
        served = _read_models(url)
        # An unhealthy frontend answers 503, with the same body.
        found = fetch_good(f"{url}/health", also=(HTTPStatus.SERVICE_UNAVAILABLE,))
        health = decode_json(_Health, found, f"{url}/health")
        metrics = fetch_good(f"{url}/metrics").decode(errors="replace")
    except SetupError as error:
        yield Finding(
            "error", "frontend", f"{error}", "give the URL at which clients reach the frontend"
        )
        return
    is_ours = FRONTEND_METRIC in metrics
    kind = "Backedge's" if is_ours else "not Backedge's"
    instances = len(health.instances or ())
    yield Finding(
        "ok" if health.status == "healthy" else "error",
        "frontend",
        f"{url} is {health.status}, {kind}, and sees {instances} worker endpoints",
    )
    if not served:
        yield Finding(
            "error",
            "models",
            "the frontend serves no model",
            "check the workers' logs: a ready worker has registered its model",
        )
    else:
        yield Finding("ok", "models", ", ".join(served))
    for model in sorted({worker.model for worker in workers} - set(served)):
        yield Finding(
            "warning",
            model,
            "workers serve this model, but the frontend does not",
            "compare their namespaces with the models that the frontend may serve",
        )
    if not is_ours:
        yield from _check_stock(workers)


def check_workers(workers: Sequence[FleetWorker]) -> Iterator[Finding]:
    """Check for each model which workers post-process and how its workers differ."""
    for model, group in groupby(workers, key=lambda worker: worker.model):
        # Workers that only read prompts send no answers.
        members = [worker for worker in group if worker.worker_type != "prefill"]
        if members:
            yield from _check_group(model, members)


def check_system_port(url: str) -> Iterator[Finding]:
    """Check a worker through its system port (`DYN_SYSTEM_PORT`)."""
    url = url.rstrip("/")
    try:
        metrics = fetch_good(f"{url}/metrics").decode(errors="replace")
    except SetupError as error:
        yield Finding("error", "worker", str(error), "set DYN_SYSTEM_PORT on the worker")
        return
    if WORKER_METRIC not in metrics:
        yield Finding("note", "worker", f"{url} has no Backedge metrics: it is a plain worker")
        return
    errors = [line for line in metrics.splitlines() if line.startswith(ERRORS_METRIC)]
    failed = [line for line in errors if line.rpartition(" ")[2] not in ZEROS]
    if failed:
        yield Finding(
            "warning",
            "worker",
            f"{url}: parsers have failed: {'; '.join(failed)}",
            "record such a request with --postprocess-record and inspect it",
        )
    else:
        yield Finding("ok", "worker", f"{url} post-processes, and no parser has failed")


def _read_models(url: str) -> list[str]:
    models = decode_json(_Models, fetch_good(f"{url}/v1/models"), f"{url}/v1/models")
    return sorted(model.id for model in models.data)


def _check_group(model: str, members: Sequence[FleetWorker]) -> Iterator[Finding]:
    cards = [worker.post_processing for worker in members]
    newer = max(worker.protocol for worker in members)
    if newer > VERSION:
        yield Finding(
            "warning",
            model,
            f"workers speak version {newer} of the protocol, this Backedge {VERSION}: "
            "frontends of this version treat them as plain workers",
            "upgrade the frontends",
        )
    plain = sum(not worker.protocol for worker in members)
    kinds = Counter(_describe(card) for card in cards)
    listed = "; ".join(f"{count} of {kind}" for kind, count in sorted(kinds.items()))
    yield Finding("ok", model, f"{len(members)} workers: {listed}")
    own = list(filter(None, cards))
    if plain and own:
        yield Finding(
            "warning",
            model,
            f"{plain} of {len(members)} workers are plain: Backedge's frontend post-processes "
            "their streams itself",
            "give all workers of a model the same flags, unless an upgrade is in progress",
        )
    yield from _check_alike(model, own)
    if own:
        yield from _check_read_again(model, members)
    dyn = ((worker.dyn_tool_call_parser, worker.dyn_reasoning_parser) for worker in members)
    yield from _check_equal(model, "names for Dynamo's own frontend", dyn)
    yield from _check_equal(model, "context lengths", (worker.context_length for worker in members))


def _check_read_again(model: str, members: Sequence[FleetWorker]) -> Iterator[Finding]:
    """Note Dynamo's parser beside our own."""
    for parser in sorted({one.dyn_tool_call_parser for one in members} - {None, ""}, key=str):
        yield Finding(
            "note",
            model,
            f"Dynamo's parser {parser} reads answers without a stream again, so Backedge's "
            "frontend spells their content otherwise",
            "leave --dyn-tool-call-parser out if no stock frontend serves these workers",
        )


def _check_alike(model: str, cards: Sequence[WorkerCard]) -> Iterator[Finding]:
    """Check how the cards of a model's workers differ, and for problems in them."""
    parsers = (f"{card.tool_call_parser} and {card.reasoning_parser}" for card in cards)
    yield from _check_equal(model, "parsers", parsers)
    engines = (f"{card.engine} {card.engine_version}" for card in cards)
    yield from _check_equal(model, "engines", engines)
    versions = (card.backedge_version for card in cards)
    yield from _check_equal(model, "versions of Backedge", versions)
    native = {
        name
        for card in cards
        for name, find in (
            (card.tool_call_parser, tool_format),
            (card.reasoning_parser, reasoning_format),
        )
        if name and find(name) is None
    }
    if native:
        yield Finding(
            "note", model, f"{', '.join(sorted(native))} is a parser of the engine or of a plugin"
        )


def _check_stock(workers: Sequence[FleetWorker]) -> Iterator[Finding]:
    """Report models whose calls or reasoning a stock frontend leaves in the text."""
    without = sorted(
        {
            worker.model
            for worker in workers
            if (card := worker.post_processing) is not None
            and (
                (card.tool_call_parser and not worker.dyn_tool_call_parser)
                or (card.reasoning_parser and not worker.dyn_reasoning_parser)
            )
        }
    )
    if without:
        yield Finding(
            "warning",
            "frontend",
            f"a stock frontend parses calls and reasoning itself, but the workers of "
            f"{', '.join(without)} name no parsers for it: clients get the model's raw text",
            "use backedge.frontend, or give the workers --dyn-tool-call-parser and "
            "--dyn-reasoning-parser",
        )


def _describe(card: WorkerCard | None) -> str:
    if card is None:
        return "plain Dynamo"
    names = f"{card.tool_call_parser or 'no'} and {card.reasoning_parser or 'no'} parser"
    version = f", Backedge {card.backedge_version}" if card.backedge_version else ""
    return f"{card.engine} {card.engine_version} post-processing with {names}{version}"


def _check_equal(model: str, what: str, values: Iterable[object]) -> Iterator[Finding]:
    """Report values that differ between a model's workers."""
    found = sorted({str(value) for value in values})
    if len(found) > 1:
        yield Finding(
            "warning",
            model,
            f"its workers have different {what}: {'; '.join(found)}",
            "give all workers of a model the same flags, unless an upgrade is in progress",
        )
