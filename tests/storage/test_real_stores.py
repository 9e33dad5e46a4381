"""What the tool relies on, at S3 servers other than the suite's; rclone is the one that ignores
conditions.
"""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from genrm_process import Genrm, make_rollouts
from s3_stores_fixture import ACCESS_KEY, SECRET_KEY

from genrm_cli.storage.leases import Lease, OtherLease, take_lease
from genrm_cli.storage.store import Store

pytestmark = pytest.mark.real_stores


@pytest.fixture(scope="module")
def client(real_store):
    """Give one client for all tests of a store."""
    return real_store.client()


@pytest.fixture
def bucket(real_store):
    """Make a fresh bucket."""
    return real_store.make_bucket()


@pytest.fixture
def store(real_store, monkeypatch, fresh_clients):
    """Point the package at the store, with credentials that it takes."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", real_store.url)
    return Store()


def names_in(bucket, client):
    """Name all objects of a bucket."""
    listed = client.list_objects_v2(Bucket=bucket)
    return {item["Key"] for item in listed.get("Contents", [])}


def test_of_many_one_has_the_lease(bucket, client, store, real_store):
    """Of eight that try at once one gets the lease; released, nothing of it is left."""
    output = f"s3://{bucket}/rl/x.scored.jsonl"
    # Not at rclone: it answers 500, or a wrong checksum, while an object is read that others
    # overwrite.
    threads_count = 8 if real_store.honours_conditions else 1
    together = threading.Barrier(threads_count)

    def try_it(_):
        together.wait(timeout=30)
        return take_lease(output, store, 60.0)

    with ThreadPoolExecutor(threads_count) as threads:
        leases = [
            one for one in threads.map(try_it, range(threads_count)) if isinstance(one, Lease)
        ]
    assert len(leases) == 1
    leases[0].renew()
    assert isinstance(take_lease(output, store, 60.0), OtherLease)
    leases[0].release()
    assert names_in(bucket, client) == set()


def test_whole_runs(bucket, client, store, real_store, judge_server, tmp_path):
    """Two runs started together score a prefix once between them, parts and all; later runs find it
    up to date.
    """
    kept = {"kept": "x" * 5_000_000}  # 20 MB a file: uploads in parts, ranged reads
    for number in range(3):
        lines = [
            line | kept | {"prompt": f"{number}: {line['prompt']}"}
            for line in make_rollouts(groups=1)
        ]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        # In parts: of an object put at once rclone answers ranges with the checksum of the whole.
        client.upload_fileobj(io.BytesIO(body), bucket, f"rl/env/run-{number}.jsonl")
    names = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": real_store.url,
    }
    arguments = (
        f"score s3://{bucket}/rl/env/ --min-age 0 --no-probe --journal s3://{bucket}/rl/_genrm/journal/",
        *judge_server.flags,
    )
    machines = [Genrm(tmp_path / name) for name in ("one", "two")]
    for machine in machines:
        machine.folder.mkdir()
    processes = [machine.start(*arguments, **names) for machine in machines]
    ended = [
        (process.communicate(timeout=90)[1].decode(), process.returncode) for process in processes
    ]
    if real_store.honours_conditions:
        assert [code for _, code in ended] == [0, 0], ended
        assert judge_server.stats()["requests"] == 12
    else:  # the one that meets a lease while it is overwritten may fail, but not half-way
        assert {code for _, code in ended} <= {0, 5}, ended
        assert machines[0].run(*arguments, **names).code == 0
    suffixes = ("jsonl", "scored.jsonl", "metrics.json", "comparisons.jsonl")
    expected = {f"rl/env/run-{number}.{suffix}" for number in range(3) for suffix in suffixes}
    assert {
        name for name in names_in(bucket, client) if not name.startswith("rl/_genrm/")
    } == expected
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)
    asked = judge_server.stats()["requests"]
    again = machines[0].run(*arguments, **names)
    assert again.code == 0, again.err
    assert "3 files: 3 up to date" in again.err
    forced = Genrm(tmp_path / "three")
    forced.folder.mkdir()
    assert forced.run(*arguments, "--force", **names).code == 0
    assert judge_server.stats()["requests"] == asked
