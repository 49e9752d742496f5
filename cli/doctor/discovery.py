"""Reads a fleet's workers and model cards as frontends do: from files or from etcd.

Dynamo's HTTP ports do not expose them. In Kubernetes the cards are resources of the cluster,
which doctor does not read.
"""

from __future__ import annotations

import base64
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec

from ...base.errors import ProtocolError, SetupError
from ...base.json_types import JsonObject
from ...base.limits import DOCTOR_TIMEOUT_S, MAX_DOCTOR_BYTES
from ...postprocess.messages import KEY, VERSION, WorkerCard, read

PREFIX = "v1/mdc/"
DEFAULT_ETCD = "http://localhost:2379"


class RuntimeConfig(msgspec.Struct, frozen=True):
    """The part of a model card that Dynamo stores as runtime configuration."""

    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    runtime_data: JsonObject = {}


class CardJson(msgspec.Struct, frozen=True):
    """The part of a model card that doctor reads."""

    display_name: str = ""
    context_length: int | None = None
    model_input: str = ""
    worker_type: str = ""
    runtime_config: RuntimeConfig = RuntimeConfig()


class Instance(msgspec.Struct, frozen=True):
    """An entry that a worker has registered."""

    namespace: str = ""
    component: str = ""
    instance_id: int = 0
    card_json: CardJson = CardJson()


class Spoken(msgspec.Struct, frozen=True):
    """The protocol version of a worker; all other fields of its card are ignored."""

    version: int = VERSION


class _Pair(msgspec.Struct):
    value: bytes = b""


class _Range(msgspec.Struct):
    """etcd's answer, which omits empty fields."""

    kvs: list[_Pair] = []


class FleetWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker of the fleet.

    protocol: the version that it speaks; 0 for a plain worker.
    post_processing: its Backedge card; None for a plain worker, and for a newer protocol,
        which this version treats as plain.
    """

    model: str
    namespace: str
    component: str
    instance: str
    worker_type: str
    context_length: int | None
    dyn_tool_call_parser: str | None
    dyn_reasoning_parser: str | None
    protocol: int
    post_processing: WorkerCard | None


def read_fleet(place: str | None) -> list[FleetWorker]:
    """Return the registered workers, by model and instance.

    place: a folder of the file backend, or the URL of etcd; None to read Dynamo's variables.
    Raises `SetupError` for a place that cannot be read.
    """
    found = place or default_place()
    documents = _read_etcd(found) if "://" in found else _read_files(Path(found))
    workers = [parse_instance(document) for document in documents]
    return sorted(workers, key=lambda worker: (worker.model, worker.namespace, worker.instance))


def default_place() -> str:
    """Return where workers register, from Dynamo's variables."""
    if os.environ.get("DYN_DISCOVERY_BACKEND") == "file":
        return os.environ.get("DYN_FILE_KV", "")
    return os.environ.get("ETCD_ENDPOINTS", DEFAULT_ETCD).partition(",")[0]


def parse_instance(document: bytes) -> FleetWorker:
    """Decode the `document` that a worker registered. Raises `SetupError`."""
    try:
        instance = msgspec.json.decode(document, type=Instance)
        card = instance.card_json
        own = card.runtime_config.runtime_data.get(KEY)
        post_processing = read(WorkerCard, own)
        spoken = msgspec.json.decode(own, type=Spoken).version if isinstance(own, str) else 0
    except (msgspec.DecodeError, ProtocolError) as error:
        raise SetupError(f"a worker's card cannot be read: {error}") from error
    return FleetWorker(
        model=card.display_name,
        namespace=instance.namespace,
        component=instance.component,
        instance=f"{instance.instance_id:x}",
        worker_type=card.worker_type,
        context_length=card.context_length,
        dyn_tool_call_parser=card.runtime_config.tool_call_parser,
        dyn_reasoning_parser=card.runtime_config.reasoning_parser,
        protocol=spoken,
        post_processing=post_processing,
    )


def _read_files(folder: Path) -> Iterator[bytes]:
    if not str(folder) or not folder.is_dir():
        raise SetupError(
            f"{str(folder)!r} is not a folder of Dynamo's file discovery; give DYN_FILE_KV of the "
            "workers with --discovery."
        )
    for path in sorted((folder / PREFIX).glob("*")):
        yield path.read_bytes()


def _read_etcd(url: str) -> Iterator[bytes]:
    """Yield the values under the prefix of cards, through etcd's JSON gateway."""
    end = PREFIX[:-1] + chr(ord(PREFIX[-1]) + 1)
    keys = {"key": PREFIX, "range_end": end}
    body = {name: base64.b64encode(key.encode()).decode() for name, key in keys.items()}
    address = f"{url.rstrip('/')}/v3/kv/range"
    answer = fetch(address, msgspec.json.encode(body))
    try:
        found = msgspec.json.decode(answer, type=_Range)
    except msgspec.DecodeError as error:
        raise SetupError(f"{address} does not answer like etcd ({error}).") from error
    yield from (pair.value for pair in found.kvs)


def fetch(url: str, body: bytes | None = None) -> bytes:
    """Return the answer of `url` to a GET, or to a POST of `body`. Raises `SetupError`."""
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"{url!r} is not a URL; it must begin with http:// or https://.")
    try:
        # The scheme was checked above.
        opened = urllib.request.urlopen(url, body, DOCTOR_TIMEOUT_S)  # noqa: S310 - http only
        with opened as response:
            content: bytes = response.read(MAX_DOCTOR_BYTES + 1)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # Dynamo's /health, with a body
            return error.read(MAX_DOCTOR_BYTES)
        raise SetupError(f"{url} answers HTTP {error.code}.") from error
    except (OSError, ValueError) as error:
        raise SetupError(f"{url} does not answer ({error}).") from error
    if len(content) > MAX_DOCTOR_BYTES:
        raise SetupError(f"{url} answers more than {MAX_DOCTOR_BYTES:,} bytes; is it Dynamo?")
    return content
