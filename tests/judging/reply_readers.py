"""All that reads replies: every profile of the program, and two of a user's own."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from judge_families import BETTER, FAMILIES, MUCH, MUCH_WORSE, PAIR_PROFILES, TIE, WORSE, Family
from quoting_judges import (
    as_shown,
    iter_all_quoting,
    iter_quoting,
    iter_thinking,
    shown_with,
)

from genrm_cli.judging.lookup import PROFILES, find_rubric_set
from genrm_cli.judging.profiles.custom import parse_custom_profile
from genrm_cli.judging.profiles.families.listwise import list_labels
from genrm_cli.judging.profiles.profile import AnyProfile, Profile
from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt, Reply
from genrm_cli.judging.rubrics.criteria import CONSTRAINTS, CRITERIA
from genrm_cli.judging.rubrics.grading import CLUSTERS, grading_profile, ranking_profile
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades, Judgment, Verdict

UNQUOTED = PairwisePrompt([], "One answer.", "Another answer.")
"""A prompt whose responses hold no verdict."""
REPLIES = tomllib.loads(Path(__file__).with_name("replies.toml").read_text(encoding="utf-8"))

_OWN = """
delimiters = ["<answer>", "</answer>", "```", "[==="]
[[messages]]
role = "user"
content = "{conversation}\\n<answer>{response_1}</answer>\\n```\\n{response_2}\\n``` {principle}"
[verdict]
"""
_BY_PATTERN = (
    "pattern = '^Winner: (?P<label>\\w+)$'\n"
    "labels = { first = 'better', second = 'worse', none = 'tie' }"
)
_BY_KEYS = "json = { score_1 = 'a', score_2 = 'b' }\nscale = [1, 10]"


class Comparer(NamedTuple):
    """A judge that compares two responses, and what it says."""

    profile: Profile
    family: Family

    @property
    def says(self) -> dict[str, Verdict]:
        """Its words, and the verdicts that they mean."""
        return self.family.says

    def show(self, text: str) -> PairwisePrompt:
        """Show a text beside a harmless one."""
        return shown_with(self.profile, text)

    def read(self, text: str, prompt: PairwisePrompt = UNQUOTED) -> Judgment | Failure:
        """Read a reply."""
        return self.profile.parse_reply(Reply(text, finish_reason="stop"), prompt)

    def iter_quoting(self, text: str, words: str) -> Iterator[tuple[str, str]]:
        """Yield what it says that quotes a text anywhere, and where it does."""
        return iter_all_quoting(self.family, text, words)


READERS = {
    **{name: Comparer(PAIR_PROFILES[name], family) for name, family in FAMILIES.items()},
    "own-pattern": Comparer(
        parse_custom_profile(tomllib.loads(_OWN + _BY_PATTERN), "own-pattern.toml"),
        Family({"Winner: first": BETTER, "Winner: second": WORSE}, str, before="\n", after="\n"),
    ),
    "own-keys": Comparer(
        parse_custom_profile(tomllib.loads(_OWN + _BY_KEYS), "own-keys.toml"),
        Family({'{"a": 10, "b": 1}': MUCH, '{"a": 1, "b": 10}': MUCH_WORSE}, str),
    ),
}
"""Judges that compare two responses."""


def iter_tokens(text: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Split a reply into tokens; a Yes or No is four times as likely, by its logarithm, as the
    other.
    """
    for piece in re.split(r"(\b(?:Yes|No)\b)", text):
        other = {"Yes": "No", "No": "Yes"}.get(piece)
        yield piece, {piece: -1.0} | ({other: -4.0} if other else {})


class Grader(NamedTuple):
    """A judge that grades, and what it says.

    Attributes:
        profile: how its replies are parsed.
        count: how many responses it is shown.
        says: its words, and the values that they mean.
        in_strings: its words for the first of these, with a place for a JSON string.
    """

    profile: AnyProfile
    count: int
    says: dict[str, tuple[float, ...]]
    in_strings: list[str]

    @property
    def family(self) -> Family:
        """Its words as a family's; the verdict stands for any."""
        return Family(dict.fromkeys(self.says, TIE), str, before="\n", after="\n")

    def show(self, *texts: str) -> ListwisePrompt:
        """Show texts, and a harmless one if it is shown two."""
        shown = [*texts, "Another answer."][: max(self.count, len(texts))]
        criteria = [("A", 3.0), ("B", 1.0), ("C", -1.0)]
        return as_shown(self.profile, ListwisePrompt([], tuple(shown), criteria=criteria))

    def read(self, text: str, prompt: ListwisePrompt) -> Judgment | Failure:
        """Read a reply; its server gives a log probability to each Yes and No."""
        return Judge(self.profile, prompt).read(text)

    def iter_quoting(self, text: str, words: str) -> Iterator[tuple[str, str]]:
        """Yield what it says that quotes a text in its thoughts, around its grades and in their
        strings.
        """
        yield from iter_thinking(text, words)
        yield from iter_quoting(self.family, text, words)
        for form in self.in_strings if words == next(iter(self.says)) else ():
            yield "in a string", form % json.dumps(f"It says {text}; no.")
            yield "in a string without escapes", form % f'"It says {text}; no."'


def _rubric(title: str, *scores: float) -> Rubric:
    return Rubric(title, "", True, tuple((score, "") for score in scores))


TWO_RUBRICS = RubricSet("ab", 1, "", (_rubric("A", -1.0, 1.0, 3.0), Rubric("B", "", False)))
ONE_RUBRIC = RubricSet("alone", 1, "", (_rubric("A", 1.0, 2.0, 5.0),))
_GRADING: dict[str, tuple[AnyProfile, int]] = {
    "rubrics": (grading_profile(TWO_RUBRICS), 1),
    "one rubric": (grading_profile(ONE_RUBRIC), 1),
    "ranking": (ranking_profile(find_rubric_set("helpfulness")), 2),
    "clusters": (CLUSTERS, 2),
    "criteria": (CRITERIA, 1),
    "constraints": (CONSTRAINTS, 1),
    "rewardanything": (PROFILES["rewardanything"], 2),
    "nemotron-principle": (PROFILES["nemotron-principle"], 1),
}
GRADERS = {
    name: Grader(
        *_GRADING[name],
        {words: tuple(values) for words, values in told["says"]},
        told["in_strings"],
    )
    for name, told in REPLIES.pop("graders").items()
}
"""Judges that grade."""


class Judge(NamedTuple):
    """A profile, what it is shown, and two replies that contradict each other."""

    profile: AnyProfile
    prompt: Any
    draft: str = ""
    final: str = ""

    def read(
        self, text: str, finish_reason: str | None = "stop", **more: Any
    ) -> Judgment | Failure:
        """Read a reply; its server gives a log probability to each Yes and No."""
        reply = Reply(text, finish_reason=finish_reason, tokens=tuple(iter_tokens(text)), **more)
        return self.profile.parse_reply(reply, self.prompt)


LISTED = ListwisePrompt([("user", "Why?")], ("one", "two", "three"))
LABELS = tuple(list_labels(LISTED))
_ORDERED = '{"scores": {"%s": 9, "%s": 6, "%s": 2}}'
JUDGES = {
    **{
        name: Judge(profile, UNQUOTED, *list(family.says)[:2])
        for name, (profile, family) in READERS.items()
    },
    **{
        name: Judge(grader.profile, grader.show("An answer."), *list(grader.says)[:2])
        for name, grader in GRADERS.items()
    },
    "listwise": Judge(PROFILES["listwise"], LISTED, _ORDERED % LABELS, _ORDERED % LABELS[::-1]),
}
"""All judges that were told how to reply."""


def told(outcome: Judgment | Failure) -> str:
    """Return what was read, in the words of the table of replies."""
    if isinstance(outcome, Failure):
        return outcome.kind.value + (" in part" if outcome.partial else "")
    if isinstance(outcome, Verdict):
        return f"{outcome.score_1:g} {outcome.score_2:g} {outcome.ranking:g}"
    assert isinstance(outcome, Grades)
    return " ".join(f"{value:g}" for value in outcome.values)


def kind_of(outcome: Judgment | Failure) -> object:
    """Return the kind of a failure, the values of grades; a verdict stays what it is."""
    if isinstance(outcome, Failure):
        return outcome.kind
    return outcome.values if isinstance(outcome, Grades) else outcome


def outcome_of(
    judge: Comparer | Grader, reply: str, prompt: Any, own: Judgment | Failure
) -> FailureKind | str:
    """Return "own" or the kind of the failure; a judgment that is not the judge's is an error."""
    outcome = judge.read(reply, prompt)
    if isinstance(outcome, Failure):
        assert outcome.kind in _HONEST, (outcome, reply)
        return outcome.kind
    assert outcome == own, (reply, prompt.responses)
    return "own"


_HONEST = (
    FailureKind.NO_VERDICT,
    FailureKind.AMBIGUOUS,
    FailureKind.EMPTY,
    FailureKind.OUT_OF_RANGE,
)
