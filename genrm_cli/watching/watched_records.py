"""The data that a watch keeps of each run in its metrics file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from genrm_cli.scored.run_record import RunRecord, WatchedRun

MARGINS = (0.5, 1.0, 2.0, 3.0)
"""Upper bounds of the differences of scores by which audits are divided; larger ones are the last
stratum.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRecord(WatchedRun):
    """The findings of the watch in one run, and their cost; see `genrm guide watch`.

    Attributes:
        sentinel_set: identity of the sentinels and of the judges that are asked about them; None
            without any.
        sentinel_count: number of sentinels; each judge has a verdict on each.
        asked: identity of the calls about sentinels, which several inputs of a run share.
        sentinels: verdicts of the judges, one character for each sentinel; None if they were not
            asked.
        auditor_sentinels: verdicts of the auditor, likewise.
        audits: disagreements of the auditor and all audits, by the judge's margin.
        audit_length: by how much more often than the auditor the judge prefers the longer response,
            -1 to 1.
        look_at: groups in which the two disagree, those with the largest margin of the judge first.
        canaries: how often a changed response won, and how many decided pairs there were, by
            change.
    """

    sentinel_set: str | None = None
    sentinel_count: int = 0
    asked: str | None = None
    sentinels: str | None = None
    auditor_sentinels: str | None = None
    audits: tuple[tuple[int, ...], ...] = ()
    audit_length: float | None = None
    look_at: tuple[str, ...] = ()
    canaries: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRecord(RunRecord):
    """The metrics of a run with all that the watch keeps of it."""

    watch: WatchRecord | None = None
