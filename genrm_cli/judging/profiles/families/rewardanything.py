"""RewardAnything: one call scores and orders all responses of a group."""

from genrm_cli.judging.profiles.families.listwise import ListForm, parse_list, render_form
from genrm_cli.judging.profiles.json_objects import key_form
from genrm_cli.judging.profiles.profile import THINKING, ChatMessage, GradingProfile
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt
from genrm_cli.verdicts import MAX_SCORE, MIN_SCORE

_FORM = ListForm("scores", "best-to-worst", MIN_SCORE, MAX_SCORE)
_CLOSING = """\
Judge how well each response follows the evaluation plan, and only that. Score each from 1 (very \
poor) to 5 (excellent), and order them from best to worst. Answer with one JSON object in this \
form, with every response in both of its parts, and nothing after it:
"""


def _names(prompt: ListwisePrompt) -> list[str]:
    return [f"model-{number}" for number in range(1, len(prompt.responses) + 1)]


def _render_messages(prompt: ListwisePrompt) -> list[ChatMessage]:
    names = _names(prompt)  # all of them: small judges copy the form literally
    form = render_form(_FORM, names, "<{} or another>")
    return render_listwise(prompt, names, _CLOSING + form)


PROFILE = GradingProfile(
    name="rewardanything",
    models=("rewardanything*",),
    version=5,
    about="RewardAnything, all responses of a group in one call; scores 1 to 5, unchanged",
    request_fields=THINKING,
    takes_reference=True,
    render_messages=_render_messages,
    parse_reply=lambda reply, prompt: parse_list(reply, prompt, _FORM, _names(prompt)),
    verdict_forms=(key_form((_FORM.scores, _FORM.ranking, r"model-\d+")),),
    whole_group=True,
)
