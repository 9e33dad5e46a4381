"""A reward function for TRL's `GRPOTrainer`, `RLOOTrainer` and `AsyncGRPOTrainer`.

Source: trl 1.16.0, `trainer/grpo_trainer.py` (`_calculate_rewards`: an asynchronous function runs
on one event loop for the whole training, next to the others), `trainer/rloo_trainer.py`,
`experimental/async_grpo/async_rollout_worker.py`."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal

import torch.distributed as ranks

from genrm_cli.adapters.reward_client import Json, MissingRewardError, RewardClient

Reward = float | None
_ABOUT = ("principle", "reference", "genrm_as")  # columns that are read if they exist
_JUDGE_TIMEOUT = timedelta(days=1)  # the client gives up long before, unless the server works on it


class GenrmReward:
    """Scores each completion against the others of its prompt; None where the judge gave no
    verdict.

        trainer = GRPOTrainer(reward_funcs=GenrmReward("http://localhost:8330"), ...)

    The rows of a prompt may be spread over processes: they are gathered, each group is scored once,
    and every process gets its own part back. Rows belong to one group if they have the same
    `prompt_id`, or the same prompt where the data set has no such column. Columns `principle`,
    `reference` and `prompt_id` are read if they exist. Rows whose column `genrm_as` is `reference`
    are evaluated: each completion's reward is the share of comparisons that it wins against the
    answer in the server's `--reference` file. It is asynchronous, so other asynchronous
    functions run at the same time. It can be pickled before it is first called."""

    __name__ = "genrm"  # its name in TRL's logs

    def __init__(
        self,
        url: str | None = None,
        *,
        returns: str = "rewards",
        on_failure: float | Literal["mean"] | None = None,
        drop_noise: bool = False,
        fields: Sequence[str] = (),
        **client: Any,
    ) -> None:
        """Set what to ask and what to return.

        Args:
            url: URL of the server; by default `GENRM_SERVE_URL`.
            returns: `rewards`, `advantages`, or the name of a component. Next to other reward
                functions TRL counts None as 0, which is the mean of the advantages, but worse than
                any reward. One function for each component keeps rewards apart, as GDPO does; the
                server answers all of them from one judging.
            on_failure: reward of a completion without one, such as an empty one: a number, or
                `mean` for the mean of its group; rewards are then returned.
            drop_noise: return None for all completions of a group whose rewards differ by no more
                than chance, so that nothing is learned from it.
            fields: further columns that the server reads, such as the reference answer.

        Raises:
            ValueError: advantages are to be returned with `on_failure`.
        """
        if returns == "advantages" and on_failure is not None:
            raise ValueError("on_failure is a reward; with it, rewards are returned")
        about = client if url is None else {"url": url, **client}
        self._client = RewardClient(**about, on_failure=on_failure)
        self._returns = returns
        if returns not in ("rewards", "advantages"):
            self.__name__ = f"genrm_{returns}"
        self._drops_noise = drop_noise
        self._fields = fields
        self._ranks: Any = None

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[Reward]:
        """Return a number or None for each completion of this process."""
        if self._ranks is None and ranks.is_available() and ranks.is_initialized():
            # Of its own and on the CPU: TRL's event loop has another current GPU, and a judge may
            # be slower than NCCL waits. Made before the first await, so that all ranks make several
            # in one order.
            self._ranks = ranks.new_group(backend="gloo", timeout=_JUDGE_TIMEOUT)
        nothing = [None] * len(prompts)
        ids = columns.get("prompt_id") or [json.dumps(prompt) for prompt in prompts]
        asked_for = (columns.get(name) or nothing for name in _ABOUT)
        records = [
            {name: columns[name][place] for name in self._fields} for place in range(len(prompts))
        ]
        here = list(zip(ids, prompts, completions, *asked_for, records, strict=True))
        rank, everywhere = await self._gather(here)
        groups: dict[Any, list[tuple[int, int]]] = {}
        for owner, rows in enumerate(everywhere):
            for place, (id_, *_) in enumerate(rows):
                groups.setdefault(id_, []).append((owner, place))
        mine = [
            places for places in groups.values() if places[0][0] == rank
        ]  # the rank of the first row asks
        asking = self._ask(
            [[everywhere[owner][place] for owner, place in places] for places in mine], mine
        )
        _, found = await self._gather(await asking)
        for error in found:
            if isinstance(error, Exception):
                raise error
        by_place = {place: row for part in found for place, row in part.items()}
        rows = [by_place[rank, place] for place in range(len(here))]
        _log(columns, rows)
        return [None if self._drops_noise and row["is_noise"] else row["returned"] for row in rows]

    async def _gather(self, value: Any) -> tuple[int, list[Any]]:
        """Return this rank, and the values of all ranks in their order."""
        if self._ranks is None:
            return 0, [value]
        values = [None] * ranks.get_world_size(self._ranks)
        await asyncio.to_thread(ranks.all_gather_object, values, value, self._ranks)
        return ranks.get_rank(self._ranks), values

    async def _ask(
        self, groups: list[list[tuple[Any, ...]]], places: list[list[tuple[int, int]]]
    ) -> Any:
        """Score groups; errors are returned so that all processes raise them: otherwise some would
        wait forever.
        """
        asked = (
            self._client.score_group(
                rows[0][1],
                [row[2] for row in rows],
                principle=rows[0][3],
                reference=rows[0][4],
                evaluates=rows[0][5] == "reference",
                record=rows[0][6],
            )
            for rows in groups
        )
        try:
            return {
                place: row
                for reply, where in zip(await asyncio.gather(*asked), places, strict=True)
                for place, row in zip(where, self._rows_of(reply), strict=True)
            }
        except Exception as error:  # noqa: BLE001  (raised by the caller, on every rank)
            return error

    def _rows_of(self, reply: Json) -> Iterator[Json]:
        """Yield what is returned and logged of each completion of a group."""
        for response in reply["responses"]:
            number = response["reward"]
            with suppress(MissingRewardError):  # without a replacement, or the mean of nobody: None
                number = self._client.number_in(response, reply["metrics"])
            components = self._client.components_in(response, reply["metrics"])
            returned = {**components, "rewards": number, "advantages": response.get("advantage")}
            if self._returns not in returned:
                known = ", ".join(components) or "none"
                raise ValueError(
                    f"returns is {self._returns!r}; expected rewards, advantages or a component of "
                    f"the server: {known}"
                )
            about = [
                each
                for each in reply["comparisons"]
                if response["id"] in each["shown"] and each.get("reply")
            ]
            yield {
                "given": response["reward"],
                "is_noise": reply["metrics"]["worth_training"] is False,
                "win_percent": (reply["metrics"]["reference"] or {}).get("win_percent"),
                "returned": returned[self._returns],
                "rank": response.get("rank"),
                "standard_error": response.get("standard_error"),
                "judge": "\n\n".join(
                    f"{' and '.join(each['shown'])}: {each['reply']}" for each in about
                ),
            }


def _log(columns: Mapping[str, Any], rows: list[Json]) -> None:
    """Log what advantages do not show: means, the share without a reward, and what is known of each
    row.
    """
    log = columns.get("log_metric")
    if log is not None and rows:
        log("genrm/unscored", sum(row["given"] is None for row in rows) / len(rows))
        log("genrm/noise", sum(row["is_noise"] for row in rows) / len(rows))
        means = {"genrm/reward": "given", "genrm/reference_win_percent": "win_percent"}
        for name, field in means.items():
            known = [row[field] for row in rows if row[field] is not None]
            if known:
                log(name, sum(known) / len(known))
    log_extra = columns.get("log_extra")
    if log_extra is not None:
        for name in ("rank", "standard_error", "judge"):
            log_extra(f"genrm_{name}", [row[name] for row in rows])
