"""Judge calls that each kind of advantage needs for the policy gradient that unit variance gives.

    .venv/bin/python tests/bench/advantages.py [VERDICTS.jsonl]

The gradient is that of an absolute objective, where noise dominates: it grows with the squared
correlation of advantages and truth over all rollouts of a run. Below 1, a kind saves calls.
Simulated groups differ in how far their rollouts differ; recorded verdicts, on all pairs in both
orders, have the consensus of their unused ones as the truth."""

import sys
from pathlib import Path

import numpy as np
from numpy.random import default_rng

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.simulation.judge_files import read_judges
from bench.simulation.plan_metrics import indices_of, plan_within
from bench.simulation.replay import DRAWS, dense_verdicts
from bench.simulation.world import JudgeModel, World, draw_world, judge_pairs

from genrm_cli.catalog import ADVANTAGES
from genrm_cli.rewards.compose import weight_of
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import ESTIMATORS

GROUPS = 2_000
ROUNDS = 1_000
DROPPED = 0.25
NOISY = {"noise": 2.0, "score_noise": 2.5, "ranking_noise": 1.2}
SPREADS = {
    "all alike": lambda generator: np.ones(GROUPS),
    "lognormal .5": lambda generator: np.exp(0.5 * generator.standard_normal(GROUPS)),
    "half at .15": lambda generator: np.where(generator.random(GROUPS) < 0.5, 0.15, 1.0),
    "4 of 5 at .1": lambda generator: np.where(generator.random(GROUPS) < 0.8, 0.1, 1.0),
}


def centred(values):
    """Return values less the means of their groups."""
    return values - values.mean(axis=1, keepdims=True)


def advantages_by_kind(batch):
    """Return [G, n] the advantages, by kind."""
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    estimate = ESTIMATORS["adaptive"](batch, statistics.fit())
    rewards = centred(np.where(estimate.scored, estimate.base_scores, 0))
    variances = rewards.var(axis=1, ddof=1)
    unit = rewards / np.sqrt(np.where(variances > 1e-12, variances, 1))[:, None]
    reliabilities = estimate.errors.reliabilities if estimate.errors else np.ones(len(unit))
    rows = list(zip(variances.tolist(), reliabilities.tolist(), strict=True))
    weights = {
        kind: np.array([weight_of(kind, v, variances.mean(), r) for v, r in rows])
        for kind in ADVANTAGES
    }
    weights["drop the lowest quarter"] = 1.0 * (variances > np.quantile(variances, DROPPED))
    return {kind: unit * weight[:, None] for kind, weight in weights.items()}


def sums_by_kind(batch, truth):
    """Return [G, 2] the sums of advantage times truth and of squared advantages, by kind of
    advantage.
    """
    made = advantages_by_kind(batch)
    truth = centred(truth)
    return {
        kind: np.stack([(each * truth).sum(1), (each * each).sum(1)], axis=1)
        for kind, each in made.items()
    }


def noise_share(shown, n, draw):
    """Return the share of squared advantages of unit variance that another ring of the same size
    does not repeat.
    """
    both = indices_of(plan_within("ring", n, 2 * n), n, range(shown.shape[0]), draw)
    rings = [shown.chosen(*(column[:, of] for column in both)) for of in (slice(n), slice(n, None))]
    one, other = (advantages_by_kind(ring)["unit"] for ring in rings)
    return 1 - (one * other).sum() / np.sqrt((one * one).sum() * (other * other).sum())


def show(name, sums):
    """Print the calls of each kind, with its interval by bootstrap over groups."""
    groups = len(sums["unit"])
    draws = np.vstack(
        [np.ones(groups), default_rng(0).multinomial(groups, np.full(groups, 1 / groups), ROUNDS)]
    )
    gains = {kind: (draws @ of)[:, 0] ** 2 / (draws @ of)[:, 1] for kind, of in sums.items()}
    calls = {kind: gains["unit"] / of for kind, of in gains.items() if kind != "unit"}
    rows = [(kind, of[0], *np.quantile(of[1:], (0.025, 0.975))) for kind, of in calls.items()]
    shown = [f"{kind} {value:.2f} [{low:.2f}, {high:.2f}]" for kind, value, low, high in rows]
    print(f"{name:44}", *shown, flush=True)


def simulated():
    """Print the table of simulated judges."""
    for judge, model in (("typical", JudgeModel()), ("noisy", JudgeModel(**NOISY))):
        for n, rings in ((8, 1), (8, 2), (4, 1)):
            for name, draw in SPREADS.items():
                spread = draw(default_rng(7))[:, None]
                world = draw_world(model, GROUPS, n, default_rng(1))
                world = World(
                    model,
                    world.truth * spread,
                    world.quality * spread,
                    world.level,
                    world.lean,
                    world.noise,
                )
                indices = indices_of(plan_within("ring", n, rings * n), n, range(GROUPS), 0)
                batch = judge_pairs(world, *indices, default_rng(2))
                show(f"{judge}, N={n}, {rings} rings, {name}", sums_by_kind(batch, world.truth))


def recorded(uri):
    """Print the table of recorded judges, at the size of the file and of 24 of its groups."""
    for judge, found in read_judges(uri).items():
        dense = dense_verdicts(list(found.values()))
        for rings in (1, 2) if dense is not None else ():
            plan = plan_within("ring", dense.shape[1], rings * dense.shape[1])
            if plan.calls > dense.shape[1] * (dense.shape[1] - 3):
                continue
            found = {}
            noise = []
            for draw in range(DRAWS):
                shown = dense.shuffled(default_rng([0, draw]))
                groups = np.arange(dense.shape[0])
                noise.append(noise_share(shown, dense.shape[1], draw))
                first, second = indices_of(plan, dense.shape[1], range(dense.shape[0]), draw)
                unused = shown.valid.copy()
                unused[groups[:, None], first, second] = False
                for kind, sums in sums_by_kind(
                    shown.chosen(first, second), shown.consensus(unused)
                ).items():
                    found[kind] = found.get(kind, 0) + sums
            show(f"{judge}, {dense.shape[0]} x {dense.shape[1]}, {rings} rings", found)
            print(f"{'':44} noise of unit variance, one ring {np.mean(noise):.2f}")


if __name__ == "__main__":
    simulated()
    for given in sys.argv[1:]:
        recorded(given)
