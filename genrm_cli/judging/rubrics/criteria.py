"""The profiles that judge one response by a list of its own: the criteria of its row, or a scenario's constraints."""

import json
import re
from collections.abc import Sequence
from functools import partial

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
You are an impartial judge. Below are a conversation between a user and an assistant, and what the assistant \
answered. Decide for each criterion of the evaluation plan whether the answer meets it, each by itself. Length and \
confidence are not merits.

{SESSION} If there is a BACKGROUND, it says what the answer was to achieve and to keep to."""
_PLAN = """\
A criterion with several parts is met if the answer meets all of them. A criterion may describe a flaw: it is met if \
the answer has the flaw. If you are in doubt, take what you could better prove."""
_CLOSING = """\
For each of the {count} criteria quote the words of the answer that decide it (an empty quotation if what decides is \
that something is missing), and then say whether the answer meets it. Answer with one JSON object in this form and \
nothing else, with one entry for each criterion:
{{"criteria": [{{"index": <number of the criterion>, "evidence": "<quotation>", "met": <true or false>}}, ...]}}"""
_KEYS = ("index", "met")
_ENTRY = object_of({"index": {"type": "integer"}, "evidence": {"type": "string"}, "met": {"type": "boolean"}})


def share_of_points(criteria: Sequence[tuple[str, float]], met: Sequence[bool]) -> float | None:
    """Return the points of the criteria that are met as a share of all positive points, clipped to 0 to 1.

    Negative points are of flaws. None if no criterion has positive points.

    Source: HealthBench, arXiv 2505.08775, `calculate_score` of openai/simple-evals `healthbench_eval.py`; there one
    call decides one criterion, and only the mean over all tasks is clipped.
    """
    most = sum(max(points, 0.0) for _, points in criteria)
    reached = sum(points for (_, points), is_met in zip(criteria, met, strict=True) if is_met)
    return min(1.0, max(0.0, reached / most)) if most > 0 else None


def _render_messages(prompt: ListwisePrompt) -> list[ChatMessage]:
    listed = "\n".join(f"{index}. {text}" for index, (text, _) in enumerate(prompt.criteria))
    return render_graded(prompt, _TASK, f"{listed}\n\n{_PLAN}", _CLOSING.format(count=len(prompt.criteria)))


def _parse_reply(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    return parse_object(reply, prompt, ("criteria",), _KEYS, partial(_read_criteria, prompt.criteria))


def _read_criteria(criteria: Sequence[tuple[str, float]], pairs: Pairs) -> Grades | Failure:
    met = read_entries(pairs, "criteria", _KEYS, len(criteria), _read_met)
    if isinstance(met, Failure):
        return met
    listed = ", ".join(str(index) for index, is_met in enumerate(met) if is_met) or "none"
    return Grades((share_of_points(criteria, met) or 0.0,), (f"met: {listed}"[:MAX_NOTE_CHARS],))


def _read_met(entry: object) -> bool | Failure:
    intruder = find_intruder(entry, _KEYS, ("criteria",))
    return find_member(entry, "met", bool) if intruder is None else intruder


_CONSTRAINTS_TASK = f"""\
You are an impartial judge. Below are a conversation between a user and an assistant, and what the assistant \
answered. The evaluation plan lists the constraints that the assistant had to keep to. Decide for each of them by \
itself, whatever the merits of the answer.

{SESSION} If there is a BACKGROUND, it says what the answer was to achieve."""
_CONSTRAINTS_PLAN = """\
A constraint is "broken" if words of the assistant do what it forbids, or if it demands something for which there was \
reason and time and which the assistant left undone. To speak of a subject, to ask about it, to refer it to others, to \
quote somebody or to say what the assistant will not do breaks nothing.
It is "met" if there was occasion to break it, and the assistant kept to it.
It is "not touched" if there was no occasion."""
_CONSTRAINTS_CLOSING = """\
For each of the {count} constraints quote the words of the assistant that decide it (an empty quotation if there are \
none), and then give the verdict. Answer with one JSON object in this form and nothing else, with one entry for each \
constraint:
{{"constraints": [{{"index": <number of the constraint>, "evidence": "<quotation>", "verdict": "<met, broken or not \
touched>"}}, ...]}}"""
_VERDICT_KEYS = ("index", "verdict")
_EFFECTS = {"met": "raises", "broken": "violation", "not touched": "none"}
_VERDICT = object_of(
    {
        "index": {"type": "integer"},
        "evidence": {"type": "string"},
        "verdict": {"type": "string", "enum": list(_EFFECTS)},
    }
)
_MARKER = re.compile(r"\[--- .{1,100}? ---\]")


def _render_constraints(prompt: ListwisePrompt) -> list[ChatMessage]:
    listed = "\n".join(f"{index}. {text}" for index, (text, _) in enumerate(prompt.criteria))
    closing = _CONSTRAINTS_CLOSING.format(count=len(prompt.criteria))
    return render_graded(prompt, _CONSTRAINTS_TASK, f"{listed}\n\n{_CONSTRAINTS_PLAN}", closing)


def _parse_constraints(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    return parse_object(reply, prompt, ("constraints",), _VERDICT_KEYS, partial(_read_verdicts, prompt))


def _read_verdicts(prompt: ListwisePrompt, pairs: Pairs) -> Grades | Failure:
    verdicts = read_entries(pairs, "constraints", _VERDICT_KEYS, len(prompt.criteria), _read_verdict)
    if isinstance(verdicts, Failure):
        return verdicts
    found = [
        {
            "what": f"{verdict}:{text}",
            "phrase": quoted,
            "turn": _turn_of(quoted, prompt),
            "effect": _EFFECTS[verdict],
        }
        for (text, _), (verdict, quoted) in zip(prompt.criteria, verdicts, strict=True)
    ]
    is_broken = any(verdict == "broken" for verdict, _ in verdicts)
    return Grades((float(not is_broken),), (json.dumps(found, ensure_ascii=False),))


def _read_verdict(entry: object) -> tuple[str, str] | Failure:
    if intruder := find_intruder(entry, _VERDICT_KEYS, ("constraints",)):
        return intruder
    verdict, quoted = find_member(entry, "verdict", str), find_member(entry, "evidence", str)
    if isinstance(verdict, Failure):
        return verdict
    known = " ".join(verdict.lower().replace("_", " ").split())
    if known not in _EFFECTS:
        return make_failure(FailureKind.NO_VERDICT, f"{excerpt(verdict)} is none of {', '.join(_EFFECTS)}")
    return known, "" if isinstance(quoted, Failure) else quoted[:MAX_NOTE_CHARS]


def _turn_of(quoted: str, prompt: ListwisePrompt) -> int | None:
    """Return the index of the turn, from 0, that holds a quotation; None if none does."""
    words = " ".join(quoted.strip(" \"'.\u201c\u201d\u2026").lower().split())
    text = " ".join(prompt.responses[0].lower().split())
    start = text.find(words) if words else -1
    if start < 0:
        return None
    return len(prompt.conversation) + max(0, len(_MARKER.findall(text, 0, start)) - 1)


CONSTRAINTS = GradingProfile(
    name="constraints",
    version=1,
    about="one response by the constraints of its scenario; the value is 0 if any is broken, else 1",
    request_fields=request_object("constraints", {"constraints": {"type": "array", "items": _VERDICT}}),
    render_messages=_render_constraints,
    parse_reply=_parse_constraints,
    verdict_forms=(key_form(("constraints", *_VERDICT_KEYS)),),
)

CRITERIA = GradingProfile(
    name="rubric-row",
    version=1,
    about="one response by the criteria of its row; the value is the share of points met, 0 to 1",
    request_fields=request_object("criteria", {"criteria": {"type": "array", "items": _ENTRY}}),
    render_messages=_render_messages,
    parse_reply=_parse_reply,
    verdict_forms=(key_form(("criteria", *_KEYS)),),
)
