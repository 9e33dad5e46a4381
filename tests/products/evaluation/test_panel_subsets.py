"""What each judge of a panel adds."""

from random import Random

from judged_pairs import judged_pair

from genrm_cli.products.evaluation.accuracy import PairRecord, Preference
from genrm_cli.products.evaluation.panel_subsets import PanelSubset, panel_subsets

LINES = 300


def judge_of(share: float, seed: int) -> list[PairRecord]:
    """Return the verdicts of a judge that is right on this share of pairs, alike in both orders."""
    random = Random(seed)
    results = [
        Preference.RIGHT if random.random() < share else Preference.WRONG for _ in range(LINES)
    ]
    return [judged_pair(each, each, f"{number:x}") for number, each in enumerate(results)]


def by_names(found: tuple[PanelSubset, ...]) -> dict[tuple[str, ...], PanelSubset]:
    """Return the subsets by their judges."""
    return {each.judges: each for each in found}


def test_every_subset_is_measured_on_the_same_verdicts():
    """Three good judges with errors of their own beat one; a coin beside them adds nothing."""
    judges = {"a": judge_of(0.8, 1), "b": judge_of(0.8, 2), "c": judge_of(0.8, 3)}
    judges["coin"] = judge_of(0.5, 4)
    found = by_names(panel_subsets(judges, [1.0] * 4))
    assert len(found) == 15
    three = found["a", "b", "c"]
    assert three.accuracy.value > max(found[name,].accuracy.value for name in judges)
    assert three.effective_judges is not None
    assert three.effective_judges > 2
    whole = found["a", "b", "c", "coin"]
    assert whole.behind is None
    assert three.behind is not None
    assert three.behind.value <= 0
    assert found["coin",].behind.low > 0.1
    assert three.tokens == 3 * found["a",].tokens


def test_weights_decide_what_a_subset_prefers():
    """A judge that weighs more than the others together is the panel."""
    judges = {"a": judge_of(0.9, 1), "b": judge_of(0.5, 2), "c": judge_of(0.5, 3)}
    found = by_names(panel_subsets(judges, [5.0, 1.0, 1.0]))
    assert found["a", "b", "c"].accuracy == found["a",].accuracy


def test_a_large_panel_shows_single_judges_and_all_but_one():
    """Of seven judges there are 127 subsets, of which fifteen are shown; one judge has none."""
    judges = {name: judge_of(0.7, number) for number, name in enumerate("abcdefg")}
    sizes = [len(each.judges) for each in panel_subsets(judges, [1.0] * 7)]
    assert sorted(sizes) == [1] * 7 + [6] * 7 + [7]
    assert panel_subsets({"a": judge_of(0.7, 1)}, [1.0]) == ()
