"""The profiles that judge one response by a list of its own: the criteria of its row, or a
scenario's constraints.
"""

import json
from collections.abc import Sequence

from genrm_cli.judging.profiles.profile import ChatMessage
from genrm_cli.judging.requests import ListwisePrompt
from genrm_cli.judging.rubrics.graded import (
    MAX_NOTE_CHARS,
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
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import Grades

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
_MARKER = late_pattern(r"\[--- .{1,100}? ---\]")


CONSTRAINT = object_of(
    {"index": NUMBER, "evidence": TEXT, "verdict": {**TEXT, "enum": list(CONSTRAINT_EFFECTS)}}
)
"""Schema of what a judge says of a constraint."""


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


def _render_messages(
    prompt: ListwisePrompt, task: str, plan: str, closing: str
) -> list[ChatMessage]:
    lines = "\n".join(f"{index}. {text}" for index, (text, _) in enumerate(prompt.criteria))
    count = len(prompt.criteria)
    return render_graded(prompt, task, f"{lines}\n\n{plan}", closing.format(count=count))


def _grade_criteria(prompt: ListwisePrompt, given: Given) -> Grades:
    met = [entry["met"] for entry in in_order(given["criteria"], len(prompt.criteria))]
    listed = ", ".join(str(index) for index, is_met in enumerate(met) if is_met) or "none"
    note = f"met: {listed}"[:MAX_NOTE_CHARS]
    return Grades((share_of_points(prompt.criteria, met) or 0.0,), (note,))


def grade_constraints(prompt: ListwisePrompt, given: Given) -> Grades:
    """Return 0 if a constraint is broken, else 1, with what was said of each as JSON."""
    entries = in_order(given["constraints"], len(prompt.criteria))
    found = [
        {
            "what": f"{entry['verdict']}:{text}",
            "phrase": entry["evidence"],
            "turn": turn_of(entry["evidence"], prompt),
            "effect": CONSTRAINT_EFFECTS[entry["verdict"]],
        }
        for (text, _), entry in zip(prompt.criteria, entries, strict=True)
    ]
    is_broken = any(entry["verdict"] == "broken" for entry in entries)
    return Grades((float(not is_broken),), (json.dumps(found, ensure_ascii=False),))


def turn_of(quoted: str, prompt: ListwisePrompt) -> int | None:
    """Return the index of the turn, from 0, that holds a quotation; None if none does."""
    words = " ".join(quoted.strip(" \"'.\u201c\u201d\u2026").lower().split())
    text = " ".join(prompt.responses[0].lower().split())
    start = text.find(words) if words else -1
    if start < 0:
        return None
    return len(prompt.conversation) + max(0, len(_MARKER.findall(text, 0, start)) - 1)


CRITERIA = graded_profile(
    "rubric-row",
    4,
    "one response by the criteria of its row; the value is the share of points met, 0 to 1",
    "criteria",
    {
        "criteria": list_of(
            object_of({"index": NUMBER, "evidence": TEXT, "met": {"type": "boolean"}})
        )
    },
    lambda prompt: _render_messages(prompt, _TASK, _PLAN, _CLOSING),
    _grade_criteria,
)
CONSTRAINTS = graded_profile(
    "constraints",
    4,
    "one response by the constraints of its scenario; the value is 0 if any is broken, else 1",
    "constraints",
    {"constraints": list_of(CONSTRAINT)},
    lambda prompt: _render_messages(
        prompt, _CONSTRAINTS_TASK, CONSTRAINT_PLAN, _CONSTRAINTS_CLOSING
    ),
    grade_constraints,
)
