"""The same question in one plain user message, for endpoints that do not know a GenRM's own roles."""

from functools import partial

from genrm_cli.judging.profiles.nemotron import SAMPLING
from genrm_cli.judging.profiles.parse_json import parse_scores_json
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.profiles.prompt import NUMBERS, count_neutralised, render_comparison

SCALES = """\
Give each response a score for helpfulness from 1 to 5:
1 = not helpful at all, 2 = slightly helpful, 3 = partly helpful, 4 = mostly helpful, 5 = extremely helpful.

Then compare the two with one ranking from 1 to 6:
1 = response 1 is much better, 2 = response 1 is better, 3 = response 1 is slightly better,
4 = response 2 is slightly better, 5 = response 2 is better, 6 = response 2 is much better."""

JSON_FORM = """\
{
  "response_1_analysis": "<strengths and weaknesses of response 1>",
  "response_2_analysis": "<strengths and weaknesses of response 2>",
  "score_1": <1 to 5>,
  "score_2": <1 to 5>,
  "ranking": <1 to 6>
}"""

_CLOSING = (
    SCALES
    + "\n\nEnd your answer with one JSON object in this form, and write nothing after it:\n```json\n"
    + JSON_FORM
    + "\n```"
)


PROFILE = Profile(
    name="nemotron-plain",
    version=2,
    about="nemotron in one user message, for endpoints without its roles (SGLang, hosted chat models); scores 1 to 5 "
    "and ranking as they are",
    request_fields=SAMPLING,
    render_messages=partial(render_comparison, names=NUMBERS, closing=_CLOSING),
    parse_reply=parse_scores_json,
    count_neutralised=count_neutralised,
)
