"""A group reward function for slime."""

from collections.abc import Sequence
from typing import Any

from genrm_cli.adapters.reward_client import RewardClient


async def group_reward(args: Any, samples: Sequence[Any], **_: Any) -> list[float]:
    """Score the samples of one prompt; for `--group-rm --custom-rm-path
    genrm_cli.adapters.slime.group_reward`.

    `genrm_url` and `genrm_on_failure` come from the file of `--custom-config-path`. The prompt is
    `messages` of the sample's metadata, if it has them, else the text that slime sent to the
    policy; `principle` and `reference` are read there, too.

    Raises:
        ValueError: `genrm_on_failure` is not a number, `mean` or None.
        TypeError: the samples are not those of one prompt.
        MissingRewardError: a sample has no reward; slime requires a number.
        RewardServerError: the server refuses, or cannot be reached.
    """
    if (
        not isinstance(samples, list)
        or not samples
        or any(isinstance(sample, list) for sample in samples)
    ):
        raise TypeError(
            "group_reward takes the samples of one prompt: set --group-rm, and let no rollout fan "
            "out"
        )
    given = {name: getattr(args, f"genrm_{name}", None) for name in ("url", "on_failure")}
    client = RewardClient(**{name: value for name, value in given.items() if value is not None})
    first = samples[0]
    asked = first.metadata if isinstance(first.metadata, dict) else {}
    reply = await client.score_group(
        asked.get("messages") or first.prompt,
        [sample.response for sample in samples],
        principle=asked.get("principle"),
        reference=asked.get("reference"),
    )
    for sample in samples:
        about = sample.metadata if isinstance(sample.metadata, dict) else {}
        sample.metadata = about | {"genrm_worth_training": reply["metrics"]["worth_training"]}
    return client.numbers_in(reply)


def keep_group(args: Any, samples: Sequence[Any], **_: Any) -> bool:
    """Return whether the rewards of a group differ by more than chance; for
    `--dynamic-sampling-filter-path genrm_cli.adapters.slime.keep_group`.
    """
    del args
    return all(sample.metadata.get("genrm_worth_training") is not False for sample in samples)
