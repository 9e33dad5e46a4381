"""Expert review of scored sessions: the list of sessions to review, with the reasons from rules,
gates, judges and collection, and the decisions in a file next to them.
"""

import fnmatch
import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.json_types import Record
from genrm_cli.products.sessions.rules.transcript import Effect, Finding
from genrm_cli.products.sessions.session_rules import RULES
from genrm_cli.rollouts.formats.episodes.session_safety import SAFE_FROM, safety_of_components
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import parse_scenario
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.lines import ScoredRollout
from genrm_cli.scored.parse_lines import iter_scored
from genrm_cli.scored.review_file import SUFFIX, own_status, read_statuses
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.leases import OtherLease, take_lease
from genrm_cli.storage.location import is_stream, require_rl_prefix, sibling
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store

IMMINENT = 5
CONSTRAINT = 3
CONTACT = 2
"""Severities, 5 (danger to life) to 1, that of style."""

# Ends that an expert should read; all others are usual.
_ENDS = {
    "safety_violation": (IMMINENT, "ended by a certain breach of safety"),
    "client_harmed": (IMMINENT, "the client ended it: it was harmed"),
    "client_left": (CONTACT, "the client left"),
}
UNDECIDED = "undecided"
"""Status of a flagged rollout without one: exports take it, so that a flag alone withholds nothing.
"""
_SHOWN_CHARS = 400  # of the turn around a flag: enough to judge it without the transcript

RolloutId = tuple[str, int]
"""Group and index of a rollout, as in its `genrm` object."""


class ReviewEntry(Struct, frozen=True):
    """A rollout of the list.

    Attributes:
        status: status in the review file, else in the session, else `undecided`.
        flags: the severest first.
    """

    id: RolloutId
    status: str
    reward: float | None
    flags: Sequence[Finding]
    transcript: Sequence[Turn]

    def rank(self) -> tuple[int, bool, float, str, int]:
        """Return the sort key: the severest first, then the lowest reward; without a flag last."""
        order = _order_of(self.flags[0]) if self.flags else (0, True)
        return *order, self.reward or 0.0, *self.id


class Review(Struct, frozen=True):
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
    known = _statuses(scored_uri, settings)
    statuses: Counter[str] = Counter()
    seen = array("B")  # whether each rollout has a flag

    def iter_entries() -> Iterator[ReviewEntry]:
        for id_, scored in _iter_scored(scored_uri, settings):
            status = known.get(id_) or own_status(scored.rollout, scored.record)
            flags, transcript = flags_of(scored)
            seen.append(bool(flags))
            if flags or status is not None:
                status = status or UNDECIDED
                statuses[status] += 1
                yield ReviewEntry(id_, status, scored.line.reward, flags, transcript)

    # Each entry holds a transcript: no more are kept than are listed.
    entries = heapq.nsmallest(most, iter_entries(), key=ReviewEntry.rank)
    return Review(entries, len(seen), sum(seen), statuses)


def flags_of(scored: ScoredRollout) -> tuple[list[Finding], tuple[Turn, ...]]:
    """Return why a rollout should be reviewed, the severest reason first, and its transcript.

    The rules read sessions only: in ordinary answers, such as a poem, their phrases mean something
    else."""
    rollout = scored.rollout
    said = rollout.session or ()
    if not said and rollout.answer is not None:
        said = (Turn("assistant", rollout.answer),)
    transcript = (*rollout.prompt, *said)
    flags = list(_iter_judged(scored.line))
    if rollout.is_session:
        scenario = parse_scenario(scored.record)
        components = dict(scored.line.components or {})
        for name, rule in RULES.items():
            result = rule(transcript, scenario)
            components[name] = result.value
            for each in result.findings:
                what = each.what.replace("_", " ").replace(":", ": ", 1)
                flags.append(replace(each, what=f"{name}: {what}"))
        if safety_of_components(components, None).disagrees:
            flags.append(Finding("guard and judge disagree", severity=IMMINENT))
        flags += _iter_collected(scored.record.get("metadata"))
        if scenario.is_crisis:
            flags.append(Finding(f"risk level {scenario.risk_level}"))
    # A broken gate is no severer than what is known to have broken it.
    certain = (flag.severity for flag in flags if flag.effect is Effect.CERTAIN)
    most = max(certain, default=IMMINENT)
    total = scored.line.total
    gates = dict.fromkeys([*rollout.gated_by, *(total.gated_by if total is not None else ())])
    broken = Finding("", effect=Effect.CERTAIN, severity=most)
    flags += [replace(broken, what=f"broke the gate {gate}") for gate in gates]
    return sorted(flags, key=_order_of), transcript


def _order_of(flag: Finding) -> tuple[int, bool]:
    """Return the sort key: the severest first, and in each severity what is certain."""
    return -flag.severity, flag.effect is not Effect.CERTAIN


def _iter_judged(line: ScoredLine) -> Iterator[Finding]:
    """Yield the constraints that a judge found broken, and its low grades of safety, with what it
    quotes.
    """
    notes = line.component_notes or {}
    found = notes.get("rubric_constraints")
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("effect") == Effect.CERTAIN:
            what = f"judge: {str(each.get('what')).replace(':', ': ', 1)}"
            phrase = str(each.get("phrase") or "")
            yield Finding(what, phrase, each.get("turn"), Effect.CERTAIN, CONSTRAINT)
    grade = (line.components or {}).get("rubric_safety")
    if grade is not None and grade < SAFE_FROM:
        note = notes.get("rubric_safety")
        phrase = note.get("evidence", "") if isinstance(note, dict) else ""
        yield Finding(f"judge: safety {grade:g} of 1", phrase, severity=IMMINENT)


def _iter_collected(metadata: object) -> Iterator[Finding]:
    """Yield the flags that `genrm collect` recorded."""
    if not isinstance(metadata, Mapping):
        return
    reason = metadata.get("end_reason")
    if reason in _ENDS:
        severity, what = _ENDS[reason]
        phrase = str(metadata.get("end_evidence") or "")
        yield Finding(what, phrase, None, Effect.CERTAIN, severity)
    if faults := metadata.get("client_faults"):
        yield Finding(f"faulty simulated client: {', '.join(map(str, faults))}")


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
    ids = (id_ for id_, _ in _iter_scored(scored_uri, settings))
    known = {f"{group}#{index}": {"group": group, "index": index} for group, index in ids}
    signed = {"name": name, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    signed |= {"comment": comment} if comment else {}
    records: dict[str, Record] = {}
    for status, names in decisions.items():
        for each in names:
            found = [each] if each in known else fnmatch.filter(known, each)
            if not found:
                raise UsageError(
                    f"{scored_uri} has no rollout {each}; expected GROUP#INDEX or a pattern such "
                    f"as 'GROUP#*'. `genrm review {scored_uri}` lists them."
                )
            for rollout in found:
                if rollout in records:
                    raise UsageError(f"{rollout} is named twice; decide once.")
                records[rollout] = {**known[rollout], "status": status, **signed}
    _append(scored_uri, settings, b"".join(map(render_record, records.values())))
    return Counter(_statuses(scored_uri, settings).values())


def render_review(review: Review, scored_uri: str) -> str:
    """Return the list as Markdown for an expert."""
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(review.statuses.items()))
    lines = [
        f"# Review of {scored_uri}",
        "",
        "Rewards are advisory: experts decide. The flags below come from rules and judges: they "
        "miss some harm and may be wrong.",
        "",
        f"{review.flagged:,} of {review.rollouts:,} rollouts are flagged. By status: "
        f"{statuses or 'none'}. {len(review.entries):,} are listed, the severest first.",
        "Exports leave out what is pending (collected sessions, until an expert decides), held or "
        f"rejected. Flagged rollouts that nobody has decided about are {UNDECIDED}, and exported.",
    ]
    lines.append(f"`genrm report {scored_uri}` shows the whole transcripts.")
    for entry in review.entries:
        reward = "unscored" if entry.reward is None else f"reward {entry.reward:.3f}"
        group, index = entry.id
        lines += ["", f"## {group}#{index}", "", f"{entry.status}, {reward}", ""]
        for flag in entry.flags:
            where = "" if flag.turn is None else f" (turn {flag.turn})"
            evidence = f": “{flag.phrase}”" if flag.phrase else ""
            lines.append(f"- {flag.what}{where}{evidence}")
            if flag.phrase and flag.turn is not None and flag.turn < len(entry.transcript):
                turn = entry.transcript[flag.turn]
                lines.append(f"  {_said(turn)}")
        # Flags miss what they do not know: an expert sees how the session began and ended.
        heard = [turn for turn in entry.transcript if turn.role != "system"]
        if heard:
            lines += ["", f"First: {_said(heard[0])}", f"Last of {len(heard)}: {_said(heard[-1])}"]
    return "\n".join(lines) + "\n"


def _said(turn: Turn) -> str:
    return f"{turn.role} said: {' '.join(turn.text.split())[:_SHOWN_CHARS]}"


def _iter_scored(scored_uri: str, settings: Settings) -> Iterator[tuple[RolloutId, ScoredRollout]]:
    """Yield the scored rollouts of a file, except those without a group."""
    with open_source(scored_uri, Store(settings.storage), settings.input) as source:
        for line, found, problem in iter_scored(source, settings.input):
            if problem is not None:
                raise InputError(f"{scored_uri}: {source.unit} {line.number}: {problem}")
            for each in found:
                if each.line.group is not None:
                    yield (each.line.group, each.line.index), each


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
    lease = take_lease(uri, store)
    if isinstance(lease, OtherLease):
        raise StorageError(f"{uri}: {lease}; try again in a moment.")
    try:
        before = store.at(uri).read() or b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        store.at(uri).replace(before + lines)
    finally:
        lease.release()
