"""Judges in the manner of MT-bench (Skywork-Critic and EvalPlanner answer so, too): a winner in double brackets.

The words of the question are ours, for models that were trained on others, too.
"""

from functools import partial

from genrm_cli.judging.profiles.answer import parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.sampling import GREEDY
from genrm_cli.judging.profiles.scales import WINNERS
from genrm_cli.judging.profiles.tags import LABEL, read_label, read_only_mark
from genrm_cli.verdicts import Failure, Verdict

_CLOSING = """\
Compare the two responses in a few sentences. Then end your answer with your verdict, and write nothing after it: \
[[A]] if response A is better, [[B]] if response B is better, [[C]] if neither is. Give one verdict only."""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    del cut_off  # a label that is closed is complete
    return read_only_mark(answer, LABEL, partial(read_label, verdicts=WINNERS), "label [[A]], [[B]] or [[C]]")


PROFILE = Profile(
    name="mt-bench",
    version=1,
    about="chat models as MT-bench asks them, Skywork-Critic, EvalPlanner; [[A]] is 4, 2, ranking 2; [[B]] 2, 4, 5; "
    "[[C]] 3, 3, 3.5; two different ones are ambiguous",
    request_fields=GREEDY,
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
