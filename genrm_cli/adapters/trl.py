"""A reward function for TRL's `GRPOTrainer`, `RLOOTrainer` and `AsyncGRPOTrainer`."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch.distributed as ranks

from genrm_cli.adapters.reward_client import Json, RewardClient, wait_for

Reward = float | None


class GenrmReward:
    """Scores each completion against the others of its prompt; None where the judge gave no verdict.

        trainer = GRPOTrainer(reward_funcs=GenrmReward("http://localhost:8330"), ...)

    The rows of a prompt may be spread over processes: they are gathered, each group is scored once, and every process
    gets its own part back. Rows belong to one group if they have the same `prompt_id`, or the same prompt where the
    data set has no such column. Columns `principle` and `prompt_id` are read if they exist. It can be pickled.
    """

    __name__ = "genrm"  # its name in TRL's logs

    def __init__(
        self, url: str | None = None, *, returns: Literal["advantages", "rewards"] = "advantages", **client: Any
    ) -> None:
        """Set what to ask and what to return.

        Args:
            url: URL of the server; by default `GENRM_SERVE_URL`.
            returns: `advantages` or `rewards`. TRL subtracts the mean of a group anyway. Next to other reward functions
                it counts None as 0, which is the mean of the advantages, but worse than any reward.

        Raises:
            ValueError: `returns` is neither of these.
        """
        if returns not in ("advantages", "rewards"):
            raise ValueError(f"returns is {returns!r}; expected 'advantages' or 'rewards'")
        self._client = RewardClient(**client) if url is None else RewardClient(url, **client)
        self._returns = returns

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[Reward]:
        """Return a number or None for each completion of this process."""
        nothing = [None] * len(prompts)
        ids = columns.get("prompt_id") or [json.dumps(prompt) for prompt in prompts]
        here = list(zip(ids, prompts, completions, columns.get("principle") or nothing, strict=True))
        rank, everywhere = _gather(here)
        groups: dict[Any, list[tuple[int, int]]] = {}
        for owner, rows in enumerate(everywhere):
            for place, (id_, *_) in enumerate(rows):
                groups.setdefault(id_, []).append((owner, place))
        mine = [places for places in groups.values() if places[0][0] == rank]  # the rank of the first row asks
        _, found = _gather(self._ask([[everywhere[owner][place] for owner, place in places] for places in mine], mine))
        for error in found:
            if isinstance(error, Exception):
                raise error
        rewards = {place: reward for part in found for place, reward in part.items()}
        _log(columns, [rewards[rank, place] for place in range(len(here))])
        return [rewards[rank, place][self._returns] for place in range(len(here))]

    def _ask(self, groups: list[list[tuple[Any, ...]]], places: list[list[tuple[int, int]]]) -> Any:
        """Score groups; errors are returned so that all processes raise them: otherwise some would wait forever."""

        async def ask() -> list[Json]:
            asked = (
                self._client.score_group(rows[0][1], [row[2] for row in rows], principle=rows[0][3]) for rows in groups
            )
            return await asyncio.gather(*asked)

        try:
            replies = wait_for(ask())
        except Exception as error:  # noqa: BLE001  (raised by the caller, on every rank)
            return error
        return {
            place: {"rewards": reward, "advantages": advantage}
            for reply, where in zip(replies, places, strict=True)
            for place, reward, advantage in zip(where, reply["rewards"], reply["advantages"], strict=True)
        }


def _gather(value: Any) -> tuple[int, list[Any]]:
    """Return this rank, and the values of all ranks in their order."""
    if not (ranks.is_available() and ranks.is_initialized()):
        return 0, [value]
    values = [None] * ranks.get_world_size()
    ranks.all_gather_object(values, value)
    return ranks.get_rank(), values


def _log(columns: Mapping[str, Any], scored: list[Mapping[str, Reward]]) -> None:
    """Log the mean reward, which advantages do not show, and the share without one."""
    log = columns.get("log_metric")
    known = [each["rewards"] for each in scored if each["rewards"] is not None]
    if log is not None and scored:
        log("genrm/unscored", 1 - len(known) / len(scored))
        if known:
            log("genrm/reward", sum(known) / len(known))
