"""Clusters by a judge: every response in exactly one, numbered by first appearance, or a
failure.
"""

import json

from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.grading import CLUSTERS
from genrm_cli.verdicts import Failure, FailureKind


def read(text, count):
    """Read a reply on a lineup of so many responses: the values, or the kind of the failure."""
    outcome = CLUSTERS.parse_reply(
        Reply(text, finish_reason="stop"), ListwisePrompt([], ("x",) * count)
    )
    return outcome.kind if isinstance(outcome, Failure) else outcome.values


def assigned(*clusters):
    """Write the reply that assigns each response in turn."""
    return json.dumps(
        {
            "assignments": [
                {
                    "index": i,
                    "cluster_id": c,
                    "label": f"l{i}",
                }
                for i, c in enumerate(clusters)
            ]
        }
    )


def test_how_a_reply_is_read():
    """Every response in exactly one cluster, or a failure of the right kind."""
    cases = [
        (assigned(0, "0", 1), (0.0, 0.0, 1.0)),
        (assigned(7, 3, " 7 "), (0.0, 1.0, 0.0)),
        (assigned(0, 0, 1) + "\n" + assigned(3, 3, 4), (0.0, 0.0, 1.0)),
        (assigned(0, 0, 1) + "\n" + assigned(0, 1, 1), FailureKind.AMBIGUOUS),
        (assigned(0, 0), FailureKind.NO_VERDICT),
        (assigned(0, 0, 1, 1), FailureKind.OUT_OF_RANGE),
        (assigned(0, 0, 1).replace('"index": 2', '"index": 1'), FailureKind.AMBIGUOUS),
        (assigned(0, 0, 1).replace('"index": 2', '"index": 2, "index": 2'), FailureKind.AMBIGUOUS),
        (assigned(0, 0, 1).replace('"index": 2', '"index": "third"'), FailureKind.NO_VERDICT),
        (assigned(0, 0, 1).replace('"index": 2, ', ""), FailureKind.NO_VERDICT),
        (assigned(0, 0, None), FailureKind.NO_VERDICT),
        (assigned(0, 0, [1]), FailureKind.NO_VERDICT),
        ('{"assignments": [0, 0, 1]}', FailureKind.NO_VERDICT),
        (assigned(0, 0, 1)[:-1] + ', "rest": [{}]}', FailureKind.NO_VERDICT),
        (
            assigned(0, 0, 1) + ' {"note": ""}, {"index": 1, "cluster_id": 2}]}',
            FailureKind.AMBIGUOUS,
        ),
        ("", FailureKind.EMPTY),
    ]
    for text, expected in cases:
        assert read(text, 3) == expected
