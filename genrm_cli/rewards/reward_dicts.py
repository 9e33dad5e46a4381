"""Rewards as a trainer's own reward function has them: a number, or a dictionary of components, for
each rollout of a group.

    scaled, clusters = genrm.scale_by_diversity(rewards, texts)
    ranks = genrm.rank_rewards([0.2, 0.9, 0.4])          # [0.0, 1.0, 0.5]
    both = genrm.merge([{"tests": 1.0}], [{"rank": 0.5}])  # [{"tests": 1.0, "rank": 0.5}]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from genrm_cli.errors import UsageError
from genrm_cli.rewards.components.rank import rank_values
from genrm_cli.rewards.diversity import ngram_clusters

rank_rewards = rank_values


def scale_by_diversity(
    rewards: Sequence[Any],
    texts: Sequence[str],
    *,
    n: int = 3,
    threshold: float = 0.5,
) -> tuple[list[Any], list[int]]:
    """Divide the reward of each rollout by the size of its cluster of similar texts.

    Args:
        rewards: a number or a dictionary of numbers for each text; all parts are divided.
        texts: the responses of one group.
        n: length of the character n-grams that are compared.
        threshold: Jaccard similarity from which two texts belong together.

    Returns:
        The scaled rewards, and the number of each text's cluster.
    """
    if len(rewards) != len(texts):
        raise UsageError(f"{len(rewards)} rewards for {len(texts)} texts; expected one for each.")
    clusters = ngram_clusters(texts, n, threshold)
    scaled: list[Any] = []
    for reward, cluster in zip(rewards, clusters, strict=True):
        size = clusters.count(cluster)
        if isinstance(reward, Mapping):
            scaled.append({name: value / size for name, value in reward.items()})
        else:
            scaled.append(reward / size)
    return scaled, clusters


def merge(*rewards: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Join the components of each rollout from several reward functions.

    Raises:
        UsageError: two functions give one rollout a component of the same name, or their groups
            differ in size.
    """
    if len({len(each) for each in rewards}) > 1:
        sizes = ", ".join(str(len(each)) for each in rewards)
        raise UsageError(f"the rewards are of groups of {sizes} rollouts; expected one group.")
    merged: list[dict[str, float]] = []
    for parts in zip(*rewards, strict=True):
        components: dict[str, float] = {}
        for part in parts:
            for name, value in part.items():
                if name in components:
                    raise UsageError(f"two rewards have a component {name!r}; rename one of them.")
                components[name] = value
        merged.append(components)
    return merged
