"""Think-RM, a judge that thinks first: one number from -3 to 3 within `<answer>`, NEGATIVE if A is better.

The words of the question are ours.
"""

import re
from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.sampling import THINKING
from genrm_cli.judging.profiles.scales import (
    BETTER,
    MUCH_BETTER,
    MUCH_WORSE,
    SLIGHTLY_BETTER,
    SLIGHTLY_WORSE,
    WORSE,
)
from genrm_cli.judging.profiles.tags import ANSWER_TAG, read_last_mark
from genrm_cli.verdicts import Failure, FailureKind, Verdict

_VERDICTS = {-3: MUCH_BETTER, -2: BETTER, -1: SLIGHTLY_BETTER, 1: SLIGHTLY_WORSE, 2: WORSE, 3: MUCH_WORSE}
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
_CLOSING = """\
Think about the two responses first. Then end your answer with one number in this form, and write nothing after it: \
<answer>number</answer>. The number says which response is better, and by how much:
-3 = response A is much better, -2 = response A is better, -1 = response A is slightly better,
1 = response B is slightly better, 2 = response B is better, 3 = response B is much better."""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    del cut_off  # a tag that is closed is complete
    return read_last_mark(answer, ANSWER_TAG, _read_number, "<answer>number</answer>")


def _read_number(content: str) -> Verdict | Failure:
    text = content.strip()
    if not _INTEGER.fullmatch(text):
        return make_failure(FailureKind.NO_VERDICT, f"<answer> holds {excerpt(content)}, expected a whole number")
    if int(text) not in _VERDICTS:
        return make_failure(FailureKind.OUT_OF_RANGE, f"<answer> is {text}, expected -3 to -1 or 1 to 3")
    return _VERDICTS[int(text)]


PROFILE = Profile(
    name="think-rm",
    version=1,
    about="Think-RM; the last <answer>: -3 is 5, 1, ranking 1; -2 is 4, 2, 2; -1 is 3.5, 2.5, 3; mirrored for 1 to 3; "
    "0 is out of range",
    request_fields=THINKING,
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
