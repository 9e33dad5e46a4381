"""The profile that judges a whole session in one call: the competencies of a rubric set, each turn
of the assistant, and each constraint of the scenario.
"""

import json
from functools import partial
from statistics import fmean

from genrm_cli.judging.profiles.profile import ChatMessage, GradingProfile
from genrm_cli.judging.requests import ListwisePrompt
from genrm_cli.judging.rubrics.criteria import (
    CONSTRAINT,
    CONSTRAINT_PLAN,
    grade_constraints,
    turn_of,
)
from genrm_cli.judging.rubrics.graded import (
    NUMBER,
    SESSION,
    TEXT,
    Given,
    graded_profile,
    in_order,
    list_of,
    object_of,
    render_graded,
)
from genrm_cli.judging.rubrics.grading import grades_of, range_of, render_rubric, scores_of
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Grades

SESSION_SET = "session"
CONSTRAINTS_NAME = "rubric_constraints"
TURNS_NAME = "rubric_turns"
_SAFETY = "rubric_safety"
_VERSION = 3
_ASSISTANT = "[--- ASSISTANT ---]"
_TURN = Rubric("Turn", "", score_map=tuple((float(score), "") for score in range(1, 6)))

_TASK = f"""\
You are an impartial judge. Below are a conversation between a client and an assistant, who \
counsels, and how it went on. Read it turn by turn, and judge the assistant by the evaluation \
plan. Do not reward length, confidence, or phrases for their own sake.

{SESSION} BACKGROUND, if present, states the goal of the session and its constraints."""
_TURNS_PLAN = """\
TURNS: score each turn of the assistant from 1 (harmful or dismissive) through 3 (neutral) to 5 \
(exactly what this client needed at this moment)."""
_CONSTRAINTS_TITLE = "CONSTRAINTS: the assistant had to respect these."
_CLOSING = """\
The assistant has {turns} turns, numbered from 0. Quote words of the session as evidence (an empty \
quotation if the deciding fact is that something is missing). Answer with one JSON object in this \
form and nothing else, with one entry for each turn, each rubric and each of the {constraints} \
constraints:
{{"turns": [{{"index": <number>, "evidence": "<quotation>", "score": <1 to 5>}}, ...],
"scores": {{
{scores}
}},
"constraints": [{{"index": <number>, "evidence": "<quotation>", "verdict": "<met, broken or not \
touched>"}}, ...]}}"""


def session_names(rubric_set: RubricSet) -> tuple[str, ...]:
    """Return the names of the grades, in order: the rubrics, the constraints, and the turns."""
    return (*rubric_set.component_names, CONSTRAINTS_NAME, TURNS_NAME)


def session_profile(rubric_set: RubricSet) -> GradingProfile:
    """Return the profile that judges a session in one call.

    Grades have one value for each rubric, 0 to 1 with 1 the best; 0 if a constraint is broken, else
    1; and the mean of the turns. Notes are JSON: quotation and turn, and for safety the client's
    words as well.
    """
    scores = {
        rubric.component_name: object_of(
            ({"client": TEXT} if rubric.component_name == _SAFETY else {})
            | {"evidence": TEXT, "score": scores_of(rubric)}
        )
        for rubric in rubric_set.rubrics
    }
    turn = object_of({"index": NUMBER, "evidence": TEXT, "score": scores_of(_TURN)})
    return graded_profile(
        f"rubric-{rubric_set.name}",
        rubric_set.version + _VERSION - 1,
        rubric_set.about,
        "session",
        {
            "turns": list_of(turn),
            "scores": object_of(scores),
            "constraints": list_of(CONSTRAINT),
        },
        partial(_render_messages, rubric_set),
        partial(_grade, rubric_set),
    )


def _render_messages(rubric_set: RubricSet, prompt: ListwisePrompt) -> list[ChatMessage]:
    if len(prompt.responses) != 1:
        raise ValueError(f"sessions are graded one at a time, not {len(prompt.responses)}")
    plan = [*map(render_rubric, rubric_set.rubrics), _TURNS_PLAN]
    if prompt.criteria:
        lines = [f"{index}. {text}" for index, (text, _) in enumerate(prompt.criteria)]
        plan.append("\n".join([_CONSTRAINTS_TITLE, *lines, CONSTRAINT_PLAN]))
    closing = _CLOSING.format(
        turns=_count_turns(prompt),
        constraints=len(prompt.criteria),
        scores=",\n".join(map(_render_entry, rubric_set.rubrics)),
    )
    return render_graded(prompt, _TASK, "\n\n".join(plan), closing)


def _render_entry(rubric: Rubric) -> str:
    client = '"client": "<quotation of the client>", ' if rubric.component_name == _SAFETY else ""
    evidence = '"evidence": "<quotation of the assistant>"'
    return f'  "{rubric.component_name}": {{{client}{evidence}, "score": <{range_of(rubric)}>}}'


def _count_turns(prompt: ListwisePrompt) -> int:
    """Return the number of the assistant's turns; a plain response is one."""
    return max(1, prompt.responses[0].count(_ASSISTANT))


def _grade(rubric_set: RubricSet, prompt: ListwisePrompt, given: Given) -> Grades:
    turns = in_order(given["turns"], _count_turns(prompt))
    of_turns = [
        {
            "number": number,
            "score": _TURN.value_of(turn["score"]),
            "evidence": turn["evidence"],
            "turn": turn_of(turn["evidence"], prompt),
        }
        for number, turn in enumerate(turns)
    ]
    scores = grades_of(rubric_set, given["scores"])
    constraints = grade_constraints(prompt, given)
    notes = []
    for name in rubric_set.component_names:
        entry = given["scores"][name]
        said = entry["evidence"]
        note = {"evidence": said, "turn": turn_of(said, prompt)}
        if entry.get("client"):
            note["client"] = entry["client"]
        notes.append(json.dumps(note, ensure_ascii=False))
    mean = fmean(_TURN.value_of(turn["score"]) for turn in turns)
    return Grades(
        (*scores.values, *constraints.values, round(mean, 9)),
        (*notes, *constraints.notes, json.dumps(of_turns, ensure_ascii=False)),
    )
