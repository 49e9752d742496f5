"""Reads a fleet's workers and model cards as frontends do: from files or from etcd.

Dynamo's HTTP ports do not expose them. In Kubernetes the cards are resources of the cluster,
which doctor does not read.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Container, Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec

from ...base.errors import ProtocolError, SetupError, shorten
from ...base.etcd import DEFAULT_ETCD, VARIABLE
from ...base.limits import MAX_ANSWER_BYTES
from ...engines.dynamo.types import RuntimeConfig, RuntimeData
from ...postprocess.messages import VERSION, WorkerCard, read
from ..http_answer import decode_json, fetch

PREFIX = "v1/mdc/"
A_CARD = "a worker's card"


class CardJson(msgspec.Struct, frozen=True):
    """The part of a model card that doctor reads."""

    display_name: str = ""
    context_length: int | None = None
    worker_type: str = ""
    runtime_config: RuntimeConfig = msgspec.field(default_factory=RuntimeConfig)


class Instance(msgspec.Struct, frozen=True):
    """An entry that a worker has registered."""

    namespace: str = ""
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
    return os.environ.get(VARIABLE, DEFAULT_ETCD).partition(",")[0]


def parse_instance(document: bytes) -> FleetWorker:
    """Decode the `document` that a worker registered. Raises `SetupError`."""
    instance = decode_json(Instance, document, A_CARD)
    card = instance.card_json
    own = (card.runtime_config.runtime_data or RuntimeData()).worker_card
    try:
        post_processing = read(WorkerCard, own)
    except ProtocolError as error:
        raise SetupError(f"{A_CARD} cannot be read: {shorten(str(error))}") from error
    spoken = decode_json(Spoken, own, A_CARD).version if isinstance(own, str) else 0
    return FleetWorker(
        model=card.display_name,
        namespace=instance.namespace,
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
        if not path.is_file():
            raise SetupError(f"{path} is not a file; is {folder} that of Dynamo's file discovery?")
        with path.open("rb") as file:
            document = file.read(MAX_ANSWER_BYTES + 1)
        if len(document) > MAX_ANSWER_BYTES:
            raise SetupError(f"{path} has more than {MAX_ANSWER_BYTES:,} bytes; is it a card?")
        yield document


def _read_etcd(url: str) -> Iterator[bytes]:
    """Yield the values under the prefix of cards, through etcd's JSON gateway."""
    end = PREFIX[:-1] + chr(ord(PREFIX[-1]) + 1)
    keys = {"key": PREFIX, "range_end": end}
    body = {name: base64.b64encode(key.encode()).decode() for name, key in keys.items()}
    address = f"{url.rstrip('/')}/v3/kv/range"
    found = decode_json(_Range, fetch_good(address, msgspec.json.encode(body)), f"etcd's {address}")
    yield from (pair.value for pair in found.kvs)


def fetch_good(url: str, body: bytes | None = None, also: Container[int] = ()) -> bytes:
    """Return the body of an answer that is 200 or `also`. Raises `SetupError`."""
    answer = fetch(url, body)
    if answer.status != HTTPStatus.OK and answer.status not in also:
        raise SetupError(f"{url} answers HTTP {answer.status}.")
    return answer.body
