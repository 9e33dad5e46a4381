"""What audits add up to."""

from genrm_cli.groups.group import JudgedGroup
from genrm_cli.rewards.shaping import TextShape
from genrm_cli.watching.asking import Audits
from genrm_cli.watching.watched_records import WatchRecord


def judged(key: str, better_chars: int, worse_chars: int) -> JudgedGroup:
    """Return a pair whose first rollout the judge prefers."""
    return JudgedGroup(
        key=key,
        size=2,
        mixed=None,
        answered=(0, 1),
        has_response=(True, True),
        not_compared=(None, None),
        view="answer",
        shapes=[TextShape(0, better_chars), TextShape(0, worse_chars)],
    )


def test_audits_are_counted_by_margin_and_length() -> None:
    """Disagreements by the judge's margin; the longer response by judge and auditor; the surest
    groups.
    """
    audits = Audits()
    audits.add(0.5, 1, judged("agree", 30, 10))
    audits.add(2.5, -1, judged("apart", 30, 10))
    audits.add(4.0, 0, judged("tie", 10, 30))
    found = audits.into(WatchRecord())
    assert found.audits == ((0, 1), (0, 0), (0, 0), (1, 1), (1, 1))
    assert found.look_at == ("tie", "apart")
    assert found.audit_length == (0.0 + 1.0 - 0.5) / 3
