"""What a journal holds, in the words of tests."""

from genrm_cli.verdicts import Failure


def verdict_in(journal, key, **options):
    """Return the stored verdict of a request, or None."""
    stored = journal.recall([key], **options).get(key)
    return None if stored is None or isinstance(stored.result, Failure) else stored


def failure_in(journal, key):
    """Return the stored failure of a request, or None."""
    stored = journal.recall([key]).get(key)
    return stored if stored is not None and isinstance(stored.result, Failure) else None


def count_verdicts(journal):
    """Count the verdicts, but for damaged ones."""
    return sum(entry["kind"] == "verdict" for entry in journal.iter_entries())
