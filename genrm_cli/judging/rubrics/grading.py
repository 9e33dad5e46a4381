"""Rubric scores: a judge scores one response by each rubric of a set, and quotes its evidence."""

from functools import partial

from genrm_cli.judging.profiles.answer import excerpt, make_failure
from genrm_cli.judging.profiles.json_objects import Pairs
from genrm_cli.judging.profiles.profile import ChatMessage, Fields, GradingProfile
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.graded import (
    SESSION,
    find_intruder,
    find_member,
    find_number,
    object_of,
    parse_object,
    render_graded,
    request_object,
)
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades

FORM_VERSION = 2
"""Increased whenever the prompt or its parsing changes, for any set."""
MAX_NOTE_CHARS = 300

_TASK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and what the assistant \
answered. Grade the answer by the rubrics of the evaluation plan, each by itself: a merit in one makes up for nothing \
in another. Length and confidence are not merits.

{SESSION} If there is a BACKGROUND, it says what the answer was to achieve and to keep to."""
_PLAN = "Give each rubric exactly one of its scores. If two fit, take the one that you could better prove."
_CLOSING = """\
For each rubric quote the words of the answer that decide it, in one or two sentences (an empty quotation if what \
decides is that something is missing), give your reasons in brief, and then the score. Answer with one JSON object \
in this form and nothing else:
"""


def grading_profile(rubric_set: RubricSet) -> GradingProfile:
    """Return the profile that scores one response by all rubrics of a set in one call.

    Grades have one value per rubric, in the set's order, 0 to 1 with 1 the best, and quotations as notes.
    """
    return GradingProfile(
        name=f"rubric-{rubric_set.name}",
        # Both only increase, or the version of the set is a digest of its content.
        version=rubric_set.version + FORM_VERSION - 1,
        about=rubric_set.about,
        request_fields=request_object("grades", _properties(rubric_set)),
        render_messages=partial(_render_messages, rubric_set),
        parse_reply=partial(_parse_reply, rubric_set),
    )


def grades_of_empty(rubric_set: RubricSet) -> Grades:
    """Return the grades of an empty response, which no judge sees: 0 even for flaws, so that silence does not pay."""
    return Grades((0.0,) * len(rubric_set.rubrics))


def _properties(rubric_set: RubricSet) -> Fields:
    # The score comes last, so that it follows from the reasons.
    text = {"type": "string"}
    entries = {
        rubric.component_name: object_of({"evidence": text, "reasoning": text, "score": _schema_of_score(rubric)})
        for rubric in rubric_set.rubrics
    }
    return {"scores": object_of(entries)}


def _schema_of_score(rubric: Rubric) -> dict[str, object]:
    scores = [score for score, _ in rubric.score_map]
    if all(score.is_integer() for score in scores):
        return {"type": "integer", "enum": [int(score) for score in scores]}
    return {"type": "number", "enum": scores}


def _render_messages(rubric_set: RubricSet, prompt: ListwisePrompt) -> list[ChatMessage]:
    if len(prompt.responses) != 1:
        raise ValueError(f"rubrics grade one response at a time, not {len(prompt.responses)}")
    plan = "\n\n".join([*map(_render_rubric, rubric_set.rubrics), _PLAN])
    entries = ",\n".join(
        f'  "{rubric.component_name}": {{"evidence": "<quotation>", "reasoning": "<why>", "score": <{_range(rubric)}>}}'
        for rubric in rubric_set.rubrics
    )
    return render_graded(prompt, _TASK, plan, f'{_CLOSING}{{"scores": {{\n{entries}\n}}}}')


def _render_rubric(rubric: Rubric) -> str:
    scores = (f"  {_write(score)} = {meaning}".removesuffix(" = ") for score, meaning in rubric.score_map)
    flaw = [] if rubric.positive else ["This is a flaw: a high score means that there is more of it."]
    return "\n".join([f"{rubric.component_name}: {rubric.title}", rubric.description, *flaw, *scores])


def _range(rubric: Rubric) -> str:
    return " or ".join(_write(score) for score, _ in rubric.score_map)


def _write(score: float) -> str:
    return f"{score:.15g}"  # plain `g` rounds to six digits


def _parse_reply(rubric_set: RubricSet, reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    names = rubric_set.component_names
    keys = ("scores", "score") if len(names) == 1 else ("scores",)
    return parse_object(reply, prompt, keys, ("score", *names), partial(_read_scores, rubric_set))


def _read_scores(rubric_set: RubricSet, pairs: Pairs) -> Grades | Failure:
    scores = _entries_of(rubric_set, pairs)
    if isinstance(scores, Failure):
        return scores
    if unknown := {name for name, _ in scores}.difference(rubric_set.component_names):
        return make_failure(FailureKind.NO_VERDICT, f"there is no rubric {excerpt(min(unknown))}")
    values, notes = [], []
    for rubric in rubric_set.rubrics:
        value = _read_value(rubric, scores)
        if isinstance(value, Failure):
            return value
        values.append(value)
        evidence = find_member(dict(scores)[rubric.component_name], "evidence", str)
        notes.append("" if isinstance(evidence, Failure) else evidence[:MAX_NOTE_CHARS])
    return Grades(tuple(values), tuple(notes))


def _entries_of(rubric_set: RubricSet, pairs: Pairs) -> Pairs | Failure:
    """Return the entry of each rubric. An object with its own score is the entry of the only rubric."""
    names = rubric_set.component_names
    if len(names) == 1 and any(key == "score" for key, _ in pairs):
        return ((names[0], pairs),)
    if intruder := find_intruder(pairs, ("scores",), ("score", *names)):
        return intruder
    return find_member(pairs, "scores", tuple)


def _read_value(rubric: Rubric, scores: Pairs) -> float | Failure:
    """Read the score of a rubric: a number, or an object with one."""
    entry = find_member(scores, rubric.component_name, object)
    if isinstance(entry, Failure):
        return entry
    if intruder := find_intruder(entry, ("score",), ("scores",)):
        return intruder
    raw = find_number(entry, "score") if isinstance(entry, tuple) else find_number(scores, rubric.component_name)
    if isinstance(raw, Failure):
        return make_failure(raw.kind, f"{rubric.component_name}: {raw.detail}")
    value = rubric.value_of(raw)
    if value is None:
        return make_failure(FailureKind.OUT_OF_RANGE, f"{rubric.component_name} is {raw:g}, expected {_range(rubric)}")
    return value
