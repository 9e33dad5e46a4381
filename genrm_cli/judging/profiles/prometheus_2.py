"""Prometheus 2 in its pairwise mode: feedback, then `[RESULT] A` or `[RESULT] B` as the last words.

It was trained on one frame: task, instruction, both responses, a score rubric, then feedback and result. The order
and the answer's form are kept; the words and markers are ours, and the evaluation plan stands for the rubric.
"""

import re
from functools import partial
from types import MappingProxyType

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.scales import BETTER, WORSE
from genrm_cli.judging.profiles.tags import read_label
from genrm_cli.verdicts import Failure, FailureKind, Verdict

_MARK = "[RESULT]"
_WINNER = re.compile(r"[\s*\"'`(]*+(?:Response )?([A-Z])[\s*\"'`).]*+")
_VERDICTS = {"A": BETTER, "B": WORSE}
_CLOSING = """\
The evaluation plan is your score rubric. Write feedback that compares the two responses by it and nothing else, then \
the better response, in this form, with nothing after it:
Feedback: <your comparison> [RESULT] <A or B>"""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    _, mark, rest = answer.rpartition(_MARK)
    if not mark or cut_off:
        # An end that the token limit made is not the judge's: "A" may have become "A and B".
        return make_failure(FailureKind.NO_VERDICT, f"no {_MARK} at the end; ends with {excerpt(answer[-40:])}")
    winner = _WINNER.fullmatch(rest)
    if winner is None:
        return make_failure(FailureKind.NO_VERDICT, f"{_MARK} is followed by {excerpt(rest)}, expected A or B alone")
    return read_label(winner[1], _VERDICTS)


PROFILE = Profile(
    name="prometheus-2",
    version=1,
    about="Prometheus 2, pairwise; [RESULT] A at the end is 4, 2, ranking 2; B is 2, 4, 5",
    request_fields=MappingProxyType({"temperature": 0.0, "max_tokens": 4096}),
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
