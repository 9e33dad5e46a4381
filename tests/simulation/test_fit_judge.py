"""A judge model from a judge's own verdicts: the numbers come back that made them."""

import pytest
from numpy.random import default_rng
from verdict_rows import verdicts_of

from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators import VerdictBatch, Verdicts
from genrm_cli.simulation.fit import Fit, fit_to_verdicts
from genrm_cli.simulation.judge import JudgeModel
from genrm_cli.simulation.observe import batches_of, observe, steps_of
from genrm_cli.simulation.world import draw_world, judge_pairs, ordered_pairs

OTHER = JudgeModel(
    position_bias=-0.5,
    position_bias_spread=0.6,
    intransitivity=0.6,
    noise=1.0,
    score_noise=0.5,
    ranking_noise=1.0,
    repeating=0.3,
    leniency_spread=0.4,
    mean_score=2.8,
    score_spread=0.6,
    ranking_spread=1.0,
    score_step=0.5,
    tie_width=0.4,
    ties_broken=0.0,
    contradictions=0.5,
)


def groups_of(batch: VerdictBatch) -> list[Verdicts]:
    """Return a batch group by group, as it would be read from a file."""
    columns = (batch.first, batch.second, batch.score_1, batch.score_2, batch.ranking)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [verdicts_of(zip(*row, strict=True)) for row in rows]


def judged(model: JudgeModel, groups: int = 300, n: int = 6, repeats: int = 2) -> list[Verdicts]:
    """Let a judge compare all pairs in both orders."""
    generator = default_rng(11)
    world = draw_world(model, groups, n, generator)
    return groups_of(judge_pairs(world, *ordered_pairs(groups, n, repeats), generator))


@pytest.fixture(scope="module")
def fitted() -> Fit:
    """Fit the other judge's model to what it said."""
    return fit_to_verdicts(JudgeModel(), judged(OTHER), 2_000, known_rollouts=True)


def test_all_but_the_misjudgement_comes_back(fitted: Fit) -> None:
    """From groups in both orders, asked twice, every number is found that leaves a trace."""
    assert set(fitted.parameters) == set(JudgeModel.__slots__) - {"misjudgement", "much_lead", "ties_broken"}
    assert fitted.model.misjudgement == JudgeModel().misjudgement
    for name in fitted.parameters:
        expected = 2_000 / 20_000 if name == "failure_share" else getattr(OTHER, name)
        assert getattr(fitted.model, name) == pytest.approx(expected, abs=0.15), name


def test_the_fitted_judge_looks_like_the_real_one(fitted: Fit) -> None:
    """All figures of the verdicts are reached."""
    assert fitted.reached == pytest.approx(fitted.observed, abs=0.02)


def test_from_scores_alone_less_is_fitted() -> None:
    """Without rollouts there are bias, level, spread and ties; what needs pairs stays as it was."""
    verdicts = [verdict for group in judged(OTHER) for verdict in group.values()]
    pairs = [{Comparison(0, 1, number): verdict for number, verdict in enumerate(verdicts)}]
    fit = fit_to_verdicts(JudgeModel(), pairs, 0, known_rollouts=False)
    kept = {
        "misjudgement",
        "intransitivity",
        "position_bias_spread",
        "noise",
        "ranking_noise",
        "repeating",
        "much_lead",
        "ties_broken",
    }
    assert set(fit.parameters) == set(JudgeModel.__slots__) - kept
    assert all(getattr(fit.model, name) == getattr(JudgeModel(), name) for name in kept - {"ties_broken"})
    assert fit.reached["mean_gap"] == pytest.approx(fit.observed["mean_gap"], abs=0.03)
    assert fit.reached["tie_share"] == pytest.approx(fit.observed["tie_share"], abs=0.03)


@pytest.mark.parametrize("labels", [pytest.param(3, marks=pytest.mark.slow), 5])
def test_a_judge_of_labels_is_fitted_as_one(labels: int) -> None:
    """Its verdicts are simulated as labels, never as scores between them, with the numbers that made them."""
    spoke = JudgeModel(labels=labels, tie_width=0.4, much_lead=1.5, noise=0.9, position_bias=-0.3)
    fit = fit_to_verdicts(JudgeModel(), judged(spoke), 0, known_rollouts=True)
    assert fit.model.labels == labels
    assert ("much_lead" in fit.parameters, "score_spread" in fit.parameters) == (labels == 5, False)
    for name in fit.parameters:
        assert getattr(fit.model, name) == pytest.approx(getattr(spoke, name), abs=0.15), name


def test_pairs_do_not_tell_an_error_about_the_pair_from_quality() -> None:
    """From groups of two, intransitivity keeps its default; how far both orders agree sets the noise."""
    fit = fit_to_verdicts(
        JudgeModel(), judged(JudgeModel(labels=3, tie_width=0.4, noise=1.8), n=2), 0, known_rollouts=True
    )
    assert "intransitivity" not in fit.parameters
    assert fit.reached["swapped_agreement"] == pytest.approx(fit.observed["swapped_agreement"], abs=0.03)
    assert fit.model.noise > 1.4


def test_what_was_given_stays() -> None:
    """A number that the user chose is neither fitted nor called so."""
    fit = fit_to_verdicts(
        JudgeModel(noise=0.2, score_step=0.0),
        judged(JudgeModel(), groups=60),
        0,
        known_rollouts=True,
        fixed=frozenset({"noise", "score_step"}),
    )
    assert (fit.model.noise, fit.model.score_step) == (0.2, 0.0)
    assert not {"noise", "score_step"} & set(fit.parameters)


@pytest.mark.slow
def test_verdicts_that_are_all_the_same_are_fitted_too() -> None:
    """A judge that only ever says 3, 3, 3 has a model: finite, with ties only."""
    always = [verdicts_of((i, j, 3, 3, 3) for i in range(4) for j in range(4) if i != j)] * 40
    fit = fit_to_verdicts(JudgeModel(), always, 0, known_rollouts=True)
    assert fit.reached["tie_share"] > 0.9


def test_groups_of_any_sizes_become_batches() -> None:
    """Nothing is lost or added, groups stay apart, an empty one is left out."""
    groups = [verdicts_of([(0, 1, 4, 2, 2)] * k) for k in (3, 0, 1)]
    groups.append(verdicts_of([(6, 2, 1, 5, 6)]))
    batches = list(batches_of(groups))
    assert sum(int(batch.valid.sum()) for batch in batches) == 5
    assert [batch.groups for batch in batches] == [3]
    assert batches[0].n == 7


def test_figures_that_need_more_verdicts_are_not_there() -> None:
    """A few groups with each pair asked once say nothing of flips, repeats and bias by group."""
    groups = judged(JudgeModel(), groups=40, repeats=1)
    assert "gap_slope" not in observe(list(batches_of(groups[:8])))
    one_order = [{each: verdict for each, verdict in group.items() if each.i < each.j} for group in groups]
    figures = observe(list(batches_of(one_order)))
    assert "gap_slope" in figures
    assert not {"swapped_agreement", "repeated_agreement"} & set(figures)


@pytest.mark.parametrize(("scores", "step"), [((1, 3, 5), 1.0), ((1.5, 3, 4), 0.5), ((2.25, 3), 0.25), ((3.7, 2), 0.0)])
def test_the_steps_of_the_scores_are_seen(scores: tuple[float, ...], step: float) -> None:
    """The widest step that explains all of them."""
    assert steps_of(list(batches_of([verdicts_of((0, 1, score, 3, 2) for score in scores)]))) == (step, 1.0)


def test_a_judge_that_breaks_ties_is_fitted_as_one() -> None:
    """Fewer ties than rounding makes were broken; more were made. Only one of the two numbers is fitted."""
    fit = fit_to_verdicts(
        JudgeModel(ties_broken=0.2), judged(JudgeModel(), groups=100, repeats=1), 0, known_rollouts=True
    )
    assert ("ties_broken" in fit.parameters, "tie_width" in fit.parameters) == (True, False)
    assert fit.model.ties_broken == pytest.approx(JudgeModel().ties_broken, abs=0.15)
