"""Expert review of scored sessions: the list of sessions to review, and the decisions in a file
next to them.
"""

import fnmatch
import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.scored.files import ScoredInput, open_scored
from genrm_cli.scored.lines import ScoredRollout
from genrm_cli.scored.parse_lines import iter_scored
from genrm_cli.scored.review_file import SUFFIX, own_status, read_statuses
from genrm_cli.sessions.review.review_flags import Flag, flags_of
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.leases import Leases, OtherLease
from genrm_cli.storage.location import is_stream, require_rl_prefix, sibling
from genrm_cli.storage.store import Store

_SHOWN_CHARS = 400  # of the turn around a flag: enough to judge it without the transcript

RolloutId = tuple[str, int]
"""Group and index of a rollout, as in its `genrm` object."""


@dataclass(frozen=True, slots=True)
class ReviewEntry:
    """A rollout of the list.

    Attributes:
        status: status in the review file, else in the session, else `undecided`.
    """

    id: RolloutId
    status: str
    reward: float | None
    flags: Sequence[Flag]
    transcript: Sequence[Turn]

    def rank(self) -> tuple[int, bool, float, str, int]:
        """Return the sort key: the severest first, then the lowest reward; without a flag last."""
        order = self.flags[0].order if self.flags else (0, True)
        return *order, self.reward or 0.0, *self.id


@dataclass(frozen=True, slots=True)
class Review:
    """A review list.

    Attributes:
        statuses: of all that are flagged or pending, counted.
        flagged: number of rollouts with a flag.
    """

    entries: Sequence[ReviewEntry]
    rollouts: int
    flagged: int
    statuses: Counter[str]


def make_review(scored_uri: str, settings: Settings, most: int) -> Review:
    """Find the rollouts to review: those with a flag, and sessions whose review is pending. Writes
    nothing.
    """
    statuses = _statuses(scored_uri, settings)
    counts: Counter[str] = Counter()
    rollouts = flagged = 0

    def iter_entries() -> Iterator[ReviewEntry]:
        nonlocal rollouts, flagged
        for id_, scored in _iter_scored(scored_uri, settings):
            rollouts += 1
            status = statuses.get(id_) or own_status(scored.rollout, scored.record)
            flags, transcript = flags_of(scored)
            flagged += bool(flags)
            if flags or status is not None:
                entry = ReviewEntry(
                    id_, status or "undecided", scored.line.reward, flags, transcript
                )
                counts[entry.status] += 1
                yield entry

    entries = heapq.nsmallest(most, iter_entries(), key=ReviewEntry.rank)
    return Review(entries, rollouts, flagged, counts)


def decide(
    scored_uri: str,
    settings: Settings,
    decisions: Mapping[str, Sequence[str]],
    name: str,
    comment: str,
) -> Mapping[str, int]:
    """Record an expert's decisions, and return how many rollouts now have each status.

    Args:
        decisions: by status, names of rollouts (`GROUP#INDEX`), or patterns of them with `*`.
    """
    known = {
        f"{group}#{index}": (group, index)
        for (group, index), _ in _iter_scored(scored_uri, settings)
    }
    wanted: dict[RolloutId, str] = {}
    for status, names in decisions.items():
        for each in names:
            found = [each] if each in known else fnmatch.filter(known, each)
            if not found:
                raise UsageError(
                    f"{scored_uri} has no rollout {each}; expected GROUP#INDEX or a pattern such "
                    "as 'GROUP#*'. "
                    f"`genrm review {scored_uri}` lists them."
                )
            if twice := [name for name in found if known[name] in wanted]:
                raise UsageError(f"{twice[0]} is named twice; decide once.")
            wanted |= {known[name]: status for name in found}
    signed = {"name": name, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    signed |= {"comment": comment} if comment else {}
    given = (
        {"group": group, "index": index, "status": status}
        for (group, index), status in wanted.items()
    )
    _append(scored_uri, settings, b"".join(render_record(each | signed) for each in given))
    return Counter(_statuses(scored_uri, settings).values())


def render_review(review: Review, scored_uri: str) -> str:
    """Return the list as Markdown for an expert."""
    lines = [
        f"# Review of {scored_uri}",
        "",
        "Rewards are advisory: experts decide. The flags below come from rules and judges: they "
        "miss some harm and may be wrong.",
        "",
        f"{review.flagged:,} of {review.rollouts:,} rollouts are flagged. By status: "
        + (
            ", ".join(f"{count:,} {status}" for status, count in sorted(review.statuses.items()))
            or "none"
        )
        + f". {len(review.entries):,} are listed, the severest first.",
        "Exports omit pending, held and rejected ones, and include undecided ones.",
    ]
    for entry in review.entries:
        reward = "unscored" if entry.reward is None else f"reward {entry.reward:.3f}"
        group, index = entry.id
        lines += ["", f"## {group}#{index}", "", f"{entry.status}, {reward}", ""]
        for flag in entry.flags:
            where = "" if flag.turn is None else f" (turn {flag.turn})"
            evidence = f": “{flag.evidence}”" if flag.evidence else ""
            lines.append(f"- {flag.reason}{where}{evidence}")
            if flag.evidence and flag.turn is not None and flag.turn < len(entry.transcript):
                turn = entry.transcript[flag.turn]
                lines.append(f"  {turn.role} said: {' '.join(turn.text.split())[:_SHOWN_CHARS]}")
    return "\n".join(lines) + "\n"


def _iter_scored(scored_uri: str, settings: Settings) -> Iterator[tuple[RolloutId, ScoredRollout]]:
    """Yield the scored rollouts of a file, except those without a group."""
    with open_scored(scored_uri, Store(settings.storage), settings) as source:
        for line, found, problem in iter_scored(source, settings.input):
            if problem is not None:
                raise InputError(f"{scored_uri}: {source.unit} {line.number}: {problem}")
            yield from (
                ((each.line.group, each.line.index), each)
                for each in found
                if each.line.group is not None
            )


def _statuses(scored_uri: str, settings: Settings) -> dict[RolloutId, str]:
    return read_statuses(ScoredInput(scored_uri, (scored_uri,)), Store(settings.storage), settings)


def _append(scored_uri: str, settings: Settings, lines: bytes) -> None:
    """Append lines to the review file, under its lease: two experts may decide at once."""
    if is_stream(scored_uri):
        raise UsageError(
            "a review file is stored next to its scored lines; name a file instead of -."
        )
    uri = sibling(scored_uri, SUFFIX)
    store = Store(settings.storage)
    require_rl_prefix(uri, settings.storage.any_prefix)
    lease = Leases(store, settings.storage.lease_expiry).take(uri)
    if isinstance(lease, OtherLease):
        raise StorageError(f"{uri}: {lease}; try again in a moment.")
    try:
        before = store.at(uri).read() or b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        store.at(uri).replace(before + lines)
    finally:
        lease.release()
