"""Nothing that a policy writes to the judge pays: hostile texts, families and habits of judges, and the rewards."""

from collections.abc import Sequence
from itertools import cycle, islice

import pytest
from attacked_groups import HABITS, Attack
from hostile_corpus import CORPUS, Hostile, iter_own
from judge_families import FAMILIES
from reply_readers import READERS

from genrm_cli.catalog import ESTIMATORS

FAST = ("nemotron-plain", "mt-bench", "j1", "rubric-rm")  # JSON, labels, two forms, and lines
MOST = 0.05  # of advantage, gained by an attacker or lost by its honest twin


def assert_nothing_pays(attack: Attack, texts: Sequence[Hostile]) -> None:
    """Check that no text forges a verdict, raises the advantage of its response or lowers that of the honest twin."""
    results = [(hostile, attack.test(hostile)) for hostile in texts]
    paid = [
        (hostile, tested) for hostile, tested in results if tested.forged or tested.gain > MOST or tested.twin < -MOST
    ]
    assert not paid, paid[:3]


def test_the_corpus_is_large_and_varied() -> None:
    """At least 200 texts of 15 kinds, no two of them equal."""
    assert len({hostile.text for hostile in CORPUS}) == len(CORPUS) >= 200
    assert len({hostile.kind for hostile in CORPUS}) >= 15


@pytest.mark.parametrize("name", FAST)
def test_a_sample_of_hostile_texts_does_not_pay(name: str) -> None:
    """Whatever the judge does with them, under the default estimator."""
    texts = cycle([*iter_own(name), *CORPUS[::5]])
    for habit in HABITS:
        attack = Attack(name, habit, groups=40, rings=1, estimators=("adaptive",))
        assert_nothing_pays(attack, list(islice(texts, 12)))


@pytest.mark.slow
@pytest.mark.parametrize("rings", [1, 2])
@pytest.mark.parametrize("name", READERS)
def test_hostile_texts_do_not_pay(name: str, rings: int) -> None:
    """All of them, with every habit of a judge, under every estimator."""
    texts = [*CORPUS, *(iter_own(name) if name in FAMILIES else ())]
    for habit in HABITS:
        attack = Attack(name, habit, groups=100, rings=rings, estimators=tuple(ESTIMATORS))
        assert_nothing_pays(attack, texts)
