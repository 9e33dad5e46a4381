"""URIs: local paths, S3 objects and streams, and the names of files next to them. No I/O."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from genrm_cli.errors import ChangedInputError, InputError, UsageError, naming

STANDARD_STREAM = "-"
RL_PREFIX = "rl/"

_S3 = "s3://"
_SCHEME = re.compile(r"s3:|[A-Za-z][A-Za-z0-9+.-]+://")
_COMPRESSION_SUFFIXES = (".gz", ".zst")
_RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", ".eval", ".csv", ".tsv")
_SCORED_SUFFIX = ".scored"
_ROLLOUT_FILE = re.compile(r"[^/]\.((jsonl|ndjson)(\.gz|\.zst)?|parquet|eval)$")
# Our own outputs, and files that NeMo Gym writes next to its rollouts.
_SIDE_FILE = re.compile(
    r"(\.scored|\.comparisons|\.rejects|_materialized_inputs|_failures|_aggregate_metrics|_reward_profiling)$"
)
_OTHER_DATA = re.compile(r"[^/]\.(json|csv|tsv|xlsx|arrow|feather)(\.gz|\.zst)?$")
_OUR_JSON = re.compile(r"\.(metrics|manifest|collect|dataset_info)\.json$")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_DOUBLED_SLASHES = re.compile(r"(?<!:)//+")


@dataclass(frozen=True, slots=True)
class S3Options:
    """Options for S3; None leaves one to the AWS configuration. The waits of 8 attempts add up to
    half a minute.
    """

    endpoint_url: str | None = None
    profile: str | None = None
    region: str | None = None
    max_attempts: int = 8


@dataclass(frozen=True, slots=True)
class InputIdentity:
    """Identity of one version of an input; None for values that the store does not provide.

    Attributes:
        size_bytes: stored size, before decompression.
        mtime_ns: modification time of a local file, which programs can set to any value.
        ctime_ns: change time of a local file, which the kernel sets whenever the file or its
            attributes change.
        inode: inode of a local file; a copy has another one.
    """

    uri: str
    size_bytes: int | None = None
    etag: str | None = None
    mtime_ns: int | None = None
    ctime_ns: int | None = None
    inode: int | None = None

    @classmethod
    def of_file(cls, path: str, status: os.stat_result) -> Self:
        """Return the identity of a regular local file."""
        return cls(
            path, status.st_size, None, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """Identity of a written output; outputs of equal name and content differ in it.

    Attributes:
        upload: unique id stored with the output; None for copied files and file systems without
            extended attributes.
        mtime_ns: modification time of a local file; None for an S3 object, which never changes in
            place.
        sha256: digest of the stored bytes, if they were just written; not compared.
    """

    size_bytes: int
    upload: str | None
    mtime_ns: int | None = None
    sha256: str | None = field(default=None, compare=False)


def is_s3(uri: str) -> bool:
    """Return whether a URI is an S3 URI."""
    return uri.startswith(_S3)


def is_stream(uri: str) -> bool:
    """Return whether a URI is `-`, the standard input or output."""
    return uri == STANDARD_STREAM


def parse_s3_uri(uri: str) -> tuple[str, str]:
    """Split `s3://bucket/key` into bucket and key, which must not end in a slash."""
    bucket, _, key = uri.removeprefix(_S3).partition("/")
    if not is_s3(uri) or not bucket or not key:
        raise UsageError(
            f"{uri!r} is not an S3 object: expected s3://bucket/key, with scheme, bucket and key"
        )
    if key.endswith("/"):
        raise UsageError(f"{uri!r} is a prefix; name an object below it")
    return bucket, key


def parse_local_path(uri: str) -> str:
    """Return a local path, unless it is empty or has a scheme (`https://`, `gs://`, a mistyped
    `s3:/`).
    """
    if not uri:
        raise UsageError(
            "an empty file name: expected a path, s3://bucket/key, or - for a standard stream"
        )
    if _SCHEME.match(uri):
        raise UsageError(
            f"{uri!r} cannot be opened: genrm reads and writes local paths, s3://bucket/key and - "
            "only. Copy the data to one of these first."
        )
    return uri


def stem_of(uri: str) -> str:
    """Return the URI without suffixes of compression and records, and `.scored`; a whole name
    (`dir/.json`) stays.
    """
    return _without_suffix(_without_record_suffix(uri), (_SCORED_SUFFIX,))


def is_rollout_file(uri: str) -> bool:
    """Return whether a file in a folder is named like rollouts: JSON lines, Parquet, `.eval`, not a
    side file.
    """
    return (
        _ROLLOUT_FILE.search(uri) is not None
        and _SIDE_FILE.search(_without_record_suffix(uri)) is None
    )


def is_other_data(uri: str) -> bool:
    """Return whether a file in a folder is left out although it may hold rollouts: a JSON array, or
    a table.
    """
    return _OTHER_DATA.search(uri) is not None and _OUR_JSON.search(uri) is None


def is_scored_file(uri: str) -> bool:
    """Return whether a file in a folder is named like scored lines."""
    name = _without_record_suffix(uri)
    return name != uri and name.endswith(_SCORED_SUFFIX) and not name.endswith(f"/{_SCORED_SUFFIX}")


def folder_of(uri: str) -> str:
    """Return the folder of a file or object: `.` for a bare name, `s3://bucket` for a key without a
    slash.
    """
    folder, slash, _ = uri.rpartition("/")
    return folder or slash or "."


def name_below(folder: str, uri: str) -> str:
    """Return the URI of a file relative to a folder that contains it, at any depth."""
    return uri.removeprefix(f"{folder}/") if is_s3(uri) else os.path.relpath(uri, folder)


def common_folder(uris: Sequence[str]) -> str:
    """Return the folder that all these files are in, directly or in one of its folders."""
    folders = [folder_of(uri) for uri in uris]
    if len(set(folders)) == 1:
        return folders[0]
    if not any(map(is_s3, uris)):
        absolute = any(map(os.path.isabs, folders))
        return (
            os.path.commonpath(list(map(os.path.abspath, folders)) if absolute else folders) or "."
        )
    common = os.path.commonprefix([f"{folder}/" for folder in folders]).rpartition("/")[0]  # noqa: RUF071  (of keys)
    if common in ("", "s3:", "s3:/"):
        raise UsageError(
            "the outputs of a set of files appear together, so they must be in one bucket or on "
            "one machine; ",
            naming("choose them with $output_template."),
        )
    return common


def stem_of_set(uris: Sequence[str], name: str) -> str:
    """Return where the files next to the scored lines of a set are, without their suffixes."""
    if "/" in name or name.strip(".") == "":
        raise UsageError(
            naming("$set_name"),
            f" {name!r} is not the beginning of a file name; choose one such as 'epoch-3'.",
        )
    return os.path.join(common_folder(uris), name).removeprefix("./")  # noqa: PTH118  (may be on S3)


def render_place(template: str, uri: str, below: str) -> str:
    """Return the URI of an output, named after its input.

    In the template, `{dir}` is the input's folder, `{path}` that folder relative to `below`, the
    one that was searched, and `{stem}` the input's name without suffixes."""
    _refuse_other_stores(uri)
    folder = folder_of(uri)
    words = {
        "dir": folder,
        "path": ""
        if folder == below
        else folder.removeprefix("" if below == "." else below.rstrip("/") + "/"),
        "stem": stem_of(uri).rpartition("/")[2],
    }

    def word(match: re.Match[str]) -> str:
        if match[1] not in words:
            raise UsageError(
                naming("$output_template"),
                f": unknown {match[0]}; use {{dir}}, {{path}} and {{stem}}.",
            )
        return words[match[1]]

    if not words["path"]:  # with its slash, or `{path}/x` would be in the root
        template = template.replace("{path}/", "")
    if (
        ".." in words["path"].split("/")
        and "{path}" in template
        and is_s3(uri)
        and not is_s3(template)
    ):
        raise UsageError(
            f"{uri}: its key contains '..', so {{path}} could lead anywhere on this machine; "
            "rename it."
        )
    if set("{}") & set(_PLACEHOLDER.sub("", template)):
        raise UsageError(
            naming("$output_template"),
            f" {template}: unmatched brace; write {{dir}}, {{path}} or {{stem}}.",
        )
    place = _PLACEHOLDER.sub(word, template)
    # In S3 keys every slash counts.
    return place if is_s3(place) else _DOUBLED_SLASHES.sub("/", place).removeprefix("./")


def sibling(uri: str, suffix: str) -> str:
    """Return the URI of a file next to another: `a/x.scored.jsonl.gz` and `.metrics.json` give
    `a/x.metrics.json`.
    """
    if is_stream(uri):
        raise UsageError(f"cannot write a *{suffix} file next to '-'; name an output file")
    _refuse_other_stores(uri)
    return stem_of(uri) + suffix


def _refuse_other_stores(uri: str) -> None:
    """Refuse what can never be opened: an error about a name made from it would show what nobody
    typed.
    """
    if not is_s3(uri):
        parse_local_path(uri)


def require_rl_prefix(uri: str, any_prefix: bool) -> None:
    """Refuse an S3 output whose key does not start with `rl/`, unless `any_prefix` allows it."""
    if any_prefix or not is_s3(uri):
        return
    bucket, key = parse_s3_uri(uri)
    if not key.startswith(RL_PREFIX):
        raise UsageError(
            f"{uri} is not under s3://{bucket}/{RL_PREFIX}: RL data is kept separate from "
            "supervised data, so "
            f"results go under {RL_PREFIX}. Choose an output there, or ",
            naming("use $any_prefix to write to this one anyway."),
        )


def _without_record_suffix(uri: str) -> str:
    return _without_suffix(_without_suffix(uri, _COMPRESSION_SUFFIXES), _RECORD_SUFFIXES)


def _without_suffix(uri: str, suffixes: tuple[str, ...]) -> str:
    for suffix in suffixes:
        name = uri.rpartition("/")[2]
        if name.endswith(suffix) and name != suffix:
            return uri[: -len(suffix)]
    return uri


def unreadable(uri: str, error: OSError | ValueError) -> InputError:
    """Return the error for a local file, folder or stream that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{uri}: no such file; check the path")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{uri}: is a folder; name a file in it")
    if isinstance(error, PermissionError):
        return InputError(f"{uri}: permission denied; make it readable for this user")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{uri}: cannot be read: {reason}")


def changed(uri: str) -> ChangedInputError:
    """Return the error for an input that changed while it was read."""
    return ChangedInputError(
        f"{uri}: changed while being read; run again once nothing writes to it"
    )
