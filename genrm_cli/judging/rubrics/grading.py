"""Profiles that grade by rubrics: one response by each rubric, or all responses of a group in one
call.

The responses of a group are sorted into tiers, best first, or into clusters by their tactic.
"""

from collections.abc import Sequence
from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_decimal
from genrm_cli.judging.profiles.json_objects import Pairs, key_form
from genrm_cli.judging.profiles.profile import ChatMessage, GradingProfile
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.graded import (
    MAX_NOTE_CHARS,
    SESSION,
    find_intruder,
    find_member,
    find_miscount,
    find_number,
    object_of,
    parse_object,
    read_entries,
    render_graded,
    request_object,
)
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades

FORM_VERSION = 4
"""Increased whenever the prompt or its parsing changes, for any set."""
MAX_LABEL_CHARS = 300  # the prompt asks for a few words

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
    text = {"type": "string"}
    # The score comes last, so that it follows from the reasons.
    entries = {
        rubric.component_name: object_of(
            {"evidence": text, "reasoning": text, "score": scores_of(rubric)}
        )
        for rubric in rubric_set.rubrics
    }
    return GradingProfile(
        name=f"rubric-{rubric_set.name}",
        # Both only increase, or the version of the set is a digest of its content.
        version=rubric_set.version + FORM_VERSION - 1,
        about=rubric_set.about,
        request_fields=request_object("grades", {"scores": object_of(entries)}),
        render_messages=partial(_render_messages, rubric_set),
        parse_reply=partial(_parse_reply, rubric_set),
        verdict_forms=(key_form(("scores", "score", *rubric_set.component_names)),),
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
        f'{{"evidence": "<quotation>", "reasoning": "<why>", "score": <{_range(rubric)}>}}'
        for rubric in rubric_set.rubrics
    )
    return render_graded(prompt, _TASK, plan, f'{_CLOSING}{{"scores": {{\n{entries}\n}}}}')


def render_rubric(rubric: Rubric) -> str:
    """Render a rubric with the meanings of its scores."""
    scores = (
        f"  {_write(score)} = {meaning}".removesuffix(" = ") for score, meaning in rubric.score_map
    )
    flaw = (
        [] if rubric.positive else ["This is a flaw: a high score means that there is more of it."]
    )
    return "\n".join(
        [f"{rubric.component_name}: {rubric.title}", rubric.description, *flaw, *scores]
    )


def _range(rubric: Rubric) -> str:
    return " or ".join(_write(score) for score, _ in rubric.score_map)


def _write(score: float) -> str:
    return f"{score:.15g}"  # plain `g` rounds to six digits


def _parse_reply(rubric_set: RubricSet, reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    names = rubric_set.component_names
    keys = ("scores", "score") if len(names) == 1 else ("scores",)
    return parse_object(reply, prompt, keys, ("score", *names), partial(read_scores, rubric_set))


def read_scores(rubric_set: RubricSet, pairs: Pairs) -> Grades | Failure:
    """Read the score of each rubric, with its quotation."""
    scores = _entries_of(rubric_set, pairs)
    if isinstance(scores, Failure):
        return scores
    if unknown := {name for name, _ in scores}.difference(rubric_set.component_names):
        return make_failure(FailureKind.NO_VERDICT, f"there is no rubric {excerpt(min(unknown))}")
    values = []
    notes = []
    for rubric in rubric_set.rubrics:
        value = _read_value(rubric, scores)
        if isinstance(value, Failure):
            return value
        values.append(value)
        evidence = find_member(dict(scores)[rubric.component_name], "evidence", str)
        notes.append("" if isinstance(evidence, Failure) else evidence[:MAX_NOTE_CHARS])
    return Grades(tuple(values), tuple(notes))


def _entries_of(rubric_set: RubricSet, pairs: Pairs) -> Pairs | Failure:
    """Return the entry of each rubric. An object with its own score is the entry of the only
    rubric.
    """
    names = rubric_set.component_names
    if len(names) == 1 and any(key == "score" for key, _ in pairs):
        return ((names[0], pairs),)
    if intruder := find_intruder(pairs, ("scores",), ("score", *names)):
        return intruder
    return find_member(pairs, "scores", tuple)


def _read_value(rubric: Rubric, scores: Pairs) -> float | Failure:
    entry = find_member(scores, rubric.component_name, object)
    if isinstance(entry, Failure):
        return entry
    if intruder := find_intruder(entry, ("score",), ("scores",)):
        return intruder
    raw = (
        find_number(entry, "score")
        if isinstance(entry, tuple)
        else find_number(scores, rubric.component_name)
    )
    if isinstance(raw, Failure):
        return make_failure(raw.kind, f"{rubric.component_name}: {raw.detail}")
    value = rubric.value_of(raw)
    if value is None:
        return make_failure(
            FailureKind.OUT_OF_RANGE,
            f"{rubric.component_name} is {raw:g}, expected {_range(rubric)}",
        )
    return value


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
_TIERS = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}


def ranking_profile(rubric_set: RubricSet) -> GradingProfile:
    """Return the profile that ranks the responses of a group by all rubrics of a set together.

    Prompts hold the non-empty responses, shuffled by the caller. Grades have one value per
    response, in the order shown, 0 to 1 with 1 the best; the mean is 0.5."""
    return GradingProfile(
        name=f"rubric-rank-{rubric_set.name}",
        version=rubric_set.version + FORM_VERSION - 1,
        about=f"all responses of a group ranked in one call; {rubric_set.about}",
        request_fields=request_object(
            "ranking", {"reasoning": {"type": "string"}, "tiers": _TIERS}
        ),
        render_messages=partial(_render_ranking, rubric_set),
        parse_reply=lambda reply, prompt: parse_object(
            reply, prompt, ("tiers",), (), partial(_read_tiers, len(prompt.responses))
        ),
        verdict_forms=(key_form(("tiers",)),),
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


def _read_tiers(count: int, pairs: Pairs) -> Grades | Failure:
    if intruder := find_intruder(pairs, ("tiers",), ()):
        return intruder
    tiers = find_member(pairs, "tiers", list)
    if isinstance(tiers, Failure):
        return tiers
    read: list[list[float]] = []
    for tier in tiers:
        given = tier if isinstance(tier, list) else [None]
        numbers = [parse_decimal(index) if isinstance(index, str) else index for index in given]
        read.append([number for number in numbers if isinstance(number, float)])
        if len(read[-1]) < len(numbers):
            return make_failure(
                FailureKind.NO_VERDICT, f"a tier is not a list of numbers: {excerpt(tier)}"
            )
    if miscount := find_miscount([index for tier in read for index in tier], count):
        return miscount
    return Grades(values_of_tiers([[int(index) for index in tier] for tier in read]))


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
_ASSIGNMENTS = {
    "type": "array",
    "items": object_of(
        {
            "index": {"type": "integer"},
            "cluster_id": {"type": "integer"},
            "label": {"type": "string"},
        }
    ),
}

_KEYS = ("index", "cluster_id")
_Cluster = tuple[float | str, str]


def _read_assignments(count: int, pairs: Pairs) -> Grades | Failure:
    clusters = read_entries(pairs, "assignments", _KEYS, count, _read_cluster)
    if isinstance(clusters, Failure):
        return clusters
    numbers: dict[object, float] = {}  # by first appearance
    values = tuple(numbers.setdefault(name, float(len(numbers))) for name, _ in clusters)
    return Grades(values, tuple(label for _, label in clusters))


def _read_cluster(assignment: object) -> _Cluster | Failure:
    if intruder := find_intruder(assignment, _KEYS, ("assignments",)):
        return intruder
    found = find_member(assignment, "cluster_id", object)
    if isinstance(found, Failure):
        return found
    number = parse_decimal(found) if isinstance(found, str) else found
    name = found.strip() if isinstance(found, str) and number is None else number
    if (
        not isinstance(name, str | float) or name == "" or name != name
    ):  # NaN is not even equal to itself
        return make_failure(
            FailureKind.NO_VERDICT, f"cluster_id is neither a number nor a name: {excerpt(found)}"
        )
    label = find_member(assignment, "label", str)
    return name, "" if isinstance(label, Failure) else label[:MAX_LABEL_CHARS]


CLUSTERS = GradingProfile(
    name="clusters",
    version=3,
    about="all responses of a group sorted by their tactic in one call; values are the clusters' "
    "numbers from 0",
    request_fields=request_object("clusters", {"assignments": _ASSIGNMENTS}),
    render_messages=lambda prompt: render_graded(
        prompt, _SORT, _SORT_PLAN, _SORT_CLOSING.format(count=len(prompt.responses))
    ),
    parse_reply=lambda reply, prompt: parse_object(
        reply, prompt, ("assignments",), _KEYS, partial(_read_assignments, len(prompt.responses))
    ),
    verdict_forms=(key_form(("assignments", *_KEYS)),),
    whole_group=True,
)
