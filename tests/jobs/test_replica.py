import asyncio
import threading
from typing import Any

import orjson
import pytest
from polling import until

from genrm_cli.errors import StorageError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.replica import CopyFailingEvent, JournalReplica
from genrm_cli.metrics.event import Event
from genrm_cli.settings import settings_from
from genrm_cli.storage.encoding.codec import unpack

DENIED = {"code": "AccessDenied"}


class Place:
    """A folder on S3 that segments go to, through the disturber."""

    def __init__(self, bucket: Any) -> None:
        self._bucket = bucket
        self.folder = f"s3://{bucket.name}/rl/j/run-1/"
        self.events: list[Event] = []

    def segments(self, calls: int, age_s: float = 60.0) -> JournalReplica:
        """Make the copier."""
        settings = settings_from(segment_calls=calls)
        run = new_run(settings, on_event=self.events.append)
        return JournalReplica(self.folder, run, age_s)

    def copied(self) -> list[list[int]]:
        """Return the numbers in each segment, in the order of their names."""
        found = self._bucket.client.list_objects_v2(Bucket=self._bucket.name, Prefix="rl/j/").get(
            "Contents", []
        )
        bodies = [
            self._bucket.client.get_object(Bucket=self._bucket.name, Key=one["Key"])["Body"]
            for one in found
        ]
        return [
            [orjson.loads(line)["n"] for line in unpack(body.read(), "").splitlines()]
            for body in bodies
        ]

    async def wait_for(self, count: int) -> None:
        """Wait until so many entries are copied."""
        while sum(map(len, await asyncio.to_thread(self.copied))) < count:
            await asyncio.sleep(0.02)


@pytest.fixture
def place(s3_bucket, disturbed_s3, monkeypatch):
    """Give a folder with nothing in it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", disturbed_s3.url)
    return Place(s3_bucket)


async def has_room(segments):
    """Say whether a call may be made now."""
    try:
        async with asyncio.timeout(0.05):
            await segments.room()
    except TimeoutError:
        return False
    return True


def test_leaving_copies_the_rest_in_order(place):
    """What is not enough for a segment is copied when the work ends; nothing at all leaves no
    segment.
    """

    async def work(count):
        async with place.segments(100) as segments:
            for number in range(count):
                segments.add({"n": number})

    asyncio.run(work(0))
    assert place.copied() == []
    asyncio.run(work(5))
    assert place.copied() == [[0, 1, 2, 3, 4]]


async def test_half_full_is_copied_at_once(place):
    """As soon as half of what may be lost is there it is on its way."""
    async with place.segments(8) as segments:
        for number in range(4):
            segments.add({"n": number})
        await place.wait_for(4)
        segments.add({"n": 4})
    assert place.copied() == [[0, 1, 2, 3], [4]]


async def test_a_few_are_copied_when_their_time_has_come(place):
    """A single verdict is copied after the age of a segment."""
    async with place.segments(100, age_s=0.2) as segments:
        segments.add({"n": 0})
        await place.wait_for(1)
        assert place.copied() == [[0]]
        await segments.room()


@pytest.mark.parametrize(
    "calls", [1, *(pytest.param(calls, marks=pytest.mark.slow) for calls in (2, 5))]
)
async def test_no_call_is_made_while_as_many_as_may_be_lost_are_not_copied(
    place, disturbed_s3, calls
):
    """Those under way count until they are there; then there is room again."""
    gate = threading.Event()
    disturbed_s3.rule(method="PUT", gate=gate)
    async with place.segments(calls) as segments:
        for number in range(calls):
            assert await has_room(segments)
            segments.add({"n": number})
        assert not await has_room(segments)
        gate.set()
        await segments.room()
        assert await asyncio.to_thread(place.copied)
    assert [number for segment in place.copied() for number in segment] == list(range(calls))


async def test_while_the_store_fails_nobody_waits(place, disturbed_s3):
    """A store that refuses is told once and makes nobody wait; what waits is copied once, whole, in
    order.
    """
    disturbed_s3.rule(method="PUT", times=1, answer=DENIED)
    async with place.segments(4) as segments:
        for number in range(4):
            segments.add({"n": number})
        async with asyncio.timeout(5):
            await segments.room()
        for number in range(4, 20):
            segments.add({"n": number})
            assert await has_room(segments)
    assert place.copied() == [list(range(20))]
    (event,) = place.events
    assert isinstance(event, CopyFailingEvent)
    assert "access denied" in event.detail


@pytest.mark.slow
def test_copies_that_fail_to_the_end_are_an_error(place, disturbed_s3):
    """If even the last try fails the work has failed, unless something else ended it: that comes
    out then.
    """
    disturbed_s3.rule(method="PUT", answer=DENIED)

    async def work(error):
        async with place.segments(100) as segments:
            segments.add({"n": 0})
            if error is not None:
                raise error

    with pytest.raises(StorageError, match="access denied"):
        asyncio.run(work(None))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work(asyncio.CancelledError()))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(work(ZeroDivisionError()))
    assert [type(event) for event in place.events] == [CopyFailingEvent] * 2


@pytest.mark.slow
async def test_what_is_under_way_at_the_end_is_not_copied_twice(place, disturbed_s3):
    """Leaving waits for the segment that is being written, and writes only what came after it."""
    gate = threading.Event()
    disturbed_s3.rule(method="PUT", times=1, gate=gate)
    async with place.segments(4) as segments:
        for number in range(3):
            segments.add({"n": number})
        await until(lambda: disturbed_s3.requests("PUT"))
        segments.add({"n": 3})
        gate.set()
    assert sorted(place.copied()) == [[0, 1, 2], [3]]
