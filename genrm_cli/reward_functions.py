"""Rewards as a trainer's own reward function has them: a number, or a dictionary of components, for
each rollout of a group.

    ranks = genrm.rank_rewards([0.2, 0.9, 0.4])             # [0.0, 1.0, 0.5]
    agree = genrm.consistency_rewards(["4", "4", "5"])      # [0.67, 0.67, 0.0]
    tests = genrm.complementarity_rewards([{"a"}, {"a", "b"}])  # [0.25, 0.75]
    both = genrm.merge([{"tests": 1.0}], [{"rank": 0.5}])   # [{"tests": 1.0, "rank": 0.5}]
    scaled, clusters = genrm.scale_by_diversity(rewards, texts)
    scaled, clusters = genrm.scale_by_diversity(
        rewards, texts, method="llm", base_url="http://localhost:8000/v1", model="judge"
    )
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from genrm_cli.catalog import listed
from genrm_cli.errors import UsageError
from genrm_cli.groups.group import Group
from genrm_cli.rewards.components.complementarity import complementarity_values
from genrm_cli.rewards.components.consistency import consistency_values
from genrm_cli.rewards.components.rank import rank_values
from genrm_cli.rewards.diversity import ngram_clusters
from genrm_cli.scorer import Scorer, run_blocking
from genrm_cli.settings.kinds import did_you_mean

consistency_rewards = consistency_values
complementarity_rewards = complementarity_values

_METHODS = ("ngram", "llm")


def rank_rewards(
    rewards: Sequence[float | None], ties: Literal["mean", "order"] = "mean"
) -> list[float | None]:
    """Return the rank of each reward of a group, 0 for the lowest and 1 for the highest; None stays
    None.

    Equal rewards have the mean of their ranks; with `order`, the first in the group has the lower
    one. A single reward has rank 1.

    Raises:
        UsageError: a reward is NaN, which has no rank; a missing one is None.
    """
    if any(reward is not None and math.isnan(reward) for reward in rewards):
        raise UsageError("a reward is NaN; expected a number, or None for a missing reward.")
    return rank_values(rewards, ties)


def scale_by_diversity(
    rewards: Sequence[Any],
    texts: Sequence[str],
    *,
    method: str = "ngram",
    n: int = 3,
    threshold: float = 0.5,
    fallback: str = "unique",
    prompt: object = "",
    **judge: Any,
) -> tuple[list[Any], list[int]]:
    """Divide the reward of each rollout by the size of its cluster of similar texts.

    Args:
        rewards: a number or a dictionary of numbers for each text, none below 0: a share of a
            negative reward would pay for copies. All parts are divided; a missing one is None.
        texts: the responses of one group.
        method: `ngram` compares wording, offline; `llm` asks a judge which responses take the same
            approach, and blocks until it has answered.
        n: of `ngram`: length of the character n-grams.
        threshold: of `ngram`: Jaccard similarity from which two texts belong together.
        fallback: of `llm`, if the judge gives no clusters: `unique` or `uniform`.
        prompt: of `llm`: the task.
        judge: of `llm`: settings of `Scorer`, such as `base_url`, `model` and `api_key`.

    Returns:
        The scaled rewards, and the number of each text's cluster.

    Raises:
        UsageError: the numbers differ or a reward is negative.
        GenrmError: see `Scorer`.
    """
    if len(rewards) != len(texts):
        raise UsageError(f"{len(rewards)} rewards for {len(texts)} texts; expected one for each.")
    if method not in _METHODS:
        raise UsageError(f"method {method!r} is not one of {listed(_METHODS)}.")
    for reward in rewards:
        _refuse_negative(reward if isinstance(reward, Mapping) else {"reward": reward})
    if method == "llm":
        clusters = _judged_clusters(prompt, texts, fallback, judge)
    elif judge:
        name = min(judge)
        hint = did_you_mean(name, ("n", "threshold"))
        raise UsageError(f"{name!r} has no effect with method 'ngram'; omit it.{hint}")
    else:
        clusters = ngram_clusters(texts, n, threshold)
    scaled: list[Any] = []
    for reward, cluster in zip(rewards, clusters, strict=True):
        size = clusters.count(cluster)
        if isinstance(reward, Mapping):
            scaled.append({name: _share(value, size) for name, value in reward.items()})
        else:
            scaled.append(_share(reward, size))
    return scaled, clusters


def _judged_clusters(
    prompt: object, texts: Sequence[str], fallback: str, judge: Mapping[str, Any]
) -> list[int]:
    scorer = Scorer(
        **judge,
        # The reward is not looked at: any component without a judge will do.
        components={"consistency": {"kind": "consistency", "extract": "number"}},
        total={"weights": {"consistency": 1.0}},
        diversity={"method": "llm", "fallback": fallback},
    )
    found = run_blocking(scorer.score_once(Group.of(prompt, texts))).clusters
    if found is None or found.failed:
        is_uniform = fallback == "uniform"
        return [0 if is_uniform else index for index in range(len(texts))]
    # A text without words is in no cluster: it is alone.
    after = 1 + max((number for number in found.numbers if number is not None), default=-1)
    return [after + at if number is None else number for at, number in enumerate(found.numbers)]


def _share(value: float | None, size: int) -> float | None:
    return None if value is None else value / size


def _refuse_negative(components: Mapping[str, float | None]) -> None:
    for name, value in components.items():
        if value is not None and not value >= 0:  # NaN, too
            raise UsageError(f"{name} is {value:g}; expected 0 or more: shift it by a constant.")


def merge(*rewards: Sequence[Mapping[str, float | None]]) -> list[dict[str, float | None]]:
    """Join the components of each rollout from several reward functions; a missing one is None.

    Raises:
        UsageError: two functions give one rollout a component of the same name, a component is
            negative, or the groups differ in size.
    """
    if len({len(each) for each in rewards}) > 1:
        sizes = ", ".join(str(len(each)) for each in rewards)
        raise UsageError(f"the rewards are of groups of {sizes} rollouts; expected one group.")
    merged: list[dict[str, float | None]] = []
    for parts in zip(*rewards, strict=True):
        components: dict[str, float | None] = {}
        for part in parts:
            _refuse_negative(part)
            for name, value in part.items():
                if name in components:
                    raise UsageError(f"two rewards have a component {name!r}; rename one of them.")
                components[name] = value
        merged.append(components)
    return merged
