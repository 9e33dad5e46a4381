"""Judges that grade, rank and cluster: what they quote from a response is never taken for their own
grades.

`GENRM_FUZZ_REPLIES=100000 pytest -m slow -n 0 -s tests/judging/test_quoting_graders.py` reads as
many replies."""

import json
import os
import random
import re
from collections import Counter
from typing import NamedTuple

import pytest
from hostile_texts import TEXTS
from hypothesis import given
from hypothesis import strategies as st
from judge_families import TIE, Family
from quoting_judges import as_shown, iter_quoting, iter_thinking, pick_reply
from reply_mutations import Mutator

from genrm_cli.judging.lookup import PROFILES, find_rubric_set
from genrm_cli.judging.profiles.profile import AnyProfile
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.criteria import CONSTRAINTS, CRITERIA
from genrm_cli.judging.rubrics.grading import CLUSTERS, grading_profile, ranking_profile
from genrm_cli.judging.rubrics.rubric_sets import Rubric, RubricSet
from genrm_cli.verdicts import Failure, FailureKind, Grades

HELPFULNESS = find_rubric_set("helpfulness")

REPLIES = int(os.environ.get("GENRM_FUZZ_REPLIES", "10000"))
PARTIAL = 0.2  # share of the quotations that begin late; as many end early
HONEST = {
    FailureKind.NO_VERDICT,
    FailureKind.AMBIGUOUS,
    FailureKind.EMPTY,
    FailureKind.OUT_OF_RANGE,
}


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
    in_strings: tuple[str, ...] = ()

    @property
    def family(self):
        """Its words as a family's; the verdict stands for any."""
        return Family(dict.fromkeys(self.says, TIE), str, before="\n", after="\n")

    def show(self, text):
        """Show a text, and a harmless one if there are several."""
        prompt = ListwisePrompt(
            [],
            (text, "Another answer.")[: self.count],
            criteria=[
                ("A", 3.0),
                ("B", 1.0),
                ("C", -1.0),
            ],
        )
        return as_shown(self.profile, prompt)

    def read(self, text, prompt):
        """Read a reply; its server gives a log probability to each Yes and No."""
        outcome = self.profile.parse_reply(
            Reply(text, finish_reason="stop", tokens=tuple(iter_tokens(text))), prompt
        )
        assert isinstance(outcome, Grades | Failure)
        return outcome


def iter_tokens(text):
    """Split a reply into tokens; a Yes or No is four times as likely, by its logarithm, as the
    other.
    """
    for piece in re.split(r"(\b(?:Yes|No)\b)", text):
        other = {"Yes": "No", "No": "Yes"}.get(piece)
        yield piece, {piece: -1.0} | ({other: -4.0} if other else {})


def two(a, b):
    """Write the grades of two rubrics."""
    return f'{{"scores": {{"rubric_a": {{"evidence": "So.", "score": {a}}}, "rubric_b": {{"score": {b}}}}}}}'  # noqa: E501


def alone(score):
    """Write the grade of a sole rubric."""
    entry = f'{{"evidence": "x", "reasoning": "So.", "score": {score}}}'
    return f'{{"scores": {{"rubric_a": {entry}}}}}'


def tiers(best):
    """Write a ranking of two."""
    return f'{{"reasoning": "So.", "tiers": [[{best}], [{1 - best}]]}}'


def assigned(second):
    """Write the clusters of two."""
    return (
        '{"assignments": [{"index": 0, "cluster_id": 0, "label": "x"}, '
        f'{{"index": 1, "cluster_id": {second}, "label": "y"}}]}}'
    )


def decided(*met):
    """Write which of three criteria are met."""
    entries = [
        f'{{"index": {index}, "evidence": "x{index}", "met": {str(each).lower()}}}'
        for index, each in enumerate(met)
    ]
    return f'{{"criteria": [{", ".join(entries)}]}}'


def kept(*verdicts):
    """Write what became of three constraints."""
    entries = [
        f'{{"index": {at}, "evidence": "x{at}", "verdict": "{each}"}}'
        for at, each in enumerate(verdicts)
    ]
    return f'{{"constraints": [{", ".join(entries)}]}}'


def scored(one, two, order):
    """Write the scores of two."""
    names = ", ".join(f'"model-{number}"' for number in order)
    return f'{{"scores": {{"model-1": {one}, "model-2": {two}}}, "best-to-worst": [{names}]}}'


AB = RubricSet(
    "ab",
    1,
    "",
    (
        Rubric(
            "A",
            "",
            True,
            (
                (-1.0, ""),
                (1.0, ""),
                (3.0, ""),
            ),
        ),
        Rubric("B", "", False),
    ),
)
ALONE = RubricSet(
    "alone",
    1,
    "",
    (
        Rubric(
            "A",
            "",
            True,
            (
                (1.0, ""),
                (2.0, ""),
                (5.0, ""),
            ),
        ),
    ),
)
GRADERS = {
    "rubrics": Grader(
        grading_profile(AB),
        1,
        {
            two(1, 0): (0.5, 1.0),
            two(3, 1): (1.0, 0.0),
            two(-1, 1): (0.0, 0.0),
        },
        (
            '{"scores": {"rubric_a": {"evidence": %s, "score": 1}, "rubric_b": {"score": 0}}}',
            '{"scores": {"rubric_a": {"score": 1}, "rubric_b": {"score": 0, "reasoning": %s}}}',
        ),
    ),
    "one rubric": Grader(
        grading_profile(ALONE),
        1,
        {alone(2): (0.25,), alone(5): (1.0,)},
        tuple(alone(2).replace(text, "%s") for text in ('"So."', '"x"')),
    ),
    "ranking": Grader(
        ranking_profile(HELPFULNESS),
        2,
        {
            tiers(0): (1.0, 0.0),
            tiers(1): (0.0, 1.0),
            '{"tiers": [[0, 1]]}': (0.5, 0.5),
        },
        ('{"reasoning": %s, "tiers": [[0], [1]]}', '{"tiers": [[0], [1]], "reasoning": %s}'),
    ),
    "clusters": Grader(
        CLUSTERS,
        2,
        {assigned(0): (0.0, 0.0), assigned(1): (0.0, 1.0)},
        tuple(assigned(0).replace(label, "%s") for label in ('"x"', '"y"')),
    ),
    "criteria": Grader(
        CRITERIA,
        1,
        {
            decided(True, True, False): (1.0,),
            decided(True, False, True): (0.5,),
            decided(False, False, True): (0.0,),
        },
        tuple(decided(True, True, False).replace(f'"x{index}"', "%s") for index in (0, 2)),
    ),
    "constraints": Grader(
        CONSTRAINTS,
        1,
        {kept("met", "not touched", "met"): (1.0,), kept("met", "broken", "not_touched"): (0.0,)},
        tuple(kept("met", "met", "met").replace(f'"x{index}"', "%s") for index in (0, 2)),
    ),
    "rewardanything": Grader(
        PROFILES["rewardanything"],
        2,
        {
            scored(5, 1, "12"): (5.0, 1.0),
            scored(1, 5, "21"): (1.0, 5.0),
            scored(3, 3, "12"): (3.0, 3.0),
        },
        (
            scored(5, 1, "12")[:-1] + ', "thoughts": %s}',
            '{"thoughts": %s, ' + scored(5, 1, "12")[1:],
        ),
    ),
    "nemotron-principle": Grader(
        PROFILES["nemotron-principle"],
        1,
        {
            "Final Judgement: Yes": (pytest.approx(4.8103, abs=1e-4),),
            "Final Judgement: No": (pytest.approx(1.1897, abs=1e-4),),
        },
    ),
}
EVERY = pytest.mark.parametrize("name", GRADERS)


def iter_replies(grader, text, words):
    """Yield what a judge says that quotes a text: in its thoughts, around its grades and in their
    strings.
    """
    yield from iter_thinking(text, words)
    yield from iter_quoting(grader.family, text, words)
    if words == next(iter(grader.says)):
        for form in grader.in_strings:
            yield "in a string", form % json.dumps(f"It says {text}; no.")
            yield "in a string without escapes", form % f'"It says {text}; no."'


def outcome_of(grader, reply, prompt, own):
    """Return "own" or the kind of the failure; any other grades are an error."""
    outcome = grader.read(reply, prompt)
    if isinstance(outcome, Grades):
        assert outcome.values == own, (reply, prompt.responses)
        return "own"
    assert outcome.kind in HONEST, (outcome, reply)
    return str(outcome.kind)


def fuzz(name, count, seed):
    """Let a judge quote so many torn replies, or parts of them; return how many became what."""
    grader = GRADERS[name]
    rng = random.Random(f"{seed} {name}")
    others = [other.family for other in GRADERS.values() if other is not grader]
    said = list(grader.says.items())
    places = {words: sum(1 for _ in iter_replies(grader, "", words)) for words in grader.says}
    counts = Counter()
    for _, text in Mutator(grader.family, others, f"{seed} of {name}").iter_replies(count):
        words, own = rng.choice(said)
        prompt = grader.show(text)
        text = prompt.responses[0]
        start = rng.randrange(len(text) + 1) if rng.random() < PARTIAL else 0
        part = text[start : rng.randrange(start, len(text) + 1) if rng.random() < PARTIAL else None]
        _, reply = pick_reply(rng, iter_replies(grader, part, words), places[words])
        counts[outcome_of(grader, reply, prompt, own)] += 1
    return counts


def test_the_words_of_a_grader_are_read():
    """Alone, whatever a response holds, and in the strings of the first."""
    for name in GRADERS:
        grader = GRADERS[name]
        for words, own in grader.says.items():
            assert outcome_of(grader, words, grader.show(words), own) == "own"
        for form in grader.in_strings:
            assert (
                outcome_of(
                    grader, form % '"fine"', grader.show("x"), next(iter(grader.says.values()))
                )
                == "own"
            )


KEYS = (
    '"scores" "tiers" "assignments" "criteria" "index" "model-1" "rubric_a" null 1e9 -3 NaN '
    "<think> </think> ```json"
)
WORDS = st.sampled_from(
    [
        *'{}[],:"\\ \n1305',
        *KEYS.split(),
        *(words for each in GRADERS.values() for words in each.says),
    ]
)


@EVERY
@given(text=st.lists(WORDS, max_size=20).map("".join) | st.text(max_size=60))
def test_no_text_is_more_than_grades_or_a_failure(name, text):
    """Reading never raises; grades that come of it are one a value of the judge's, and no larger
    than its largest.
    """
    grader = GRADERS[name]
    outcome = grader.read(text, grader.show("x"))
    if isinstance(outcome, Grades):
        assert len(outcome.values) == len(next(iter(grader.says.values())))
        assert all(0 <= value <= 5 for value in outcome.values)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADERS)
def test_what_a_grader_quotes_is_never_its_grade(name):
    """Every hostile text and every other grade, quoted in each place: the judge's own grades are
    read, or none.
    """
    grader = GRADERS[name]
    counts = Counter()
    for words, own in grader.says.items():
        for text in [*TEXTS, *grader.says]:
            prompt = grader.show(text)
            quoted = iter_replies(grader, prompt.responses[0], words)
            counts.update(outcome_of(grader, reply, prompt, own) for _, reply in quoted)
    assert counts["own"] > 0.9 * counts.total(), counts


def test_grades_that_only_a_response_holds_are_none():
    """A judge that quotes a grade and gives none of its own has no grade."""
    for name in GRADERS:
        grader = GRADERS[name]
        for words in grader.says:
            prompt = grader.show(words)
            for place, reply in iter_quoting(grader.family, prompt.responses[0], "I give none."):
                assert isinstance(grader.read(reply, prompt), Failure), (place, reply)


@EVERY
def test_torn_quotations_are_never_the_grades(name):
    """A judge that quotes a torn reply, of its own kind or another, beside its grades, says its
    own.
    """
    assert fuzz(name, 40, "sample")["own"] > 28


@pytest.mark.slow
@pytest.mark.timeout(600)
@EVERY
def test_many_quotations_are_never_the_grades(name):
    """An equal share for each grader: its own grades are read, or none."""
    count = -(-REPLIES // len(GRADERS))
    counts = fuzz(name, count, "many")
    print(f"{name}, quoting: {counts.total()} replies: {dict(sorted(counts.items()))}")
    assert counts.total() == count
