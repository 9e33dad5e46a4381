"""A list of responses, where the server takes a JSON schema: a score for each, without a ranking.

The schema of a request names the labels of its list, so that each reply scores all of them. No
schema makes a ranking agree with the scores: only scores are asked for."""

from collections.abc import Sequence

from genrm_cli.judging.profiles.families.listwise import ListForm, list_labels, parse_list
from genrm_cli.judging.profiles.json_objects import key_form
from genrm_cli.judging.profiles.profile import ChatMessage, Fields, GradingProfile
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt
from genrm_cli.judging.rubrics.graded import TEXT, object_of, request_object

_FORM = ListForm("scores", "best_to_worst", 1, 10)
_SCORE: Fields = {"type": "integer", "enum": list(range(1, 11))}
_CLOSING = """\
Analyse the responses by the evaluation plan in one or two sentences. Then give each a score from \
1 (very poor) to 10 (excellent). Answer with one JSON object in this form and nothing else:
{{"analysis": "<strengths and weaknesses>", "scores": {{{scores}}}}}"""


def _render_messages(prompt: ListwisePrompt) -> list[ChatMessage]:
    labels = list_labels(prompt)
    scores = ", ".join(f'"{label}": <1 to 10>' for label in labels)
    return render_listwise(prompt, labels, _CLOSING.format(scores=scores))


def _fields_with(labels: Sequence[str]) -> Fields:
    scores = object_of(dict.fromkeys(labels, _SCORE))
    return request_object("list_scores", {"analysis": TEXT, "scores": scores})


PROFILE = GradingProfile(
    name="listwise-json",
    version=1,
    about="listwise for servers that support response_format json_schema; scores 1 to 10 map "
    "linearly to 1 to 5",
    request_fields=_fields_with([]),
    takes_reference=True,
    render_messages=_render_messages,
    parse_reply=lambda reply, prompt: parse_list(reply, prompt, _FORM, list_labels(prompt)),
    response_format_of=lambda prompt: _fields_with(list_labels(prompt))["response_format"],
    verdict_forms=(key_form((_FORM.scores, _FORM.ranking)),),
    whole_group=True,
)
