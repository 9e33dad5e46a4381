"""`genrm score s3://...` as cron would run it, on machines that vanish, against an S3 that fails
when told to.
"""

import contextlib
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import orjson
from forked_genrm import ForkedGenrm
from genrm_here import call_here
from genrm_process import Finished, Genrm, Json, make_rollouts
from judge_server_fixture import JudgeServer
from s3_disturber_fixture import DisturbedS3

from genrm_cli.storage.encoding.codec import unpack

PREFIX = "rl/env/"
JOURNAL_PREFIX = "rl/_genrm/journal/"


class Cron:
    """A bucket that runs work on, each on the machine it is told to."""

    def __init__(
        self, folder: Path, bucket: Any, s3: DisturbedS3, judge: JudgeServer, aws: dict[str, str]
    ) -> None:
        self.s3 = s3
        self._access = aws | {"AWS_ENDPOINT_URL": s3.url}
        self.judge = judge
        self.bucket = bucket.name
        self.client = bucket.client
        self._folder = folder
        self._machines = (Genrm(self._made(f"machine-{number}")) for number in itertools.count())
        self.machine = next(self._machines)
        self._fetched: dict[tuple[str, str], bytes] = {}

    def _made(self, name: str) -> Path:
        (self._folder / name).mkdir()
        return self._folder / name

    def move(self) -> None:
        """Go on with another machine, whose disk is empty."""
        self.machine = next(self._machines)

    def uri(self, key: str = PREFIX) -> str:
        """Return the URI of a key."""
        return f"s3://{self.bucket}/{key}"

    def put(self, name: str, lines: list[Json] | bytes) -> str:
        """Put a dump below the prefix and return its URI."""
        content = lines if isinstance(lines, bytes) else body_of(lines)
        self.client.put_object(Bucket=self.bucket, Key=PREFIX + name, Body=content)
        return self.uri(PREFIX + name)

    def stored(self) -> dict[str, bytes]:
        """Return the contents of what `names` names, each fetched once."""
        versions = {one["Key"]: (one["Key"], one["ETag"]) for one in self._listed(PREFIX)}
        for key, version in versions.items():
            if version not in self._fetched and not _is_background(key):
                with contextlib.suppress(
                    self.client.exceptions.NoSuchKey
                ):  # a claim, given up since it was listed
                    self._fetched[version] = self.get(key)
        return {
            key.removeprefix(PREFIX): self._fetched[one]
            for key, one in versions.items()
            if one in self._fetched
        }

    def get(self, key: str) -> bytes:
        """Fetch an object."""
        content: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return content

    def names(self) -> set[str]:
        """Name what lies below the prefix, but for inputs and the trial of conditional puts;
        uploads count, too.
        """
        keys = {one["Key"] for one in self._listed(PREFIX)}
        uploads = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        keys |= {f"{one['Key']} (upload)" for one in uploads}
        return {key.removeprefix(PREFIX) for key in keys if not _is_background(key)}

    def copied(self) -> list[Json]:
        """Return the results in all journal segments, without the notes of runs."""
        keys = [one["Key"] for one in self._listed(JOURNAL_PREFIX)]
        entries = [
            orjson.loads(line) for key in keys for line in unpack(self.get(key), key).splitlines()
        ]
        return [entry for entry in entries if entry["kind"] != "note"]

    def arguments(self, *more: object, uri: str | None = None) -> list[str]:
        """Return the command line."""
        judge = (*self.judge.flags, "--no-probe", "--min-age", "0s", "--concurrency", 4)
        return [str(one) for one in ("score", uri or self.uri(), *judge, *more)]

    def run(self, *more: object, uri: str | None = None) -> Finished:
        """Score to the end, within this process."""
        environment = {"XDG_STATE_HOME": str(self.machine.state_folder), **self._access}
        finished = call_here(self.arguments(*more, uri=uri), environment)
        return finished._replace(err=" ".join(finished.err.split()))

    def start(self, *more: object, uri: str | None = None) -> "subprocess.Popen[bytes]":
        """Begin to score, in a process of its own."""
        return self.machine.start(*self.arguments(*more, uri=uri), **self._access)

    def fork(self, *more: object) -> ForkedGenrm:
        """Begin to score, in a fork of a process that is ready to."""
        return ForkedGenrm(
            self.arguments(*more), self.machine.folder, self.machine.environment(**self._access)
        )

    def wait_for_requests(self, count: int) -> None:
        """Wait until the judge has been asked so often."""
        self.judge.wait_until(lambda stats: stats["requests"] >= count, limit_s=30)

    @property
    def asked(self) -> int:
        """How often the judge was asked."""
        return int(self.judge.stats()["requests"])

    def _listed(self, prefix: str) -> list[Json]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        return [one for page in pages for one in page.get("Contents", [])]


def is_dump(name: str) -> bool:
    """Return whether a name is that of an input."""
    return name.endswith(".jsonl") and name.count(".") == 1


def _is_background(key: str) -> bool:
    """Return whether an object is a dump."""
    return is_dump(key.removeprefix(PREFIX))


def outputs_of(stem: str) -> set[str]:
    """Name the outputs of a dump."""
    return {f"{stem}.{kind}" for kind in ("scored.jsonl", "metrics.json", "comparisons.jsonl")}


def body_of(lines: list[Json]) -> bytes:
    """Render rollouts as an object's content."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def finish(process: "subprocess.Popen[bytes] | ForkedGenrm", limit_s: float = 40.0) -> Finished:
    """Wait for a process; a traceback is a failed test."""
    try:
        out, err = process.communicate(timeout=limit_s)
    finally:
        process.kill()
        process.communicate()
    assert b"Traceback" not in err, err.decode()
    assert b"never retrieved" not in err, err.decode()
    assert process.returncode is not None
    return Finished(process.returncode, out, " ".join(err.decode().split()))


def some_rollouts(seed: int, groups: int = 1) -> list[Json]:
    """Make groups of four that no other seed makes."""
    return [line | {"prompt": f"{seed}: {line['prompt']}"} for line in make_rollouts(groups)]
