"""Judgement by the criteria of a row: the share of points met, or a failure."""

import json

from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.criteria import CONSTRAINTS, CRITERIA
from genrm_cli.verdicts import Failure, FailureKind, Grades

ROW = (
    ("Says when to see a doctor.", 6.0),
    ("Names a dose.", 2.0),
    ("Scolds.", -4.0),
)


def said(*met):
    """Write the reply that decides each criterion in turn."""
    return json.dumps(
        {
            "criteria": [
                {
                    "index": i,
                    "evidence": "",
                    "met": each,
                }
                for i, each in enumerate(met)
            ]
        }
    )


YES = said(True, True, True)


def test_how_a_reply_is_read():
    """Each criterion is decided once, by true or false; anything else is a failure of the right
    kind.
    """
    cases = [
        (said(True, True, False), 1.0),
        (YES, 0.5),
        (said(False, True, True), 0.0),
        (f"```json\n{YES}\n```\n{YES}", 0.5),
        (f"{YES}\n{said(True, True, False)}", FailureKind.AMBIGUOUS),
        (said(True, True), FailureKind.NO_VERDICT),
        (said(True, True, False, False), FailureKind.OUT_OF_RANGE),
        (YES.replace('"index": 1', '"index": 0'), FailureKind.AMBIGUOUS),
        (said(True, True, "true"), FailureKind.NO_VERDICT),
        (YES.replace('"evidence": ""', '"evidence": {"met": false}', 1), FailureKind.NO_VERDICT),
        ('{"criteria": true}', FailureKind.NO_VERDICT),
        ("", FailureKind.EMPTY),
    ]
    for text, expected in cases:
        outcome = CRITERIA.parse_reply(
            Reply(text, finish_reason="stop"), ListwisePrompt([], ("x",), criteria=ROW)
        )
        assert (outcome.kind if isinstance(outcome, Failure) else outcome.values[0]) == expected


def test_a_quotation_that_is_no_text_is_none():
    """A verdict without words counts, and says nothing of the turn."""
    for evidence in ("null", "4", "true"):
        text = f'{{"constraints": [{{"index": 0, "evidence": {evidence}, "verdict": "met"}}]}}'
        prompt = ListwisePrompt([], ("x",), criteria=ROW[:1])
        outcome = CONSTRAINTS.parse_reply(Reply(text, finish_reason="stop"), prompt)
        assert isinstance(outcome, Grades)
        assert outcome.values == (1.0,)
        assert json.loads(outcome.notes[0])[0]["turn"] is None
