"""`genrm review`: list sessions for experts to review, and record their decisions."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from genrm_cli.cli.console import print_json, say
from genrm_cli.cli.options import Invocation, argument, option, with_settings
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import UsageError, naming

if TYPE_CHECKING:
    pass

_DECISIONS = "Decisions"


@with_settings
def review(
    scored: Annotated[str, argument("SCORED", "Output of genrm score: a file or s3://...")],
    invocation: Invocation,
    approve: Annotated[
        list[str] | None,
        option(
            "GROUP#INDEX",
            "Approve this rollout; * stands for any text. Repeatable.",
            panel=_DECISIONS,
        ),
    ] = None,
    hold: Annotated[
        list[str] | None, option("GROUP#INDEX", "Hold it back. Repeatable.", panel=_DECISIONS)
    ] = None,
    reject: Annotated[
        list[str] | None, option("GROUP#INDEX", "Reject it. Repeatable.", panel=_DECISIONS)
    ] = None,
    by: Annotated[
        str | None, option("NAME", "Name of the expert, kept with the time.", panel=_DECISIONS)
    ] = None,
    comment: Annotated[str, option("TEXT", "Why.", panel=_DECISIONS)] = "",
    most: Annotated[int, option("N", "Maximum rollouts to list.", min=1)] = 50,
) -> int:
    """List the sessions that experts should look at, flagged ones first, or record their decisions.

    The list goes to stdout as Markdown, with the evidence at its turn; listing writes nothing.
    Decisions go to <stem>.review.jsonl, which genrm export obeys. Collected sessions are pending
    until somebody decides.

    Example: genrm review r1.scored.jsonl > review.md

    Example: genrm review r1.scored.jsonl --approve 'group:exam_stress_001/v0#2' --by 'Dr. Lee'
    """
    from genrm_cli.sessions.expert_review import decide, make_review, render_review

    settings = invocation.settings
    decisions = {"approved": approve or [], "held": hold or [], "rejected": reject or []}
    if any(decisions.values()):
        if not by or not by.strip():
            raise UsageError(naming("missing $by: the name of the expert who decides."))
        counts = decide(scored, settings, decisions, by.strip(), comment)
        if settings.output.json_output:
            print_json(dict(counts))
        if not settings.output.quiet:
            say(
                "recorded; now "
                f"{', '.join(f'{count:,} {status}' for status, count in sorted(counts.items()))}"
            )
        return 0
    if by is not None or comment:
        raise UsageError(
            naming("$by and $comment go with a decision; add $approve, $hold or $reject.")
        )
    found = make_review(scored, settings, most)
    if settings.output.json_output:
        entries = []
        for entry in found.entries:
            group, index = entry.id
            flags = [asdict(flag) for flag in entry.flags]
            known = {"group": group, "index": index, "status": entry.status}
            entries.append({**known, "reward": entry.reward, "flags": flags})
        counts = {"flagged": found.flagged, "rollouts": found.rollouts}
        print_json({**counts, "statuses": dict(found.statuses), "entries": entries})
    else:
        print_parts(render_review(found, scored).rstrip("\n"))
    return 0
