"""Judges in the manner of Arena-Hard: five labels, the last one counts. The words of the question are ours."""

from functools import partial

from genrm_cli.judging.profiles.answer import parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.sampling import GREEDY
from genrm_cli.judging.profiles.scales import BETTER, MUCH_BETTER, MUCH_WORSE, TIE, WORSE
from genrm_cli.judging.profiles.tags import LABEL, read_label, read_last_mark
from genrm_cli.verdicts import Failure, Verdict

_VERDICTS = {
    "A>>B": MUCH_BETTER,
    "A>B": BETTER,
    "A=B": TIE,
    "A<B": WORSE,
    "A<<B": MUCH_WORSE,
    "B>>A": MUCH_WORSE,
    "B>A": WORSE,
    "B=A": TIE,
    "B<A": BETTER,
    "B<<A": MUCH_BETTER,
}

_CLOSING = """\
Say first what speaks for and against each response. Then end your answer with exactly one of these labels, and \
write nothing after it:
[[A>>B]] if response A is much better,
[[A>B]] if response A is better,
[[A=B]] if neither is better,
[[B>A]] if response B is better,
[[B>>A]] if response B is much better."""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    del cut_off  # a label that is closed is complete
    return read_last_mark(answer, LABEL, partial(read_label, verdicts=_VERDICTS), "label [[...]]")


PROFILE = Profile(
    name="arena-hard",
    version=1,
    about="chat models as Arena-Hard asks them; the last label: [[A>>B]] is 5, 1, ranking 1; [[A>B]] 4, 2, 2; "
    "[[A=B]] 3, 3, 3.5; mirrored for B",
    request_fields=GREEDY,
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
