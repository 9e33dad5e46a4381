"""Measure how fast a large S3 object is read, against `aws s3 cp` from the same store on the same disk.

`python tests/bench/s3_read.py --size-mb 2000`. Takes SeaweedFS where `weed` is on PATH, else moto, which is itself
the narrow place; and compares with `aws` where that is on PATH.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from s3_stores_fixture import RealStore, running_store

from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source

LINE_BYTES = 4_000
MAX_LINE_BYTES = 64_000_000
BUCKET, KEY = "bench", "rl/large.jsonl"
URI = f"s3://{BUCKET}/{KEY}"


def write_lines(path: Path, size_bytes: int) -> None:
    """Write JSON lines of about that size in all, no two of them equal."""
    text = random.Random(1).randbytes(500_000).hex()
    with path.open("w", encoding="ascii") as file:
        for place in range(size_bytes // LINE_BYTES):
            start = place * 997 % (len(text) - LINE_BYTES)
            line = f'{{"id":{place},"text":"{text[start : start + LINE_BYTES]}'
            file.write(line[: LINE_BYTES - 3] + '"}\n')


def read_once(endpoint_url: str) -> dict[str, float]:
    """Read the object as a command does; return the seconds until it is open, and for all lines after that."""
    started_s = time.perf_counter()
    with open_source(URI, S3Options(endpoint_url=endpoint_url), MAX_LINE_BYTES) as source:
        opened_s = time.perf_counter()
        count = sum(1 for _ in source.iter_lines())
        return {"open_s": opened_s - started_s, "lines_s": time.perf_counter() - opened_s, "lines": count}


def time_ours(store: RealStore, environment: dict[str, str]) -> dict[str, float]:
    """Read in a process of its own; `wall_s` is until the object is open, the start of Python included."""
    command = [sys.executable, __file__, "--read-once", store.url]
    started_s = time.perf_counter()
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    wall_s = time.perf_counter() - started_s
    figures: dict[str, float] = json.loads(ended.stdout)
    return figures | {"wall_s": wall_s - figures["lines_s"]}


def time_aws(store: RealStore, environment: dict[str, str], folder: Path) -> dict[str, float]:
    """Fetch with `aws s3 cp`; `wall_s` includes the start of its Python."""
    target = folder / "fetched.jsonl"
    command = ["aws", "s3", "cp", "--only-show-errors", "--endpoint-url", store.url, URI, str(target)]
    started_s = time.perf_counter()
    subprocess.run(command, env=environment, check=True)
    wall_s = time.perf_counter() - started_s
    target.unlink()
    return {"wall_s": wall_s}


def compare(store: RealStore, folder: Path, size_bytes: int, runs: int) -> None:
    """Time both in turn and print the medians."""
    environment = os.environ | {"TMPDIR": str(folder), "NO_PROXY": "127.0.0.1"}
    readers: dict[str, Callable[[], dict[str, float]]] = {"genrm": lambda: time_ours(store, environment)}
    if shutil.which("aws"):
        readers["aws s3 cp"] = lambda: time_aws(store, environment, folder)
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in readers}
    for turn in range(runs):
        for name in sorted(readers, reverse=bool(turn % 2)):
            os.sync()  # what the one before wrote must not slow this one down
            figures[name].append(readers[name]())
    wall_s = {name: statistics.median(one["wall_s"] for one in runs_) for name, runs_ in figures.items()}
    size_mb = size_bytes / 1e6
    print(f"\n{size_mb:,.0f} MB from {store.name}, start of the process included, median of {runs}")
    for name, median_s in wall_s.items():
        each = ", ".join(f"{one['wall_s']:.2f}" for one in figures[name])
        print(f"{name:>10}: {size_mb / median_s:6.0f} MB/s  ({each} s)")
    open_s = statistics.median(one["open_s"] for one in figures["genrm"])
    lines_s = statistics.median(one["lines_s"] for one in figures["genrm"])
    print(
        f"     genrm: {size_mb / open_s:6.0f} MB/s without the start; its pass over all lines {size_mb / lines_s:.0f}"
    )
    if "aws s3 cp" in wall_s:
        print(f"     ratio: {wall_s['aws s3 cp'] / wall_s['genrm']:6.2f} of aws s3 cp (goal: at least 0.80)")


def set_up_aws(store: RealStore) -> None:
    """Keep this machine's AWS settings out of it, for this process and its children."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": store.access_key,
        "AWS_SECRET_ACCESS_KEY": store.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def main() -> None:
    """Measure, or be the process that is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", choices=("seaweedfs", "rclone", "moto"))
    parser.add_argument("--read-once", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read_once:
        print(json.dumps(read_once(arguments.read_once)))
        return
    name = arguments.store or ("seaweedfs" if shutil.which("weed") else "moto")
    with tempfile.TemporaryDirectory() as made:
        folder, data = Path(made), Path(made) / name
        data.mkdir()
        with running_store(name, data) as store:
            set_up_aws(store)
            content = folder / "content.jsonl"
            write_lines(content, arguments.size_mb * 1_000_000)
            client: Any = store.client()
            client.create_bucket(Bucket=BUCKET)
            client.upload_file(str(content), BUCKET, KEY)
            size_bytes = content.stat().st_size
            content.unlink()
            compare(store, folder, size_bytes, arguments.runs)


if __name__ == "__main__":
    main()
