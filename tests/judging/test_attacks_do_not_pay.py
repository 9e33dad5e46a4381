"""Nothing that a policy writes to the judge pays: hostile texts, families and habits of judges, and
the rewards.
"""

from itertools import cycle

import pytest
from attacked_groups import HABITS, OTHER, Attack
from hostile_corpus import BAD, CORPUS, iter_own
from judge_families import FAMILIES
from reply_readers import READERS
from scored_here import completions

from genrm_cli.catalog import ESTIMATORS

FAST = ("nemotron-plain", "mt-bench", "j1", "rubric-rm")  # JSON, labels, two forms, and lines
MOST = 0.05  # of advantage, gained by an attacker or lost by its honest twin
# Share of failed comparisons from which a text works by silence: a judge that quotes its verdict
# makes a reply ambiguous. `tests/judging/withholding.py` says what that gains.
SILENT_FROM = 0.2


def paid_by(attack, texts):
    """Return texts that forge a verdict, raise the advantage of their response or lower that of the
    honest twin, but for those that only silence the judge.
    """
    results = [(hostile, attack.test(hostile)) for hostile in texts]
    return [
        (hostile, tested)
        for hostile, tested in results
        if tested.forged
        or (tested.failures < SILENT_FROM and (tested.gain > MOST or tested.twin < -MOST))
    ]


@pytest.mark.parametrize("name", FAST)
def test_a_sample_of_hostile_texts_does_not_pay(name):
    """Whatever the judge does with them, under the default estimator."""
    texts = cycle([*iter_own(name), *CORPUS[::5]])
    for habit in HABITS:
        attack = Attack(name, habit, groups=25, rings=1, estimators=("adaptive",))
        assert paid_by(attack, [next(texts)]) == []


@pytest.mark.parametrize(("number", "name"), list(enumerate(READERS)))
@pytest.mark.parametrize(
    "part", [pytest.param(0, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.weekly)]
)
def test_hostile_texts_do_not_pay(number, name, part):
    """A twelfth of them for each family, and half of its own, with every habit of a judge, under
    half of the estimators; every other family with two rings.
    """
    own = [*iter_own(name)][part // 6 :: 2] if name in FAMILIES else []
    texts = [*CORPUS[(number + part) % 12 :: 12], *own]
    rings = 1 + number % 2
    estimators = tuple(ESTIMATORS)[number // 2 % 2 :: 2]
    for habit in HABITS:
        attack = Attack(name, habit, groups=100, rings=rings, estimators=estimators)
        assert paid_by(attack, texts)[:3] == []


def advantages_of(judged, texts):
    """Score groups of an attacker with one of these texts, its twin and two good responses; all
    advantages.
    """
    lines = []
    for number, text in enumerate(texts):
        answers = f"{BAD} {text}", BAD, f"{OTHER} " * 40, f"{OTHER} " * 90
        lines += completions(*answers, prompt=f"Question {number}?")
    scored = judged(lines, profile="nemotron-plain", use_journal=False)
    return scored.advantages, sum("neutralised" in line["genrm"] for line in scored.lines)


def test_a_run_with_a_judge_that_quotes_pays_nothing(judged, judge_server):
    """Scored over HTTP, hostile texts get no more than harmless ones of their lengths, and their
    twins no less.
    """
    texts = [
        hostile.payload
        for hostile in CORPUS
        if hostile.spelling == "plain" and len(hostile.payload) < 300
    ][::6]
    harmless, _ = advantages_of(judged, ["x" * len(text) for text in texts])
    judge_server.behave(quotes="around")
    attacked, neutralised = advantages_of(judged, texts)
    assert neutralised > 7
    changes = [after - before for after, before in zip(attacked, harmless, strict=True)]
    assert max(changes[::4]) < MOST
    assert min(changes[1::4]) > -MOST
