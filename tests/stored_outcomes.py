"""What a journal holds, in the words of tests."""

from msgspec.structs import replace

from genrm_cli.verdicts import Failure


def verdict_in(journal, key, **options):
    """Return the stored verdict of a request without its key, or None."""
    stored = journal.recall([key], **options).get(key)
    if stored is None or isinstance(stored.result, Failure):
        return None
    assert stored.journal_key == key
    return replace(stored, journal_key=b"")


def failure_in(journal, key):
    """Return the stored failure of a request, or None."""
    stored = journal.recall([key]).get(key)
    return stored if stored is not None and isinstance(stored.result, Failure) else None


def count_verdicts(journal):
    """Count the verdicts, but for damaged ones."""
    return sum(entry["kind"] == "verdict" for entry in journal.iter_entries())
