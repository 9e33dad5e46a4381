"""OpenRubrics' RubricRM: criteria, an analysis by them, then the line `Winner: Response A` or `Winner: Response B`.

The words of the question are ours; the evaluation plan stands for the rubric.
"""

import re
from functools import partial

from genrm_cli.judging.profiles.answer import parse_prose
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import LETTERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.sampling import GREEDY
from genrm_cli.judging.profiles.scales import BETTER, WORSE
from genrm_cli.judging.profiles.tags import read_label, read_only_mark
from genrm_cli.verdicts import Failure, Verdict

# The whole line: "Winner: Response A or B?" is none. Markdown around its words is not part of it.
_WINNER = re.compile(r"^[ \t#>*_]*+Winner[*_]*+:[ \t*_]*+([^\n]*)$", re.MULTILINE)
_VERDICTS = {"ResponseA": BETTER, "ResponseB": WORSE}  # as `read_label` sees them, without spaces
_CLOSING = """\
The evaluation plan is your rubric: check both responses against each of its points, then weigh the points. End your \
answer with a line of its own that names the better response, in this form, and write nothing after it:
Winner: Response <A or B>"""


def _read(answer: str, cut_off: bool) -> Verdict | Failure:
    # The last line of an answer that was cut off may not be complete.
    complete = answer.rpartition("\n")[0] if cut_off else answer
    return read_only_mark(complete, _WINNER, _read_winner, "line `Winner: Response A` or `Winner: Response B`")


def _read_winner(line: str) -> Verdict | Failure:
    return read_label(line.strip(" \t\r*_."), _VERDICTS)


PROFILE = Profile(
    name="rubric-rm",
    version=1,
    about="OpenRubrics RubricRM; `Winner: Response A` is 4, 2, ranking 2; B is 2, 4, 5; two different: ambiguous",
    request_fields=GREEDY,
    render_messages=partial(render_comparison, names=LETTERS, closing=_CLOSING),
    parse_reply=partial(parse_prose, read=_read),
    count_neutralised=count_neutralised,
)
