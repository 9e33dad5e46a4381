"""Running sums in the file of a journal: parts are added once each, by any number of processes."""

from array import array
from collections.abc import Mapping, Sequence

from genrm_cli.judging.journal_file import Connection, JournalErrors, transaction

_TABLES = """
CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, numbers BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS summed (name TEXT NOT NULL, part BLOB NOT NULL, PRIMARY KEY (name, part)) WITHOUT ROWID;
"""


class KeptSums:
    """Sums of numbers, by name. Their tables are made when sums are first kept."""

    def __init__(self, connection: Connection, errors: JournalErrors) -> None:
        self._connection = connection
        self._errors = errors

    def open(self) -> None:
        """Make the tables, unless they exist.

        Raises:
            StorageError: the journal cannot be written.
        """
        with self._errors, transaction(self._connection) as execute:
            for statement in filter(str.strip, _TABLES.split(";")):
                execute(statement)

    def read(self, name: str) -> list[float] | None:
        """Return the sums of this name; None if there are none.

        Raises:
            StorageError: the journal cannot be read.
        """
        with self._errors:
            row = self._connection.execute("SELECT numbers FROM sums WHERE name = ?", (name,)).fetchone()
        return None if row is None else array("d", row[0]).tolist()

    def has(self, name: str, part: bytes) -> bool:
        """Whether a part has been added.

        Raises:
            StorageError: the journal cannot be read.
        """
        with self._errors:
            found = self._connection.execute("SELECT 1 FROM summed WHERE name = ? AND part = ?", (name, part))
            return found.fetchone() is not None

    def add(self, name: str, parts: Mapping[bytes, Sequence[float]]) -> list[float]:
        """Add the sums of parts that nobody has added yet, and return the sums of all parts.

        Sums that are not as many as before replace them.

        Raises:
            StorageError: the journal cannot be written.
        """
        with self._errors, transaction(self._connection) as execute:
            row = execute("SELECT numbers FROM sums WHERE name = ?", (name,)).fetchone()
            total = array("d", row[0]).tolist() if row is not None else []
            for part, numbers in parts.items():
                # Another process may have added the part since the caller looked.
                if execute("INSERT OR IGNORE INTO summed VALUES (?, ?)", (name, part)).rowcount:
                    known = total if len(total) == len(numbers) else [0.0] * len(numbers)
                    total = [old + new for old, new in zip(known, numbers, strict=True)]
            execute("INSERT OR REPLACE INTO sums VALUES (?, ?)", (name, array("d", total).tobytes()))
        return total
