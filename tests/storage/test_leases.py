"""Leases on outputs: mutual exclusion, expiry, and owners that vanish or come back."""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from genrm_process import PACKAGE_ROOT
from processes import start_process
from s3_objects import keys_in

from genrm_cli.storage.leases import Lease, LeaseLostError, OtherLease, take_lease
from genrm_cli.storage.store import Store

STORE = Store()
_TAKE = """
import sys
from genrm_cli.storage.leases import Lease, take_lease
from genrm_cli.storage.store import Store
print("ready", flush=True)
sys.stdin.readline()
for output in sys.argv[1:]:
    print(isinstance(take_lease(output, Store(), 60.0), Lease), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def output(request, tmp_path):
    """Name an output in a place that does not exist yet, on disk and on S3."""
    if request.param == "disk":
        return f"{tmp_path}/not/yet/x.scored.jsonl.gz"
    return f"s3://{request.getfixturevalue('s3_bucket').name}/rl/scored/x.scored.jsonl.gz"


def take(output, expiry_s=60.0, store=STORE):
    """Take a free lease."""
    lease = take_lease(output, store, expiry_s)
    assert isinstance(lease, Lease), lease
    return lease


def short_s(output):
    """Return an expiry that a test may let pass."""
    return 0.5 if output.startswith("s3:") else 30.0


def let_pass(output, duration_s):
    """Let leases grow older: on disk by setting their time back, on S3 by waiting."""
    if output.startswith("s3:"):
        time.sleep(duration_s)
        return
    for path in Path(output).parent.glob("*.lease-*"):
        changed_s = path.stat().st_mtime - duration_s
        os.utime(path, (changed_s, changed_s))


def wait_for_expiry(output):
    """Wait until a lease with that expiry has certainly expired; S3 tells times in seconds."""
    let_pass(output, short_s(output) + 0.6)


def names_beside(output):
    """Name what lies beside an output."""
    folder = output.rpartition("/")[0] + "/"
    return [found.identity.uri.removeprefix(folder) for found in STORE.at(folder).iter_named()]


def changed(lease, **fields):
    """Return the content of a lease with other values of some fields."""
    return json.dumps(json.loads(lease.content) | fields).encode()


def elsewhere(lease):
    """Make a lease one of a process on another machine."""
    content = changed(lease, host="far-away boot pid")
    STORE.at(lease.uri).replace(content)
    return Lease(lease.stem, lease.number, content, STORE)


def start_taker(*outputs):
    """Start a process that takes leases when it is told to, and keeps them until it is told to
    end.
    """
    command = [sys.executable, "-W", "error", "-c", _TAKE, *outputs]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
    return start_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def say(process):
    """Tell a process to go on."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def hear(process):
    """Read the next line of a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_of_many_threads_one_has_the_lease(output):
    """Of eight concurrent threads one gets the lease; the others learn who holds it."""
    together = threading.Barrier(8)

    def try_it(_):
        together.wait(timeout=30)
        return take_lease(output, STORE, 60.0)

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(try_it, range(8)))
    (won,) = [result for result in results if isinstance(result, Lease)]
    held = [result for result in results if isinstance(result, OtherLease)]
    assert len(held) == 7
    assert {one.owner for one in held} <= {
        f"process {os.getpid()} on {os.uname().nodename}",
        "another run",
    }
    assert names_beside(output) == ["x.lease-1"]
    won.verify()


def test_release_leaves_nothing_behind(output):
    """A lease that was given up is gone, giving it up twice is harmless, and the next one starts
    anew.
    """
    lease = take(output)
    held = take_lease(output, STORE, 60.0)
    assert str(held).startswith(f"process {os.getpid()} on ")
    lease.release()
    lease.release()
    assert names_beside(output) == []
    assert take(output).uri.endswith("/x.lease-1")


@pytest.mark.slow
def test_a_lease_is_held_while_it_is_renewed(output):
    """An owner elsewhere that renews in time keeps its lease beyond its expiry; silent, it loses
    it.
    """
    expiry_s = 3.0 if output.startswith("s3:") else 60.0
    lease = elsewhere(take(output, expiry_s))
    for _ in range(3):
        let_pass(output, 0.4 * expiry_s)
        assert isinstance(take_lease(output, STORE, expiry_s), OtherLease)
        lease.renew()
    let_pass(output, expiry_s + 1.1)
    taken = take(output, expiry_s)
    assert names_beside(output) == ["x.lease-2"]
    taken.verify()


def test_an_owner_that_lost_its_lease_is_told_and_touches_nothing(output):
    """After a take-over the old owner can neither verify nor renew, and its release leaves the new
    lease alone.
    """
    old = elsewhere(take(output, short_s(output)))
    wait_for_expiry(output)
    new = take(output)
    for act in (old.verify, old.renew):
        with pytest.raises(LeaseLostError, match="another run took over this lease"):
            act()
    old.release()
    new.verify()
    assert names_beside(output) == ["x.lease-2"]
    new.release()
    with pytest.raises(LeaseLostError):
        old.renew()
    assert names_beside(output) == []
    third = take(output)
    assert third.uri == old.uri
    for act in (old.verify, old.renew):
        with pytest.raises(LeaseLostError):
            act()
    old.release()
    third.verify()


def test_of_many_that_take_over_one_succeeds(output):
    """Eight threads at once at expired leases: one takes each over."""
    outputs = [output.replace("x.", f"{number}.") for number in range(3)]
    for each in outputs:
        elsewhere(take(each, short_s(each)))
    wait_for_expiry(output)
    with ThreadPoolExecutor(8) as threads:
        for number, each in enumerate(outputs):
            results = list(
                threads.map(lambda _, each=each: take_lease(each, STORE, 60.0), range(8))
            )
            assert sum(isinstance(result, Lease) for result in results) == 1
            assert f"{number}.lease-2" in names_beside(output)
    assert len(names_beside(output)) == 3


def test_a_dead_process_of_this_machine_is_replaced_at_once_a_live_one_is_not(output):
    """While a process lives its lease stands; killed, it is taken over without waiting for the
    expiry.
    """
    process = start_taker(output)
    try:
        assert hear(process) == b"ready"
        say(process)
        assert hear(process) == b"True"
        held = take_lease(output, STORE, 0.0)
        assert isinstance(held, OtherLease)
        assert held.owner.startswith(f"process {process.pid} on ")
    finally:
        process.kill()
        process.communicate()
    take(output)
    assert names_beside(output) == ["x.lease-2"]


def test_a_number_that_another_process_has_by_now_is_no_owner(output):
    """A process with the owner's id but another start time does not hold its lease."""
    lease = take(output)
    lease.release()
    STORE.at(lease.uri).create(changed(lease, started="1"))
    assert take(output).uri.endswith("-2")


RUBBISH = {
    "empty": b"",
    "a list": b"[]",
    "fields missing": b"{}",
    "fields of other kinds": b'{"host": 5, "pid": [], "started": {}, "since": 5, "expiry_s": "x"}',
    "never expiring": b'{"host": "h", "pid": 1, "started": "1", "since": "s", "expiry_s": Infinity}',  # noqa: E501
}


def test_rubbish_in_a_lease_counts_until_it_expires(tmp_path):
    """An unreadable lease counts as held until it expires."""
    for content in RUBBISH.values():
        output = f"{tmp_path}/x.scored.jsonl"
        STORE.at(f"{tmp_path}/x.lease-7").create(content)
        held = take_lease(output, STORE, 60.0)
        assert isinstance(held, OtherLease)
        assert "working on it since" in str(held)
        os.utime(tmp_path / "x.lease-7", (time.time() - 61, time.time() - 61))
        assert take(output).uri == f"{tmp_path}/x.lease-8"
        assert names_beside(output) == ["x.lease-8"]
        (tmp_path / "x.lease-8").unlink()


@pytest.mark.slow
def test_a_lease_whose_predecessor_cannot_be_removed_counts(s3_bucket, disturbed_s3, monkeypatch):
    """A role without the right to delete takes over all the same: the highest number counts."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", disturbed_s3.url)
    store = Store(max_attempts=1)
    output = f"s3://{s3_bucket.name}/rl/x.scored.jsonl"
    STORE.at(f"s3://{s3_bucket.name}/rl/x.lease-1").create(b"rubbish")
    time.sleep(1.1)
    disturbed_s3.rule(method="DELETE", key_contains="x.lease-", answer={"code": "AccessDenied"})
    lease = take(output, 0.5, store)
    assert lease.uri.endswith("-2")
    lease.verify()
    assert names_beside(output) == ["x.lease-1", "x.lease-2"]


@pytest.mark.slow
def test_where_conditions_are_ignored_the_first_owner_notices(s3_bucket, disturbed_s3, monkeypatch):
    """A later run finds the lease. Of two that create it at the same moment, the one whose content
    was replaced writes nothing.
    """
    disturbed_s3.rule(method="PUT", strip=["if-none-match"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", disturbed_s3.url)
    store = Store()
    output = f"s3://{s3_bucket.name}/rl/x.scored.jsonl"
    first = take(output, store=store)
    assert isinstance(take_lease(output, store), OtherLease)
    first.verify()
    assert store.at(first.uri).create(b"of one that looked at the same moment")
    for act in (first.verify, first.renew):
        with pytest.raises(LeaseLostError, match="another run took over"):
            act()


@pytest.mark.slow
def test_without_the_right_to_list_one_has_the_lease(s3_bucket, disturbed_s3, monkeypatch):
    """Of eight runs that may not list one gets the lease, and one takes it over when it has
    expired; the owner that lost it is told, and touches nothing.
    """
    disturbed_s3.deny_listing()
    monkeypatch.setenv("AWS_ENDPOINT_URL", disturbed_s3.url)
    output = f"s3://{s3_bucket.name}/rl/x.scored.jsonl"

    def take_all():
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(lambda _: take_lease(output, STORE, 60.0), range(8)))
        leases = [result for result in results if isinstance(result, Lease)]
        return leases, [each for each in leases if is_held(each)]

    def is_held(lease):
        with suppress(LeaseLostError):
            lease.verify()
            return True
        return False

    taken, (first,) = take_all()
    assert taken == [first]
    first.renew()
    old = elsewhere(first)
    STORE.at(old.uri).replace(changed(old, expiry_s=0.1))
    time.sleep(1.2)
    _, (new,) = take_all()
    assert new.uri == old.uri
    for act in (old.verify, old.renew):
        with pytest.raises(LeaseLostError, match="another run took over this lease"):
            act()
    old.release()
    new.verify()
    new.release()
    with pytest.raises(LeaseLostError, match="this lease was removed"):
        new.verify()
    assert keys_in(s3_bucket) == set()
