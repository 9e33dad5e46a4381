"""Simulated judges that write labels instead of scores."""

from dataclasses import replace

import numpy as np
from bench.simulation.world import judge_pairs
from msgspec import structs

# Its ranking shows the lead in quality as it is.
_LEADS = {
    "ranking_noise": 0,
    "ranking_spread": 1,
    "ranking_step": 0,
    "score_spread": 0,
    "ties_broken": 0,
}


def label_pairs(world, first, second, generator, *, tie, much=np.inf):
    """Ask for labels: a tie for leads in quality below `tie`, much better from `much` on."""
    batch = judge_pairs(
        replace(world, model=replace(world.model, **_LEADS)), first, second, generator
    )
    lead = 3.5 - batch.ranking
    sizes = np.sign(lead) * ((abs(lead) >= tie) + 1.0 * (abs(lead) >= much))
    return structs.replace(
        batch, score_1=3 + sizes, score_2=3 - sizes, ranking=3.5 - sizes - np.sign(sizes) / 2
    )
