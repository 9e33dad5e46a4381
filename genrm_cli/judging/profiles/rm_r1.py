"""RM-R1, a judge that reasons first: a winner in double brackets within `<answer>`.

Its own prompt tells it to sort the task (chat or reasoning) and to write rubrics or a solution of its own first. Ours
asks for the same answer form in other words, with the evaluation plan of the other profiles.
"""

import re
from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.sampling import THINKING
from genrm_cli.judging.profiles.scales import WINNERS
from genrm_cli.judging.profiles.tags import ANSWER_TAG, read_label, read_only_mark
from genrm_cli.verdicts import Failure, FailureKind, Verdict

_LABEL = re.compile(r"\s*+\[\[([A-Z])\]\]\s*+")
_CLOSING = """\
Reason about the two responses first. Then end your answer with your verdict in this form, and write nothing after \
it: <answer>[[A]]</answer> if response A is better, <answer>[[B]]</answer> if response B is better."""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    del cut_off  # a tag that is closed is complete
    return read_only_mark(answer, ANSWER_TAG, read_winner, "<answer>[[A]]</answer> or <answer>[[B]]</answer>")


def read_winner(content: str) -> Verdict | Failure:
    """Read what stands within `<answer>`: `[[A]]`, `[[B]]`, or `[[C]]` for a tie."""
    label = _LABEL.fullmatch(content)
    if label is None:
        return make_failure(FailureKind.NO_VERDICT, f"<answer> holds {excerpt(content)}, expected [[A]] or [[B]]")
    return read_label(label[1], WINNERS)


PROFILE = Profile(
    name="rm-r1",
    version=1,
    about="RM-R1; <answer>[[A]]</answer> is 4, 2, ranking 2; [[B]] 2, 4, 5; [[C]] 3, 3, 3.5; two different ones are "
    "ambiguous",
    request_fields=THINKING,
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
