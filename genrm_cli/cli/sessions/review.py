"""`genrm review`: list sessions for experts to review, and record their decisions."""

from typing import TYPE_CHECKING

from msgspec import to_builtins

from genrm_cli.cli.console import print_json, say
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.cli.tables import print_result
from genrm_cli.errors import UsageError, naming
from genrm_cli.json_types import Record
from genrm_cli.settings.declare import setting

if TYPE_CHECKING:
    from genrm_cli.products.sessions.expert_review import Review

_DECISIONS = "Decisions"
_ANY_DECISION = "approve|hold|reject"


def review(
    invocation: Invocation,
    scored: str = argument("SCORED", "Output of genrm score: a file or s3://..."),
    approve: tuple[str, ...] = setting(
        "Approve this rollout; * stands for any text. Repeatable.",
        (),
        metavar="GROUP#INDEX",
        panel=_DECISIONS,
    ),
    hold: tuple[str, ...] = setting(
        "Hold it back. Repeatable.", (), metavar="GROUP#INDEX", panel=_DECISIONS
    ),
    reject: tuple[str, ...] = setting(
        "Reject it. Repeatable.", (), metavar="GROUP#INDEX", panel=_DECISIONS
    ),
    by: str | None = setting(
        "Name of the expert, kept with the time.",
        metavar="NAME",
        panel=_DECISIONS,
        only_with=_ANY_DECISION,
    ),
    comment: str = setting("Why.", "", panel=_DECISIONS, only_with=_ANY_DECISION),
    most: int = setting("Maximum rollouts to list.", 50, low=1),
) -> None:
    """List the sessions that experts should look at, flagged ones first, or record their decisions.

    The list goes to stdout as Markdown, with the evidence at its turn; listing writes nothing.
    Decisions go to <stem>.review.jsonl, which genrm export obeys. Collected sessions are pending
    until somebody decides.

    Example: genrm review r1.scored.jsonl > review.md

    Example: genrm review r1.scored.jsonl --by 'Dr. Lee' \\
      --approve 'group:exam_stress_001/v0#2'
    """
    from genrm_cli.products.sessions.expert_review import decide, make_review, render_review

    settings = invocation.settings
    decisions = {"approved": approve, "held": hold, "rejected": reject}
    if any(decisions.values()):
        if not by or not by.strip():
            raise UsageError(naming("missing $by: the name of the expert who decides."))
        counts = decide(scored, settings, decisions, by.strip(), comment)
        if settings.output.json_output:
            print_json(dict(counts))
        statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
        say(f"recorded; now {statuses}")
        return
    found = make_review(scored, settings, most)
    print_result(settings, _document(found), render_review(found, scored).rstrip("\n"))


def _document(found: "Review") -> Record:
    """Return a review as --json prints it."""
    entries = []
    for entry in found.entries:
        group, index = entry.id
        flags = [to_builtins(flag) for flag in entry.flags]
        known = {"group": group, "index": index, "status": entry.status}
        entries.append({**known, "reward": entry.reward, "flags": flags})
    counts = {"flagged": found.flagged, "rollouts": found.rollouts}
    return {**counts, "statuses": dict(found.statuses), "entries": entries}
