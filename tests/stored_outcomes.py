"""What a journal is given and holds, in the words of tests: requests may be known by numbers."""

import asyncio

from msgspec.structs import replace

from genrm_cli.verdicts import Failure


def key(request):
    """Return the key of a request; make one up of a number."""
    return request.to_bytes(32, "big") if isinstance(request, int) else request


def record_all(journal, outcomes, judge="m · nemotron-1"):
    """Record outcomes that arrive at the same moment; return those that count."""

    async def record():
        return await asyncio.gather(
            *(journal.record(key(each), judge, replace(said)) for each, said in outcomes.items())
        )

    return asyncio.run(record())


def verdict_in(journal, request, **options):
    """Return the stored verdict of a request without its key, or None."""
    stored = journal.recall([key(request)], **options).get(key(request))
    if stored is None or isinstance(stored.result, Failure):
        return None
    assert stored.journal_key == key(request)
    assert stored.from_journal
    return replace(stored, journal_key=b"", from_journal=False)


def failure_in(journal, request):
    """Return the stored failure of a request, or None."""
    stored = journal.recall([key(request)]).get(key(request))
    return stored if stored is not None and isinstance(stored.result, Failure) else None


def count_verdicts(journal):
    """Count the verdicts, but for damaged ones."""
    return sum(entry["kind"] == "verdict" for entry in journal.iter_entries())
