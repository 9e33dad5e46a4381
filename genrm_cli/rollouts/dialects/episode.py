"""Episodes: whole sessions with a scenario, `messages`, and `reward` as an object of components.

The whole session is judged: what the sessions of a scenario have in common at the beginning (system and first
user turn) is shown as the conversation, the rest as the response.

Our components go beside the episode's; one whose name is taken there is called `genrm_` and its name. `total_reward`
changes only where a `[total]` is configured; what it was stays under `genrm`.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence

from genrm_cli.rollouts.dialects.dialect import Dialect, Score, annotate_line, set_detail
from genrm_cli.rollouts.dialects.fields import (
    Record,
    index_of,
    principle_of,
    response_of_messages,
    task_of,
    turns_of_messages,
)
from genrm_cli.rollouts.record import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return isinstance(record.get("messages"), list) and isinstance(record.get("scenario"), Mapping)


def _read(record: Record) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list):
        raise UnreadableRecordError("an episode needs a list of messages")
    turns = turns_of_messages(messages)
    users = [place for place, turn in enumerate(turns) if turn.role == "user"]
    opening = users[0] + 1 if users else 0
    answer, reasoning = response_of_messages(messages[opening:])
    return [
        Rollout(
            prompt=turns[:opening],
            answer=answer,
            reasoning=reasoning,
            principle=principle_of(record),
            task=task_of(record),
            index=_index_of(record),
            session=turns[opening:],
        )
    ]


def _index_of(record: Record) -> int | None:
    """Return the episode's number, set apart by its run: the episodes of two runs may stand in one file."""
    index, run = index_of(record), record.get("run_id")
    if index is None or not isinstance(run, str) or not 0 <= index < 2**30:
        return index
    digest = hashlib.blake2b(run.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") << 30 | index


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    reward = record.get("reward")
    if reward is None:
        reward = {}
    if not isinstance(reward, Mapping):
        annotate_line(record, scores)
        return
    (score,) = scores
    components = reward.get("components")
    before = dict(components) if isinstance(components, Mapping) else {}
    detail = score.detail | {"previous_reward": before.get("genrm")}
    if components is not None and not isinstance(components, Mapping):
        detail["previous_components"] = components
    ours = score.detail.get("components") or {"genrm": score.reward}
    names = _names_beside(before, _written_before(record))
    reward = {**reward, "components": {**before, **{names(name): value for name, value in ours.items()}}}
    if "total" in score.detail:
        detail["previous_total_reward"] = reward.get("total_reward")
        reward["total_reward"] = score.reward
    record["reward"] = reward
    set_detail(record, detail)


def _written_before(record: Record) -> Collection[str]:
    """Return the components that an earlier run of ours left in the record."""
    genrm = record.get("genrm")
    components = genrm.get("components") if isinstance(genrm, Mapping) else None
    return components if isinstance(components, Mapping) else ()


def _names_beside(before: Collection[str], ours_before: Collection[str]) -> Callable[[str], str]:
    """Return how our components are called: by their names, unless the episode has its own of such a name."""

    def name_of(name: str) -> str:
        return f"genrm_{name}" if name in before and name not in ours_before and name != "genrm" else name

    return name_of


DIALECT = Dialect("episode", _recognise, _read, _annotate)
