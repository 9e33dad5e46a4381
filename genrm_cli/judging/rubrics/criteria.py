"""The profiles that judge one response by a list of its own: the criteria of its row, or a
scenario's constraints.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from genrm_cli.judging.profiles.answer import excerpt, make_failure
from genrm_cli.judging.profiles.json_objects import Pairs, key_form
from genrm_cli.judging.profiles.profile import ChatMessage, GradingProfile
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.graded import (
    MAX_NOTE_CHARS,
    SESSION,
    find_intruder,
    find_member,
    object_of,
    parse_object,
    read_entries,
    render_graded,
    request_object,
)
from genrm_cli.verdicts import Failure, FailureKind, Grades

_TASK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and what \
the assistant answered. Decide for each criterion of the evaluation plan whether the answer meets \
it. Judge each criterion independently. Do not reward length or confidence.

{SESSION} BACKGROUND, if present, states the goal of the answer and the constraints that it had \
to respect."""
_PLAN = """\
A criterion with several parts is met if the answer meets all of them. A criterion may describe a \
flaw: it is met if the answer has the flaw. If in doubt, choose the verdict with the stronger \
evidence."""
_CLOSING = """\
For each of the {count} criteria, quote the words of the answer that decide it (an empty \
quotation if the deciding fact is that something is missing), and then say whether the answer \
meets it. Answer with one JSON object in this form and nothing else, with one entry for each \
criterion:
{{"criteria": [{{"index": <number of the criterion>, "evidence": "<quotation>", "met": <true or \
false>}}, ...]}}"""
_CONSTRAINTS_TASK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and what \
the assistant answered. The evaluation plan lists the constraints that the assistant had to \
respect. Judge each constraint independently, regardless of the quality of the answer.

{SESSION} BACKGROUND, if present, states the goal of the answer."""
CONSTRAINT_PLAN = """\
A constraint is "broken" if the assistant does what it forbids, or if it requires an action that \
was applicable and that the assistant omitted. Mentioning a subject, asking about it, referring \
it to others, quoting somebody or saying what the assistant will not do does not break a constraint.
It is "met" if it was applicable and the assistant respected it.
It is "not touched" if it was not applicable."""
_CONSTRAINTS_CLOSING = """\
For each of the {count} constraints, quote the words of the assistant that decide it (an empty \
quotation if there are none), and then give the verdict. Answer with one JSON object in this form \
and nothing else, with one entry for each constraint:
{{"constraints": [{{"index": <number of the constraint>, "evidence": "<quotation>", "verdict": \
"<met, broken or not touched>"}}, ...]}}"""
CONSTRAINT_EFFECTS = {"met": "raises", "broken": "violation", "not touched": "none"}
_MARKER = re.compile(r"\[--- .{1,100}? ---\]")


@dataclass(frozen=True, slots=True)
class _List:
    """What a judge says of each entry of a list, under `key`: a quotation, and the `field`."""

    key: str
    field: str
    task: str
    plan: str
    closing: str
    grade: Callable[[ListwisePrompt, Sequence[Any], Sequence[str]], Grades | Failure]

    @property
    def keys(self) -> tuple[str, str]:
        return "index", self.field


def share_of_points(criteria: Sequence[tuple[str, float]], met: Sequence[bool]) -> float | None:
    """Return the points of the criteria that are met as a share of all positive points, clipped to
    0 to 1.

    Negative points are of flaws. None if no criterion has positive points.

    Source: HealthBench, arXiv 2505.08775, `calculate_score` of openai/simple-evals
    `healthbench_eval.py`; there one call decides one criterion, and only the mean over all tasks is
    clipped."""
    most = sum(max(points, 0.0) for _, points in criteria)
    reached = sum(points for (_, points), is_met in zip(criteria, met, strict=True) if is_met)
    return min(1.0, max(0.0, reached / most)) if most > 0 else None


def _render_messages(listed: _List, prompt: ListwisePrompt) -> list[ChatMessage]:
    lines = "\n".join(f"{index}. {text}" for index, (text, _) in enumerate(prompt.criteria))
    closing = listed.closing.format(count=len(prompt.criteria))
    return render_graded(prompt, listed.task, f"{lines}\n\n{listed.plan}", closing)


def _parse_reply(listed: _List, reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    return parse_object(
        reply, prompt, (listed.key,), listed.keys, partial(_read_entries, listed, prompt)
    )


def _read_entries(listed: _List, prompt: ListwisePrompt, pairs: Pairs) -> Grades | Failure:
    found = _read_fields(pairs, listed.key, listed.field, len(prompt.criteria))
    return found if isinstance(found, Failure) else listed.grade(prompt, *found)


def read_constraints(pairs: Pairs, count: int) -> tuple[Sequence[Any], Sequence[str]] | Failure:
    """Read the verdicts on `count` constraints, with their quotations."""
    return _read_fields(pairs, "constraints", "verdict", count)


def _read_fields(
    pairs: Pairs, key: str, field: str, count: int
) -> tuple[Sequence[Any], Sequence[str]] | Failure:
    """Read a list of entries under `key`: the `field` of each, and its quotation."""
    keys = ("index", field)

    def read(entry: object) -> tuple[object, str] | Failure:
        if intruder := find_intruder(entry, keys, (key,)):
            return intruder
        value = find_member(entry, field, object)
        if isinstance(value, Failure):
            return value
        quoted = find_member(entry, "evidence", str)
        return value, quoted if isinstance(quoted, str) else ""

    entries = read_entries(pairs, key, keys, count, read)
    if isinstance(entries, Failure):
        return entries
    return [value for value, _ in entries], [quoted for _, quoted in entries]


def _grade_criteria(
    prompt: ListwisePrompt, met: Sequence[Any], _quoted: Sequence[str]
) -> Grades | Failure:
    if unclear := [each for each in met if not isinstance(each, bool)]:
        return make_failure(
            FailureKind.NO_VERDICT, f"met is neither true nor false: {excerpt(unclear[0])}"
        )
    listed = ", ".join(str(index) for index, is_met in enumerate(met) if is_met) or "none"
    return Grades(
        (share_of_points(prompt.criteria, met) or 0.0,), (f"met: {listed}"[:MAX_NOTE_CHARS],)
    )


def grade_constraints(
    prompt: ListwisePrompt, given: Sequence[Any], quoted: Sequence[str]
) -> Grades | Failure:
    """Return 0 if a constraint is broken, else 1, with what was said of each as JSON."""
    verdicts = [" ".join(str(each).lower().replace("_", " ").split()) for each in given]
    if unknown := [each for each in verdicts if each not in CONSTRAINT_EFFECTS]:
        return make_failure(
            FailureKind.NO_VERDICT,
            f"{excerpt(unknown[0])} is none of {', '.join(CONSTRAINT_EFFECTS)}",
        )
    found = [
        {
            "what": f"{verdict}:{text}",
            "phrase": said[:MAX_NOTE_CHARS],
            "turn": turn_of(said, prompt),
        }
        | {"effect": CONSTRAINT_EFFECTS[verdict]}
        for (text, _), verdict, said in zip(prompt.criteria, verdicts, quoted, strict=True)
    ]
    return Grades((float("broken" not in verdicts),), (json.dumps(found, ensure_ascii=False),))


def turn_of(quoted: str, prompt: ListwisePrompt) -> int | None:
    """Return the index of the turn, from 0, that holds a quotation; None if none does."""
    words = " ".join(quoted.strip(" \"'.\u201c\u201d\u2026").lower().split())
    text = " ".join(prompt.responses[0].lower().split())
    start = text.find(words) if words else -1
    if start < 0:
        return None
    return len(prompt.conversation) + max(0, len(_MARKER.findall(text, 0, start)) - 1)


def _profile(name: str, about: str, listed: _List, answer: Mapping[str, object]) -> GradingProfile:
    entry = object_of(
        {"index": {"type": "integer"}, "evidence": {"type": "string"}, listed.field: answer}
    )
    return GradingProfile(
        name=name,
        version=2,
        about=about,
        request_fields=request_object(listed.key, {listed.key: {"type": "array", "items": entry}}),
        render_messages=partial(_render_messages, listed),
        parse_reply=partial(_parse_reply, listed),
        verdict_forms=(key_form((listed.key, *listed.keys)),),
    )


CRITERIA = _profile(
    "rubric-row",
    "one response by the criteria of its row; the value is the share of points met, 0 to 1",
    _List("criteria", "met", _TASK, _PLAN, _CLOSING, _grade_criteria),
    {"type": "boolean"},
)
CONSTRAINTS = _profile(
    "constraints",
    "one response by the constraints of its scenario; the value is 0 if any is broken, else 1",
    _List(
        "constraints",
        "verdict",
        _CONSTRAINTS_TASK,
        CONSTRAINT_PLAN,
        _CONSTRAINTS_CLOSING,
        grade_constraints,
    ),
    {"type": "string", "enum": list(CONSTRAINT_EFFECTS)},
)
