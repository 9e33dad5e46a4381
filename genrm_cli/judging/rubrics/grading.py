"""Profiles that grade by rubrics: one response by each rubric, or all responses of a group in one
call.

The responses of a group are sorted into tiers, best first, or into clusters by their tactic.
"""

from collections.abc import Sequence
from functools import partial

from genrm_cli.judging.profiles.profile import ChatMessage, GradingProfile
from genrm_cli.judging.requests import ListwisePrompt
from genrm_cli.judging.rubrics.graded import (
    NUMBER,
    SESSION,
    TEXT,
    Given,
    check_numbers,
    graded_profile,
    in_order,
    list_of,
    object_of,
    render_graded,
)
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Grades

FORM_VERSION = 6
"""Increased whenever the prompt or its parsing changes, for any set."""

_TASK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and what \
the assistant answered. Grade the answer by each rubric of the evaluation plan independently: a \
strength in one does not make up for a weakness in another. Do not reward length or confidence.

{SESSION} BACKGROUND, if present, states the goal of the answer and the constraints that it had \
to respect."""
_PLAN = (
    "Give each rubric exactly one of its scores. If two fit, choose the one with the stronger "
    "evidence."
)
_CLOSING = """\
For each rubric, quote the words of the answer that decide it, in one or two sentences (an empty \
quotation if the deciding fact is that something is missing), give your reasons briefly, and then \
the score. Answer with one JSON object in this form and nothing else:
"""


def grading_profile(rubric_set: RubricSet) -> GradingProfile:
    """Return the profile that scores one response by all rubrics of a set in one call.

    Grades have one value per rubric, in the set's order, 0 to 1 with 1 the best, and quotations as
    notes."""
    # The score comes last, so that it follows from the reasons.
    entries = {
        rubric.component_name: object_of(
            {"evidence": TEXT, "reasoning": TEXT, "score": scores_of(rubric)}
        )
        for rubric in rubric_set.rubrics
    }
    return graded_profile(
        f"rubric-{rubric_set.name}",
        # Both only increase, or the version of the set is a digest of its content.
        rubric_set.version + FORM_VERSION - 1,
        rubric_set.about,
        "grades",
        {"scores": object_of(entries)},
        partial(_render_messages, rubric_set),
        lambda _, given: grades_of(rubric_set, given["scores"]),
    )


def scores_of(rubric: Rubric) -> dict[str, object]:
    """Return the schema of a score of a rubric."""
    scores = [score for score, _ in rubric.score_map]
    if all(score.is_integer() for score in scores):
        return {"type": "integer", "enum": [int(score) for score in scores]}
    return {"type": "number", "enum": scores}


def _render_messages(rubric_set: RubricSet, prompt: ListwisePrompt) -> list[ChatMessage]:
    if len(prompt.responses) != 1:
        raise ValueError(f"rubrics grade one response at a time, not {len(prompt.responses)}")
    plan = "\n\n".join([*map(render_rubric, rubric_set.rubrics), _PLAN])
    entries = ",\n".join(
        f'  "{rubric.component_name}": '
        f'{{"evidence": "<quotation>", "reasoning": "<why>", "score": <{range_of(rubric)}>}}'
        for rubric in rubric_set.rubrics
    )
    return render_graded(prompt, _TASK, plan, f'{_CLOSING}{{"scores": {{\n{entries}\n}}}}')


def render_rubric(rubric: Rubric) -> str:
    """Render a rubric with the meanings of its scores."""
    scores = (
        f"  {score:.15g} = {meaning}".removesuffix(" = ") for score, meaning in rubric.score_map
    )
    flaw = (
        [] if rubric.positive else ["This is a flaw: a high score means that there is more of it."]
    )
    return "\n".join(
        [f"{rubric.component_name}: {rubric.title}", rubric.description, *flaw, *scores]
    )


def range_of(rubric: Rubric) -> str:
    """Render the scores of a rubric."""
    # Plain `g` rounds to six digits.
    return " or ".join(f"{score:.15g}" for score, _ in rubric.score_map)


def grades_of(rubric_set: RubricSet, scores: Given) -> Grades:
    """Return the value of each rubric, with its quotation."""
    entries = [scores[name] for name in rubric_set.component_names]
    values = [
        rubric.value_of(entry["score"])
        for rubric, entry in zip(rubric_set.rubrics, entries, strict=True)
    ]
    return Grades(tuple(values), tuple(entry["evidence"] for entry in entries))


# All responses of a group

_RANK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and several \
responses to it, numbered from 0. Rank the responses by the evaluation plan. Their numbers, their \
length and their confidence are not merits.

{SESSION} BACKGROUND, if present, states the goal of the responses and the constraints that they \
had to respect."""
_RANK_PLAN = "Weigh these together. Responses are equal if no difference between them matters."
_RANK_CLOSING = """\
Sort all {count} responses into tiers, the best first. Equal responses share a tier, and each \
number belongs to exactly one tier. Answer with one JSON object in this form and nothing else:
{{"reasoning": "<why, in brief>", "tiers": [[<numbers of the best>], [<numbers of the next>], \
...]}}"""


def ranking_profile(rubric_set: RubricSet) -> GradingProfile:
    """Return the profile that ranks the responses of a group by all rubrics of a set together.

    Prompts hold the non-empty responses, shuffled by the caller. Grades have one value per
    response, in the order shown, 0 to 1 with 1 the best; the mean is 0.5."""
    return graded_profile(
        f"rubric-rank-{rubric_set.name}",
        rubric_set.version + FORM_VERSION - 1,
        f"all responses of a group ranked in one call; {rubric_set.about}",
        "ranking",
        {"reasoning": TEXT, "tiers": list_of(list_of(NUMBER))},
        partial(_render_ranking, rubric_set),
        _grade_tiers,
        whole_group=True,
    )


def values_of_tiers(tiers: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Return the values of responses 0 to m - 1 from their tiers, best first; 1 for a sole
    response.

    Source: 1 - p / (m - 1), p the mean of the ranks (from 0) that the tier occupies.
    """
    count = sum(map(len, tiers))
    values = [1.0] * count
    before = 0
    for tier in tiers:
        for index in tier:
            values[index] = 1.0 - (before + (len(tier) - 1) / 2) / max(count - 1, 1)
        before += len(tier)
    return tuple(values)


def _render_ranking(rubric_set: RubricSet, prompt: ListwisePrompt) -> list[ChatMessage]:
    directions = {True: "more of it is better", False: "less of it is better"}
    rubrics = [
        f"{each.title} ({directions[each.positive]})\n{each.description}"
        for each in rubric_set.rubrics
    ]
    plan = "\n\n".join([*rubrics, _RANK_PLAN])
    return render_graded(prompt, _RANK, plan, _RANK_CLOSING.format(count=len(prompt.responses)))


def _grade_tiers(prompt: ListwisePrompt, given: Given) -> Grades:
    tiers = given["tiers"]
    check_numbers([number for tier in tiers for number in tier], len(prompt.responses))
    return Grades(values_of_tiers([[int(number) for number in tier] for tier in tiers]))


_SORT = f"""\
Below are a conversation between a user and an assistant, and several responses to it, numbered \
from 0. Sort the responses into clusters by the evaluation plan. Do not say which are better: \
only what they have in common counts.

{SESSION}"""
_SORT_PLAN = """\
1. Responses belong to one cluster if they follow the same underlying tactic: the same idea, \
method or way of dealing with the request. Wording, order, length, tone and details do not matter.
2. Two responses with the same wording but different tactics belong to different clusters. Two \
responses with different wording and the same tactic belong to one cluster.
3. All empty responses and all refusals share one cluster.
4. A response whose tactic no other response shares is a cluster of its own."""
_SORT_CLOSING = """\
Assign each of the {count} responses to exactly one cluster. Number the clusters from 0 and label \
each by its tactic in a few words. Answer with one JSON object in this form and nothing else, \
with one entry for each response:
{{"assignments": [{{"index": <number of the response>, "cluster_id": <number>, "label": \
"<tactic>"}}, ...]}}"""


def _render_clusters(prompt: ListwisePrompt) -> list[ChatMessage]:
    closing = _SORT_CLOSING.format(count=len(prompt.responses))
    return render_graded(prompt, _SORT, _SORT_PLAN, closing)


def _grade_clusters(prompt: ListwisePrompt, given: Given) -> Grades:
    clusters = in_order(given["assignments"], len(prompt.responses))
    numbers: dict[float, float] = {}  # by first appearance
    for cluster in clusters:
        numbers.setdefault(cluster["cluster_id"], float(len(numbers)))
    values = tuple(numbers[cluster["cluster_id"]] for cluster in clusters)
    return Grades(values, tuple(cluster["label"] for cluster in clusters))


CLUSTERS = graded_profile(
    "clusters",
    5,
    "all responses of a group sorted by their tactic in one call; values are the clusters' "
    "numbers from 0",
    "clusters",
    {"assignments": list_of(object_of({"index": NUMBER, "cluster_id": NUMBER, "label": TEXT}))},
    _render_clusters,
    _grade_clusters,
    whole_group=True,
)
