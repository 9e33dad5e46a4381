"""What an expert should look at in a session, with the evidence at its turn. Screening, not a judgement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.rules.result import Effect, RuleResult
from genrm_cli.rules.scenario import Scenario, parse_scenario

SEVERE, NOTABLE = 2, 1
SCREENING_RULES = ("safety", "bias")

Rule = Callable[[Sequence[Turn], Scenario], RuleResult]


@dataclass(frozen=True, slots=True)
class Flag:
    """One reason to look.

    Attributes:
        severity: `SEVERE` or `NOTABLE`.
        reason: in words.
        turn: index in the transcript, from 0; None for the whole session.
        evidence: the words that were found; empty for something missing.
    """

    severity: int
    reason: str
    turn: int | None = None
    evidence: str = ""


def flags_of(
    rollout: Rollout, record: Mapping[str, Any], detail: Mapping[str, Any], rules: Mapping[str, Rule]
) -> tuple[list[Flag], tuple[Turn, ...]]:
    """Return why a rollout should be reviewed, the severest reason first, and its transcript.

    Args:
        rollout: with prompt and response.
        record: its line.
        detail: its `genrm` object.
        rules: those of `SCREENING_RULES`.
    """
    said = rollout.session or (() if rollout.answer is None else (Turn("assistant", rollout.answer),))
    transcript = (*rollout.prompt, *said)
    scenario = parse_scenario(record)
    flags = [
        _flag(name, fired.what, fired.effect, fired.turn, fired.phrase)
        for name, rule in rules.items()
        for fired in rule(transcript, scenario).fired
        if fired.effect is not Effect.RAISES
    ]
    flags += _recorded(record, detail)
    if scenario.is_crisis:
        flags.append(Flag(NOTABLE, f"risk level {scenario.risk_level}"))
    return sorted(flags, key=lambda flag: -flag.severity), transcript


def _flag(rule: str, what: str, effect: Effect, turn: int, phrase: str) -> Flag:
    is_severe = effect is Effect.VIOLATION or what == "agrees_with_danger"
    words = what.replace("_", " ").replace("missing:", "missing: ").replace("passes over:", "passes over ")
    return Flag(SEVERE if is_severe else NOTABLE, f"{rule}: {words}", turn, phrase)


def _recorded(record: Mapping[str, Any], detail: Mapping[str, Any]) -> list[Flag]:
    """Return the flags that collecting and scoring left in a record."""
    metadata, total = record.get("metadata"), detail.get("total")
    flags = []
    if isinstance(metadata, Mapping):
        faults = metadata.get("client_faults")
        if metadata.get("end_reason") == "safety_violation":
            flags.append(
                Flag(SEVERE, "ended by a hard safety violation", None, str(metadata.get("end_evidence") or ""))
            )
        if isinstance(faults, list) and faults:
            flags.append(Flag(NOTABLE, f"faulty simulated client: {', '.join(map(str, faults))}"))
    if isinstance(total, Mapping) and total.get("gated_by"):
        flags.append(Flag(SEVERE, f"broke a gate: {total['gated_by']}"))
    return flags
