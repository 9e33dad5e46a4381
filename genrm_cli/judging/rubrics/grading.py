"""Rubric scores of one response: a judge gives each rubric of a set a score, with the words that it rests on."""

from collections.abc import Mapping
from functools import partial

from genrm_cli.judging.profiles.parsing.answer import excerpt, make_failure, parse_answer
from genrm_cli.judging.profiles.parsing.json_objects import Pairs
from genrm_cli.judging.profiles.profile import GradingProfile, Message
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.listwise import SESSION, object_of, render_graded, request_object
from genrm_cli.judging.rubrics.parse_grades import find_intruder, find_member, find_number, read_object
from genrm_cli.judging.rubrics.rubric import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades

FORM_VERSION = 1
"""Grows whenever the question or its reading change, for any set."""
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
    """Make the profile that asks for all scores of a set in one call, about one response.

    Its grades have one value a rubric, in the set's order, 0 to 1 with 1 the best, and quotations for notes.
    """
    return GradingProfile(
        name=f"rubric-{rubric_set.name}",
        # Both only grow, or the set's is made of its content.
        version=rubric_set.version + FORM_VERSION - 1,
        about=rubric_set.about,
        request_fields=request_object("grades", _properties(rubric_set)),
        render_messages=partial(_render_messages, rubric_set),
        parse_reply=partial(_parse_reply, rubric_set),
    )


def grades_of_empty(rubric_set: RubricSet) -> Grades:
    """Return the grades of a response without text, about which no judge is asked: 0 for each rubric.

    For rubrics that describe a flaw, too: to say nothing must not pay.
    """
    return Grades((0.0,) * len(rubric_set.rubrics))


def _properties(rubric_set: RubricSet) -> Mapping[str, object]:
    # The score comes last: whoever writes the reasons first decides after them.
    return {
        "scores": object_of(
            {
                rubric.component_name: object_of(
                    {"evidence": {"type": "string"}, "reasoning": {"type": "string"}, "score": _schema_of_score(rubric)}
                )
                for rubric in rubric_set.rubrics
            }
        )
    }


def _schema_of_score(rubric: Rubric) -> dict[str, object]:
    scores = [score for score, _ in rubric.score_map]
    if all(score.is_integer() for score in scores):
        return {"type": "integer", "enum": [int(score) for score in scores]}
    return {"type": "number", "enum": scores}


def _render_messages(rubric_set: RubricSet, prompt: ListwisePrompt) -> list[Message]:
    """Render a prompt of one response.

    Raises:
        ValueError: it has more.
    """
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
    return f"{score:.15g}"  # six digits, as `g` alone has it, could be another number


def _parse_reply(rubric_set: RubricSet, reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    del prompt  # one response, whatever it says
    return parse_answer(reply, partial(_read, rubric_set))


def _read(rubric_set: RubricSet, answer: str, cut_off: bool) -> Grades | Failure:
    del cut_off  # an object that is closed is complete
    names = _names(rubric_set)
    keys = ("scores", "score") if len(names) == 1 else ("scores",)
    return read_object(answer, keys, ("score", *names), partial(_read_scores, rubric_set))


def _names(rubric_set: RubricSet) -> list[str]:
    return [rubric.component_name for rubric in rubric_set.rubrics]


def _read_scores(rubric_set: RubricSet, pairs: Pairs) -> Grades | Failure:
    scores = _entries_of(rubric_set, pairs)
    if isinstance(scores, Failure):
        return scores
    if unknown := {name for name, _ in scores}.difference(_names(rubric_set)):
        return make_failure(FailureKind.NO_VERDICT, f"there is no rubric {excerpt(min(unknown))}")
    values, notes = [], []
    for rubric in rubric_set.rubrics:
        value = _read_value(rubric, scores)
        if isinstance(value, Failure):
            return value
        values.append(value)
        notes.append(_evidence_of(dict(scores)[rubric.component_name])[:MAX_NOTE_CHARS])
    return Grades(tuple(values), tuple(notes))


def _entries_of(rubric_set: RubricSet, pairs: Pairs) -> Pairs | Failure:
    """Return what is said of each rubric; an object that has a score itself speaks of the only rubric."""
    names = _names(rubric_set)
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
        detail = f"{rubric.component_name} is {raw:g}, expected {_range(rubric)}"
        return make_failure(FailureKind.OUT_OF_RANGE, detail)
    return value


def _evidence_of(entry: object) -> str:
    evidence = find_member(entry, "evidence", str)
    return "" if isinstance(evidence, Failure) else evidence
