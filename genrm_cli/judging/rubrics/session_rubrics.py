"""The profile that judges a whole session in one call: the competencies of a rubric set, each turn
of the assistant, and each constraint of the scenario.
"""

import json
from functools import partial

from genrm_cli.judging.profiles.answer import make_failure
from genrm_cli.judging.profiles.json_objects import Pairs, key_form
from genrm_cli.judging.profiles.profile import ChatMessage, GradingProfile
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.criteria import (
    CONSTRAINT_EFFECTS,
    CONSTRAINT_PLAN,
    grade_constraints,
    read_constraints,
    turn_of,
)
from genrm_cli.judging.rubrics.graded import (
    MAX_NOTE_CHARS,
    SESSION,
    find_intruder,
    find_member,
    find_number,
    object_of,
    parse_object,
    read_entries,
    render_graded,
    request_object,
)
from genrm_cli.judging.rubrics.grading import read_scores, render_rubric, scores_of
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades

SESSION_SET = "session"
CONSTRAINTS_NAME = "rubric_constraints"
TURNS_NAME = "rubric_turns"
_SAFETY = "rubric_safety"
_VERSION = 1
_ASSISTANT = "[--- ASSISTANT ---]"
_TURN = Rubric("Turn", "", score_map=tuple((float(score), "") for score in range(1, 6)))
_PARTS = ("turns", "scores", "constraints")

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
    text = {"type": "string"}
    number = {"type": "integer"}
    scores = {
        rubric.component_name: object_of(
            ({"client": text} if rubric.component_name == _SAFETY else {})
            | {"evidence": text, "score": scores_of(rubric)}
        )
        for rubric in rubric_set.rubrics
    }
    verdict = {"type": "string", "enum": list(CONSTRAINT_EFFECTS)}
    turn = object_of({"index": number, "evidence": text, "score": number})
    constraint = object_of({"index": number, "evidence": text, "verdict": verdict})
    fields = {
        "turns": {"type": "array", "items": turn},
        "scores": object_of(scores),
        "constraints": {"type": "array", "items": constraint},
    }
    names = rubric_set.component_names
    return GradingProfile(
        name=f"rubric-{rubric_set.name}",
        version=rubric_set.version + _VERSION - 1,
        about=rubric_set.about,
        request_fields=request_object("session", fields),
        render_messages=partial(_render_messages, rubric_set),
        parse_reply=partial(_parse_reply, rubric_set),
        verdict_forms=(key_form((*_PARTS, "score", "verdict", *names)),),
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
    scores = " or ".join(f"{score:g}" for score, _ in rubric.score_map)
    evidence = '"evidence": "<quotation of the assistant>"'
    return f'  "{rubric.component_name}": {{{client}{evidence}, "score": <{scores}>}}'


def _count_turns(prompt: ListwisePrompt) -> int:
    """Return the number of the assistant's turns; a plain response is one."""
    return max(1, prompt.responses[0].count(_ASSISTANT))


def _parse_reply(rubric_set: RubricSet, reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    inner = ("score", "verdict", *rubric_set.component_names)
    return parse_object(reply, prompt, _PARTS, inner, partial(_read_parts, rubric_set, prompt))


def _read_parts(rubric_set: RubricSet, prompt: ListwisePrompt, pairs: Pairs) -> Grades | Failure:
    if intruder := find_intruder(pairs, _PARTS, ()):
        return intruder
    turns = read_entries(
        _part(pairs, "turns"), "turns", ("score",), _count_turns(prompt), _read_turn
    )
    if isinstance(turns, Failure):
        return turns
    scores = read_scores(rubric_set, _part(pairs, "scores"))
    if isinstance(scores, Failure):
        return scores
    broken = _grade_constraints(prompt, pairs)
    if isinstance(broken, Failure):
        return broken
    entries = find_member(pairs, "scores", tuple)
    if isinstance(entries, Failure):
        return entries
    entry_of = dict(entries)
    notes = [
        _note(prompt, quoted, entry_of.get(name))
        for name, quoted in zip(rubric_set.component_names, scores.notes, strict=True)
    ]
    of_turns = [
        {"number": number, "score": value, "evidence": quoted, "turn": turn_of(quoted, prompt)}
        for number, (value, quoted) in enumerate(turns)
    ]
    mean = sum(value for value, _ in turns) / len(turns)
    values = (*scores.values, *broken.values, round(mean, 9))
    return Grades(values, (*notes, *broken.notes, json.dumps(of_turns, ensure_ascii=False)))


def _part(pairs: Pairs, name: str) -> Pairs:
    return tuple((key, value) for key, value in pairs if key == name)


def _read_turn(entry: object) -> tuple[float, str] | Failure:
    raw = find_number(entry, "score")
    if isinstance(raw, Failure):
        return raw
    value = _TURN.value_of(raw)
    if value is None:
        return make_failure(FailureKind.OUT_OF_RANGE, f"a turn is {raw:g}, expected 1 to 5")
    quoted = find_member(entry, "evidence", str)
    return value, "" if isinstance(quoted, Failure) else quoted[:MAX_NOTE_CHARS]


def _grade_constraints(prompt: ListwisePrompt, pairs: Pairs) -> Grades | Failure:
    if not prompt.criteria:
        return Grades((1.0,), ("[]",))
    found = read_constraints(_part(pairs, "constraints"), len(prompt.criteria))
    return found if isinstance(found, Failure) else grade_constraints(prompt, *found)


def _note(prompt: ListwisePrompt, quoted: str, entry: object) -> str:
    note: dict[str, object] = {"evidence": quoted, "turn": turn_of(quoted, prompt)}
    client = find_member(entry, "client", str)
    if isinstance(client, str):
        note["client"] = client[:MAX_NOTE_CHARS]
    return json.dumps(note, ensure_ascii=False)
