r"""NVIDIA's BRRM, in two turns: the first names the relevant qualities, the second the better
response.

The second reply names it in `\boxed{}` within the fence that the 49B uses for a ranking of 1 to 6.
The same words have another meaning there, so a reply to one profile must never be parsed by the
other."""

from functools import partial

from genrm_cli.judging.profiles.answer import MEANINGS, Answer, out_of_range, parse_prose
from genrm_cli.judging.profiles.families.nemotron_boxed import FENCES, RANKING, read_boxes
from genrm_cli.judging.profiles.profile import THINKING, Profile
from genrm_cli.judging.profiles.prompt import NUMBERS, render_pairwise
from genrm_cli.verdicts import Verdict

_FIRST_TURN = """\
Do not decide yet. First name the two or three qualities that matter most for this request, and \
say why. Then, for each response, note what might be wrong with it in these qualities."""
_SECOND_TURN = """\
Now think again with these qualities in mind. Check each suspicion that you noted against what \
the response says, and drop those that do not hold. Then name the better response, in this form \
and with nothing after it:
[The Begin of Ranking Score]
\\boxed{1 or 2}
[The End of Ranking Score]"""


def _read(answer: Answer) -> Verdict:
    (winner,) = read_boxes(answer, RANKING, "Ranking Score", 1, (1, 2))
    if winner not in (1, 2):
        raise out_of_range("the ranking", winner, 1, 2)
    return MEANINGS["better" if winner == 1 else "worse"]


PROFILE = Profile(
    name="brrm",
    models=("*qwen3-nemotron-8b-brrm", "*qwen3-nemotron-14b-brrm"),
    version=3,
    about="NVIDIA Qwen3-Nemotron BRRM, in two turns (two calls); the better response is boxed: 1 "
    "is 4, 2, ranking 2; "
    "2 is 2, 4, 5",
    request_fields=THINKING,
    takes_reference=True,
    render_messages=partial(render_pairwise, names=NUMBERS, closing=_FIRST_TURN),
    parse_reply=partial(parse_prose, read=_read),
    render_second_turn=lambda said: [
        {"role": "assistant", "content": said},
        {"role": "user", "content": _SECOND_TURN},
    ],
    verdict_forms=(FENCES, r"\\boxed\s*\{\s*\+?0*[12](?:\.0*)?\s*\}"),
)
