"""The findings of rules, each with the words that led to it."""

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """How much a finding says."""

    LOOK_HERE = "lowers"
    CERTAIN = "violation"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a rule.

    Attributes:
        phrase: the words found, in lower case; empty for a missing thing.
        turn: index in the transcript, from 0; system turns count.
        severity: 5 (danger to life) to 1.
    """

    what: str
    phrase: str
    turn: int
    effect: Effect
    severity: int = 1


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The value of a rule, 0 (worst) to 1, with its findings; None if the policy said nothing."""

    value: float | None
    findings: tuple[Finding, ...] = ()
