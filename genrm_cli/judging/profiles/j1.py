"""J1, a judge that thinks first: two scores in tags, or a winner within `<answer>`.

Asked for scores, which say more; a winner is understood as well. Of both the last counts, and the other must not
contradict it. The words are ours.
"""

import re
from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.rm_r1 import read_winner
from genrm_cli.judging.profiles.sampling import THINKING
from genrm_cli.judging.profiles.scales import verdict_of_scores
from genrm_cli.judging.profiles.tags import ANSWER_TAG, parse_decimal, read_only_mark
from genrm_cli.verdicts import Failure, FailureKind, Verdict

_LOW, _HIGH = 0.0, 10.0
_PAIR = re.compile(r"<score_A>([^<]{0,40})</score_A>[^<]{0,80}<score_B>([^<]{0,40})</score_B>")
# A score without its companion is a match with nothing in it: no verdict.
_SCORES = re.compile(rf"({_PAIR.pattern})|<score_[AB]>")
_FORM = "<score_A>, <score_B> or <answer>"
_CLOSING = """\
Think about the two responses first. Then give each of them a score from 0 (useless) to 10 (could not be better), \
different ones if one response is better, and end your answer with them in this form, with nothing after it:
<score_A>score of response A</score_A>
<score_B>score of response B</score_B>"""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    del cut_off  # a tag that is closed is complete
    scores, winners = list(_SCORES.finditer(answer)), list(ANSWER_TAG.finditer(answer))
    scored = read_only_mark(answer, _SCORES, _read_scores, _FORM)
    won = read_only_mark(answer, ANSWER_TAG, read_winner, _FORM)
    if not scores or not winners:
        return won if winners else scored
    # Who quotes the scores of a candidate and then names a winner has given no scores: the last word counts.
    last, other = (scored, won) if scores[-1].start() > winners[-1].start() else (won, scored)
    if isinstance(last, Verdict) and isinstance(other, Verdict) and _sign(last) != _sign(other):
        return make_failure(FailureKind.AMBIGUOUS, "the scores and the winner contradict each other")
    return last


def _read_scores(content: str) -> Verdict | Failure:
    pair = _PAIR.fullmatch(content)
    if pair is None:
        return make_failure(FailureKind.NO_VERDICT, "a score without the other")
    first, second = parse_decimal(pair[1]), parse_decimal(pair[2])
    if first is None or second is None:
        return make_failure(FailureKind.NO_VERDICT, f"not two numbers: {excerpt(pair[1])} and {excerpt(pair[2])}")
    return verdict_of_scores(first, second, _LOW, _HIGH)


def _sign(verdict: Verdict) -> int:
    return (verdict.score_1 > verdict.score_2) - (verdict.score_1 < verdict.score_2)


PROFILE = Profile(
    name="j1",
    version=2,
    about="J1; <score_A>, <score_B> from 0 to 10 map linearly to 1 to 5, their distance to the ranking; or a winner as "
    "with rm-r1; the last of them",
    request_fields=THINKING,
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
