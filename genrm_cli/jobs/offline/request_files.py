"""Requests in the form of OpenAI's batch input, in files of bounded size.

A model whose requests need several files has `x.jsonl`, `x.part2.jsonl`, ...; with several models,
each file is named after its model, too: `x.judge-1.jsonl`.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from genrm_cli.catalog import listed
from genrm_cli.json_types import Record
from genrm_cli.judging.offline import CHAT_URL, PendingRequest
from genrm_cli.metrics.event import Event
from genrm_cli.storage.contract import Sink
from genrm_cli.storage.encoding.records import parse_record
from genrm_cli.storage.location import is_stream, stem_of
from genrm_cli.storage.outputs import Outputs
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import FailureKind

# OpenAI takes files of 200 MB and 50,000 requests.
MAX_REQUESTS = 50_000
_MAX_BYTES = 190_000_000
_FIELDS = frozenset({"custom_id", "method", "url", "body"})
_REQUEST_ID = late_pattern("[0-9a-f]{16,128}")
_NOT_IN_NAMES = late_pattern("[^A-Za-z0-9._-]+")  # models are named like org/model:tag


class RequestFile(Struct):
    """A file of requests to one model."""

    model: str
    sink: Sink
    requests: int = 0
    size_bytes: int = 0

    @property
    def uri(self) -> str:
        """Where it is written."""
        return self.sink.uri


class RequestsEvent(Event, frozen=True):
    """Files of requests were written.

    Attributes:
        failures: why earlier replies gave no verdict, by kind: how many, and the first reason.
    """

    files: Sequence[RequestFile]
    failures: Mapping[FailureKind, tuple[int, str]]

    def as_dict(self) -> Record:
        """Return the fields of a log line, with each file as an object."""
        names = ("uri", "model", "requests")
        files = [{name: getattr(file, name) for name in names} for file in self.files]
        return {"files": files, "failures": self.failures}


def check_request_line(line: bytes) -> None:
    """Refuse a line that is not a request as `RequestFiles` writes it.

    Raises:
        ValueError: says what was found.
    """
    request = parse_record(line)
    missing = _FIELDS - request.keys()
    if missing or len(request) != len(_FIELDS):
        raise ValueError(f"its fields are {listed(sorted(request))}")
    body = request["body"]
    if request["url"] != CHAT_URL or request["method"] != "POST" or not isinstance(body, dict):
        raise ValueError(f"it is no POST to {CHAT_URL} with an object as body")
    if not _REQUEST_ID.fullmatch(str(request["custom_id"])):
        raise ValueError("its custom_id is none of a request of genrm")


def replies_of(uri: str) -> str:
    """Return where the replies to a file of requests are written."""
    folder, slash, name = uri.rpartition("/")
    if "requests" in name:
        return folder + slash + name.replace("requests", "replies", 1)
    return f"{folder}{slash}replies-{name}"


class RequestFiles:
    """The requests of a run, each once; no file is without a request."""

    def __init__(self, uri: str, models: Sequence[str], outputs: Outputs) -> None:
        """Prepare the files of these models; a stream is one file of any size."""
        self._uri = uri
        self._model_suffixes = _model_suffixes(list(dict.fromkeys(models)))
        self._outputs = outputs
        self._ids: set[bytes] = set()
        self._parts: dict[str, list[RequestFile]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def files(self) -> list[RequestFile]:
        """The files that have a request."""
        return [file for parts in self._parts.values() for file in parts]

    def add(self, request: PendingRequest) -> None:
        """Add a request, unless it is there.

        Raises:
            UsageError: its file exists.
            StorageError: its file cannot be written.
        """
        if request.id in self._ids:
            return
        # Equal requests of several groups share one reply, as they share one call.
        self._ids.add(request.id)
        line = b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (
            request.id.hex().encode(),
            CHAT_URL.encode(),
            request.body,
        )
        parts = self._parts.setdefault(request.model, [])
        file = parts[-1] if parts else self._open(request.model, parts)
        is_full = file.requests == MAX_REQUESTS or file.size_bytes + len(line) > _MAX_BYTES
        if is_full and not is_stream(self._uri):
            file.sink.finish()  # a full file keeps no buffer and no upload threads
            file = self._open(request.model, parts)
        file.sink.write(line)
        file.requests += 1
        file.size_bytes += len(line)

    def _open(self, model: str, parts: list[RequestFile]) -> RequestFile:
        """Open the next file of a model."""
        stem = stem_of(self._uri)
        suffix = f".part{len(parts) + 1}" if parts else ""
        place = f"{stem}{self._model_suffixes[model]}{suffix}{self._uri.removeprefix(stem)}"
        parts.append(RequestFile(model, self._outputs.open(place)))
        return parts[-1]


def _model_suffixes(models: list[str]) -> dict[str, str]:
    """Return the part of file names that identifies each model."""
    if len(models) == 1:
        return {models[0]: ""}
    names = [_NOT_IN_NAMES.sub("-", model.rstrip("/").rpartition("/")[2]) for model in models]
    if len(set(names)) < len(names):
        names = [f"{name}-{number}" for number, name in enumerate(names, 1)]
    return {model: f".{name}" for model, name in zip(models, names, strict=True)}
