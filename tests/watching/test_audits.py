"""What audits add up to."""

from genrm_cli.watching.asking import Audit, count_audits
from genrm_cli.watching.watched_records import WatchRecord


def test_audits_are_counted_by_margin_and_length() -> None:
    """Disagreements by the judge's margin; the longer response by judge and auditor; the surest
    groups.
    """
    audits = [Audit(0.5, 1, 20, "agree"), Audit(2.5, -1, 20, "apart"), Audit(4.0, 0, -20, "tie")]
    found = count_audits(audits, WatchRecord())
    assert found.audits == ((0, 1), (0, 0), (0, 0), (1, 1), (1, 1))
    assert found.look_at == ("tie", "apart")
    assert found.audit_length == (0.0 + 1.0 - 0.5) / 3
