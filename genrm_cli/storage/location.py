"""URIs of local paths, objects and streams, and the names of files next to them. No I/O."""

import os
from collections.abc import Sequence

from genrm_cli.errors import ChangedInputError, InputError, UsageError, naming
from genrm_cli.texts.late_pattern import late_pattern

STANDARD_STREAM = "-"
RL_PREFIX = "rl/"

# Each kind of storage beside local files: how its URIs start, and its `Location`.
REMOTE = {"s3://": "genrm_cli.storage.s3.objects:S3Object"}
# Unfinished files next to their target.
UNFINISHED_PREFIX = ".genrm-"
UNFINISHED_SUFFIX = ".part"

_SCHEMES = tuple(REMOTE)
_OBJECTS = ", ".join(f"{scheme}bucket/key" for scheme in REMOTE)  # in messages
# Also a mistyped `s3:/`.
_ANY_SCHEME = late_pattern(
    "|".join([*(scheme.removesuffix("//") for scheme in REMOTE), "[A-Za-z][A-Za-z0-9+.-]+://"])
)
_WILDCARD = late_pattern(r"[*?\[]")
# Suffixes, but not the whole of a name.
_COMPRESSION = late_pattern(r"(?<=[^/])\.(gz|zst)\Z")
_RECORDS = late_pattern(r"(?<=[^/])\.(jsonl|ndjson|json|parquet|eval|csv|tsv)\Z")
_SCORED = late_pattern(r"(?<=[^/])\.scored\Z")
# Containers that genrm only reads, and compressions that it does not know.
_UNWRITTEN = (".parquet", ".eval", ".csv", ".tsv", ".bz2", ".xz", ".zip")
# Name of the metrics, comparisons, rejects and journal of files scored together.
SET_NAME = "together"
_ROLLOUT_FILE = late_pattern(r"[^/]\.((jsonl|ndjson)(\.gz|\.zst)?|parquet|eval)$")
# Our own outputs, and files that NeMo Gym writes next to its rollouts.
_SIDE_FILE = late_pattern(
    r"(\.scored|\.comparisons|\.rejects"
    r"|_materialized_inputs|_failures|_aggregate_metrics|_reward_profiling)$"
)
_PLACEHOLDER = late_pattern(r"\{(dir|path|stem)\}")
_DOUBLED_SLASHES = late_pattern(r"(?<!:)//+")


def is_remote(uri: str) -> bool:
    """Return whether a URI names an object that other machines reach, too, and no local path."""
    return uri.startswith(_SCHEMES)


def is_stream(uri: str) -> bool:
    """Return whether a URI is `-`, the standard input or output."""
    return uri == STANDARD_STREAM


def split_bucket(uri: str) -> tuple[str, str, str]:
    """Split the URI of objects into `s3://bucket/`, the bucket and the key, prefix or pattern."""
    scheme, _, path = uri.partition("//")
    bucket, slash, rest = path.partition("/")
    if not bucket or _WILDCARD.search(bucket):
        raise UsageError(
            f"{uri!r} does not name a bucket: expected {scheme}//bucket/prefix/, with wildcards "
            "only after the bucket"
        )
    return f"{scheme}//{bucket}{slash}", bucket, rest


def parse_object_uri(uri: str) -> tuple[str, str]:
    """Split `s3://bucket/key` into bucket and key, which must not end in a slash."""
    bucket, _, key = uri.partition("//")[2].partition("/")
    if not bucket or not key:
        raise UsageError(f"{uri!r} is not an object: expected {_OBJECTS}")
    if key.endswith("/"):
        raise UsageError(f"{uri!r} is a prefix; name an object below it")
    return bucket, key


def is_unfinished_name(name: str) -> bool:
    """Return whether a name is that of an unfinished file."""
    return name.startswith(UNFINISHED_PREFIX) and name.endswith(UNFINISHED_SUFFIX)


def parse_local_path(uri: str) -> str:
    """Return a local path, unless it is empty, not UTF-8, or has a scheme (`https://`, `gs://`, a
    mistyped `s3:/`).
    """
    if not uri:
        raise UsageError(
            f"an empty file name: expected a path, {_OBJECTS}, or - for a standard stream"
        )
    if _ANY_SCHEME.match(uri):
        raise UsageError(
            f"{uri!r} cannot be opened: genrm reads and writes local paths, {_OBJECTS} and - only. "
            "Copy the data to one of these first."
        )
    try:
        uri.encode()
    except UnicodeEncodeError:
        shown = uri.encode(errors="backslashreplace").decode()
        raise UsageError(
            f"{shown}: its name is not UTF-8; rename it, or choose a UTF-8 locale."
        ) from None
    return uri


def stem_of(uri: str) -> str:
    """Return the URI without suffixes of compression and records, and `.scored`; a whole name
    (`dir/.json`) stays.
    """
    return _SCORED.sub("", _without_record_suffix(uri))


def is_rollout_file(uri: str) -> bool:
    """Return whether a file in a folder is named like rollouts: JSON lines, Parquet, `.eval`, not a
    side file.
    """
    return (
        _ROLLOUT_FILE.search(uri) is not None
        and _SIDE_FILE.search(_without_record_suffix(uri)) is None
    )


def is_scored_file(uri: str) -> bool:
    """Return whether a file in a folder is named like scored lines."""
    name = _without_record_suffix(uri)
    return name != uri and _SCORED.search(name) is not None


def folder_of(uri: str) -> str:
    """Return the folder of a file or object: `.` for a bare name, `s3://bucket` for a key without a
    slash.
    """
    folder, slash, _ = uri.rpartition("/")
    return folder or slash or "."


def name_below(folder: str, uri: str) -> str:
    """Return the URI of a file relative to a folder that contains it, at any depth."""
    return uri.removeprefix(f"{folder}/") if is_remote(uri) else os.path.relpath(uri, folder)


def common_folder(uris: Sequence[str]) -> str:
    """Return the folder that all these files are in, directly or in one of its folders."""
    folders = [folder_of(uri) for uri in uris]
    if len(set(folders)) == 1:
        return folders[0]
    if not any(map(is_remote, uris)):
        absolute = any(map(os.path.isabs, folders))
        return (
            os.path.commonpath(list(map(os.path.abspath, folders)) if absolute else folders) or "."
        )
    # Of keys, not of paths.
    common = os.path.commonprefix([f"{folder}/" for folder in folders])  # noqa: RUF071
    common = common.rpartition("/")[0]
    if not is_remote(common):  # no bucket in common
        raise UsageError(
            "the outputs of a set of files appear together, so they must be in one bucket or on "
            "one machine; ",
            naming("choose them with $output_template."),
        )
    return common


def short_names(uris: Sequence[str]) -> list[str]:
    """Return the names of files without folders and suffixes if these tell them apart, else their
    URIs; `stdin` for the stream.
    """
    names = ["stdin" if is_stream(uri) else stem_of(uri).rpartition("/")[2] for uri in uris]
    return names if len(set(names)) == len(names) else list(uris)


def stem_of_set(uris: Sequence[str]) -> str:
    """Return where the files next to the scored lines of a set are, without their suffixes."""
    # The folder may be remote.
    return os.path.join(common_folder(uris), SET_NAME).removeprefix("./")  # noqa: PTH118


def render_place(template: str, uri: str, below: str) -> str:
    """Return the URI of an output, named after its input.

    In the template, `{dir}` is the input's folder, `{path}` that folder relative to `below`, the
    one that was searched, and `{stem}` the input's name without suffixes."""
    check_uri(uri)
    folder = folder_of(uri)
    searched = "" if below == "." else below.rstrip("/") + "/"
    words = {
        "dir": folder,
        "path": "" if folder == below else folder.removeprefix(searched),
        "stem": stem_of(uri).rpartition("/")[2],
    }

    if set("{}") & set(_PLACEHOLDER.sub("", template)):
        raise UsageError(
            naming("$output_template"),
            f" {template}: braces can only hold a word: {{dir}}, {{path}} or {{stem}}.",
        )
    if not words["path"]:  # with its slash, or `{path}/x` would be in the root
        template = template.replace("{path}/", "")
    if (
        ".." in words["path"].split("/")
        and "{path}" in template
        and is_remote(uri)
        and not is_remote(template)
    ):
        raise UsageError(
            f"{uri}: its key contains '..', so {{path}} could lead anywhere on this machine; "
            "rename it."
        )
    place = _PLACEHOLDER.sub(lambda match: words[match[1]], template)
    # In keys every slash counts.
    return place if is_remote(place) else _DOUBLED_SLASHES.sub("/", place).removeprefix("./")


def sibling(uri: str, suffix: str) -> str:
    """Return the URI of a file next to another: `a/x.scored.jsonl.gz` and `.metrics.json` give
    `a/x.metrics.json`.
    """
    if is_stream(uri):
        raise UsageError(f"cannot write a *{suffix} file next to '-'; name an output file")
    check_uri(uri)
    return stem_of(uri) + suffix


def check_uri(uri: str) -> None:
    """Refuse what can never be opened: an error about a name made from it would show what nobody
    typed.
    """
    if is_remote(uri):
        parse_object_uri(uri)
    else:
        parse_local_path(uri)


def require_rl_prefix(uri: str, any_prefix: bool) -> None:
    """Refuse a remote output whose key does not start with `rl/`, unless `any_prefix` allows it."""
    if any_prefix or not is_remote(uri):
        return
    bucket, key = parse_object_uri(uri)
    if not key.startswith(RL_PREFIX):
        raise UsageError(
            f"{uri} is not under s3://{bucket}/{RL_PREFIX}: RL data is kept separate from "
            f"supervised data, so results go under {RL_PREFIX}. Choose an output there, or ",
            naming("use $any_prefix to write to this one anyway."),
        )


def require_json_lines(uri: str) -> None:
    """Refuse an output of JSON lines whose name promises another format or compression."""
    if _COMPRESSION.sub("", uri.lower()).endswith(_UNWRITTEN):
        raise UsageError(
            f"{uri}: only JSON is written here; name the output .jsonl, .jsonl.gz or .jsonl.zst, "
            "or .json where it is one object."
        )


def _without_record_suffix(uri: str) -> str:
    return _RECORDS.sub("", _COMPRESSION.sub("", uri))


def unreadable(uri: str, error: OSError | ValueError) -> InputError:
    """Return the error for a local file, folder or stream that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{uri}: no such file; check the path")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{uri}: is a folder; name a file in it")
    if isinstance(error, PermissionError):
        return InputError(f"{uri}: permission denied; make it readable for this user")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{uri}: cannot be read: {reason}; check the path and the disk")


def changed(uri: str) -> ChangedInputError:
    """Return the error for an input that changed while it was read."""
    return ChangedInputError(
        f"{uri}: changed while being read; run again once nothing writes to it"
    )
