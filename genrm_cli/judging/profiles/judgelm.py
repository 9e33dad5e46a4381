"""JudgeLM: two scores from 1 to 10 in the first line, reasons after it.

It was trained on one frame: question, both answers, then the request for a first line with both scores. The order and
the answer's form are kept; the words and markers are ours. Its context is short, and so is the room for reasons.
"""

import re
from functools import partial
from types import MappingProxyType

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import NUMBERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.scales import verdict_of_scores
from genrm_cli.judging.profiles.tags import parse_decimal
from genrm_cli.verdicts import Failure, FailureKind, Verdict

_LOW, _HIGH = 1.0, 10.0
_OPENING = re.compile(r"\s*+[+-]?[0-9]")
_BETWEEN = re.compile(r"[ \t]*,[ \t]*|[ \t]+")
_CLOSING = """\
Score each response from 1 to 10, higher is better. Write one line with the score of response 1 and the score of \
response 2, two numbers with a space between them and nothing else. Give your reasons in the lines after it."""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    line, newline, _ = answer.lstrip().partition("\n")
    if cut_off and not newline:
        return make_failure(FailureKind.NO_VERDICT, f"the first line is not complete: {excerpt(line)}")
    numbers = [parse_decimal(part) for part in _BETWEEN.split(line.strip(), maxsplit=2)]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return make_failure(FailureKind.NO_VERDICT, f"the first line is {excerpt(line)}, expected two numbers")
    return verdict_of_scores(numbers[0], numbers[1], _LOW, _HIGH)


PROFILE = Profile(
    name="judgelm",
    version=2,
    about="JudgeLM; two scores from 1 to 10 in the first line map linearly to 1 to 5, their distance to the ranking",
    request_fields=MappingProxyType({"temperature": 0.0, "max_tokens": 1024}),
    render_messages=partial(render_comparison, names=NUMBERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read, opening=_OPENING),
    count_neutralised=count_neutralised,
)
