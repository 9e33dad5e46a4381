"""Expert review of scored sessions: the list of sessions to review, and the decisions in a file next to them."""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.export.manifest import ADVISORY
from genrm_cli.jobs.context import s3_options
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.rollouts.scenario import parse_scenario
from genrm_cli.scored.files import ScoredInput, open_scored
from genrm_cli.scored.lines import ScoredLine, ScoredRollout
from genrm_cli.scored.parse_lines import iter_scored
from genrm_cli.scored.review_file import SUFFIX, read_statuses
from genrm_cli.sessions.rules.phrase_list import Effect
from genrm_cli.sessions.session_rules import Rule, read_rule
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.leases import Leases, OtherLease
from genrm_cli.storage.location import is_stream, require_rl_prefix, sibling
from genrm_cli.storage.objects import read_object, replace_object

SEVERE, NOTABLE = 2, 1
PENDING = "pending"
_SCREENING_RULES = ("safety", "bias")
_SHOWN_CHARS = 400

RolloutId = tuple[str, int]
"""Group and index of a rollout, as in its `genrm` object."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One reason to review. Screening, not a judgement.

    Attributes:
        severity: `SEVERE` or `NOTABLE`.
        turn: index in the transcript, from 0; None for the whole session.
        evidence: the words found; empty if something is missing.
    """

    severity: int
    reason: str
    turn: int | None = None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class ReviewEntry:
    """A rollout of the list.

    Attributes:
        status: status in the review file, or `pending`.
    """

    id: RolloutId
    status: str
    reward: float | None
    flags: Sequence[Flag]
    transcript: Sequence[Turn]

    @property
    def name(self) -> str:
        """Its name on the command line, as in `--approve`."""
        return f"{self.id[0]}#{self.id[1]}"

    def rank(self) -> tuple[int, float, str, int]:
        """Return the sort key: the severest first, then the lowest reward."""
        return -self.flags[0].severity, self.reward or 0.0, *self.id


@dataclass(frozen=True, slots=True)
class Review:
    """A review list.

    Attributes:
        statuses: of all flagged ones, counted.
    """

    entries: Sequence[ReviewEntry]
    rollouts: int
    statuses: Counter[str]


def make_review(scored_uri: str, settings: Settings, most: int) -> Review:
    """Find rollouts to review; flagged ones without a status become `pending`, which excludes them from exports.

    Raises:
        InputError: a line is not scored, or the review file is damaged.
        StorageError: the review file cannot be written.
    """
    uri, statuses = _review_uri(scored_uri, settings), _statuses(scored_uri, settings)
    rules = {name: read_rule(name) for name in _SCREENING_RULES}
    counts: Counter[str] = Counter()
    unseen: list[RolloutId] = []
    rollouts = 0

    def iter_flagged() -> Iterator[ReviewEntry]:
        nonlocal rollouts
        for id_, scored in _iter_scored(scored_uri, settings):
            rollouts += 1
            flags, transcript = _flags_of(scored.rollout, scored.record, scored.line, rules)
            if flags:
                entry = ReviewEntry(id_, statuses.get(id_, PENDING), scored.line.reward, flags, transcript)
                counts[entry.status] += 1
                if id_ not in statuses:
                    unseen.append(id_)
                yield entry

    entries = heapq.nsmallest(most, iter_flagged(), key=ReviewEntry.rank)
    if unseen:
        _append(uri, settings, [_line(id_, PENDING, "genrm review", "flagged by screening") for id_ in unseen])
    return Review(entries, rollouts, counts)


def decide(
    scored_uri: str, settings: Settings, decisions: Mapping[str, Sequence[str]], name: str, comment: str
) -> Mapping[str, int]:
    """Record an expert's decisions, and return how many rollouts now have each status.

    Args:
        decisions: names of rollouts (`GROUP#INDEX`) by status.

    Raises:
        UsageError: a rollout is not in the file, or is named twice.
        StorageError: the review file cannot be written, or another process is writing it.
    """
    wanted: dict[RolloutId, str] = {}
    for status, names in decisions.items():
        for each in names:
            group, mark, index = each.rpartition("#")
            if not mark or not index.isdecimal():
                raise UsageError(f"{each!r} names no rollout; expected GROUP#INDEX, as in the list.")
            if (group, int(index)) in wanted:
                raise UsageError(f"{each} is named twice; decide once.")
            wanted[group, int(index)] = status
    known = {entry_id for entry_id, *_ in _iter_scored(scored_uri, settings)}
    if missing := [f"{group}#{index}" for group, index in wanted if (group, index) not in known]:
        raise UsageError(f"{scored_uri} has no rollout {missing[0]}; `genrm review {scored_uri}` lists them.")
    lines = [_line(id_, status, name, comment) for id_, status in wanted.items()]
    _append(_review_uri(scored_uri, settings), settings, lines)
    return Counter(_statuses(scored_uri, settings).values())


def render_review(review: Review, scored_uri: str) -> str:
    """Return the list as Markdown for an expert."""
    lines = [
        f"# Review of {scored_uri}",
        "",
        f"{ADVISORY} The flags below come from phrase screening, which misses most hints and may be wrong.",
        "",
        f"{review.statuses.total():,} of {review.rollouts:,} rollouts are flagged: "
        + (", ".join(f"{count:,} {status}" for status, count in sorted(review.statuses.items())) or "none")
        + f". {len(review.entries):,} are listed, the severest first.",
        "Pending, held and rejected ones stay out of exports.",
    ]
    for entry in review.entries:
        reward = "unscored" if entry.reward is None else f"reward {entry.reward:.3f}"
        lines += ["", f"## {entry.name}", "", f"{entry.status}, {reward}", ""]
        lines += [f"- {text}" for flag in entry.flags for text in _texts_of(flag, entry.transcript)]
    return "\n".join(lines) + "\n"


def _texts_of(flag: Flag, transcript: Sequence[Turn]) -> Iterator[str]:
    where = "" if flag.turn is None else f" (turn {flag.turn})"
    found = f": “{flag.evidence}”" if flag.evidence else ""
    yield f"{flag.reason}{where}{found}"
    if flag.evidence and flag.turn is not None and flag.turn < len(transcript):
        turn = transcript[flag.turn]
        yield f"  {turn.role} said: {' '.join(turn.text.split())[:_SHOWN_CHARS]}"


def _flags_of(
    rollout: Rollout, record: JsonObject, line: ScoredLine, rules: Mapping[str, Rule]
) -> tuple[list[Flag], tuple[Turn, ...]]:
    """Return why a rollout should be reviewed, the severest reason first, and its transcript."""
    said = rollout.session or (() if rollout.answer is None else (Turn("assistant", rollout.answer),))
    transcript = (*rollout.prompt, *said)
    scenario = parse_scenario(record)
    flags = []
    for name, rule in rules.items():
        for fired in rule(transcript, scenario).fired:
            if fired.effect is not Effect.RAISES:
                is_severe = fired.effect is Effect.VIOLATION or fired.what == "agrees_with_danger"
                words = fired.what.replace("_", " ").replace("missing:", "missing: ")
                reason = f"{name}: {words.replace('passes over:', 'passes over ')}"
                flags.append(Flag(SEVERE if is_severe else NOTABLE, reason, fired.turn, fired.phrase))
    flags += _collected_flags(record.get("metadata"))
    if line.total is not None and line.total.gated_by:
        flags.append(Flag(SEVERE, f"broke a gate: {', '.join(line.total.gated_by)}"))
    if scenario.is_crisis:
        flags.append(Flag(NOTABLE, f"risk level {scenario.risk_level}"))
    return sorted(flags, key=lambda flag: -flag.severity), transcript


def _collected_flags(metadata: object) -> Iterator[Flag]:
    """Yield the flags that `genrm collect` recorded."""
    if not isinstance(metadata, Mapping):
        return
    if metadata.get("end_reason") == "safety_violation":
        yield Flag(SEVERE, "ended by a hard safety violation", None, str(metadata.get("end_evidence") or ""))
    faults = metadata.get("client_faults")
    if isinstance(faults, list) and faults:
        yield Flag(NOTABLE, f"faulty simulated client: {', '.join(map(str, faults))}")


def _iter_scored(scored_uri: str, settings: Settings) -> Iterator[tuple[RolloutId, ScoredRollout]]:
    """Yield the scored rollouts of a file, except those without a group."""
    with open_scored(scored_uri, s3_options(settings), settings) as source:
        for line, found, problem in iter_scored(source, settings.input):
            if problem is not None:
                raise InputError(f"{scored_uri}: {source.unit} {line.number}: {problem}")
            yield from (((each.line.group, each.line.index), each) for each in found if each.line.group is not None)


def _review_uri(scored_uri: str, settings: Settings) -> str:
    """Return the review file of scored lines."""
    if is_stream(scored_uri):
        raise UsageError("a review file is stored next to its scored lines; name a file instead of -.")
    uri = sibling(scored_uri, SUFFIX)
    require_rl_prefix(uri, settings.storage.any_prefix)
    return uri


def _statuses(scored_uri: str, settings: Settings) -> dict[RolloutId, str]:
    return read_statuses(ScoredInput(scored_uri, (scored_uri,)), s3_options(settings), settings)


def _line(id_: RolloutId, status: str, name: str, comment: str) -> bytes:
    record = {"group": id_[0], "index": id_[1], "status": status, "name": name}
    record["time"] = datetime.now(UTC).isoformat(timespec="seconds")
    return render_record(record | ({"comment": comment} if comment else {}))


def _append(uri: str, settings: Settings, lines: Sequence[bytes]) -> None:
    """Append lines to the review file, under its lease: two experts may decide at once."""
    s3 = s3_options(settings)
    lease = Leases(s3, settings.storage.lease_expiry).take(uri)
    if isinstance(lease, OtherLease):
        raise StorageError(f"{uri}: {lease}; try again in a moment.")
    try:
        before = read_object(uri, s3) or b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        replace_object(uri, s3, before + b"".join(lines))
    finally:
        lease.release()
