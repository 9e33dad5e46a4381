"""Episodes: whole sessions with a scenario, `messages`, and `reward` as an object of components.

The whole session is judged: the common beginning of the sessions of a scenario (system and first user turn) is shown
as the conversation, the rest as the response.

Our components are added to those of the episode. If a name is taken, ours gets the prefix `genrm_`, and
`genrm.component_names` records it, so that scoring the output again replaces the same component. `total_reward`
changes only if a `[total]` is configured; its previous value is kept under `genrm`.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ASKED,
    Format,
    Score,
    annotate_line,
    detail_of,
    number_or_none,
    set_detail,
    written_scores,
)
from genrm_cli.rollouts.reading.chat_messages import items_of_messages, turns_of_messages
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.message_parts import media_of_messages
from genrm_cli.rollouts.reading.record_fields import identifier, index_of, rollout_of, task_of
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return isinstance(record.get("messages"), list) and isinstance(record.get("scenario"), dict)


def _read(record: Record) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list):
        raise UnreadableRecordError("an episode needs a list of messages")
    turns = turns_of_messages(messages)
    users = [position for position, turn in enumerate(turns) if turn.role == "user"]
    opening = users[0] + 1 if users else 0
    return [
        rollout_of(
            record,
            turns[:opening],
            items_of_messages(messages[opening:]),
            task=_group_of(record) or task_of(record),
            index=_index_of(record),
            is_session=True,
            opens_freely=True,
            prompt_media=media_of_messages(messages[:opening]),
        )
    ]


def _group_of(record: Record) -> str | None:
    """Return the group that `genrm collect` wrote: same scenario, client and seed, and the same history to a branch."""
    metadata = record.get("metadata")
    group = identifier(metadata.get("group")) if isinstance(metadata, dict) else None
    return None if group is None else f"group:{group}"


def _index_of(record: Record) -> int | None:
    """Return the number of the episode combined with its run, because a file may contain the episodes of two runs."""
    index, run = index_of(record), record.get("run_id")
    if index is None or not isinstance(run, str) or not 0 <= index < 2**30:
        return index
    digest = hashlib.blake2b(run.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") << 30 | index


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    reward = record.get("reward")
    if reward is None:
        reward = {}
    if not isinstance(reward, dict):
        annotate_line(record, scores)
        return
    (score,) = scores
    components = reward.get("components")
    before = dict(components) if isinstance(components, dict) else {}
    detail = score.detail | {"previous_reward": before.get("genrm")}
    if components is not None and not isinstance(components, dict):
        detail["previous_components"] = components
    ours = dict(score.detail.get("components") or {"genrm": score.reward})
    if "total" not in score.detail and "genrm" in ours:
        ours["genrm"] = score.reward  # divided among near-duplicates, or the user's default
    names = _names_beside(before, _written_before(record), ours)
    reward = {**reward, "components": {**before, **{names[name]: value for name, value in ours.items()}}}
    if renamed := {name: written for name, written in names.items() if written != name}:
        detail["component_names"] = renamed
    if "total" in score.detail:
        detail["previous_total_reward"] = reward.get("total_reward")
        reward["total_reward"] = score.reward
    record["reward"] = reward
    set_detail(record, detail)


def _scores(record: Record) -> list[Score]:
    """Return the score that `_annotate` wrote: the total if configured, otherwise our component."""
    reward = record.get("reward")
    if not isinstance(reward, dict):
        return written_scores(record)
    detail, components = detail_of(record), reward.get("components")
    if "total" in detail:
        return [Score(number_or_none(reward.get("total_reward")), detail)]
    name = _written_before(record).get("genrm", "genrm")
    return [Score(number_or_none(components.get(name)) if isinstance(components, dict) else None, detail)]


def _written_before(record: Record) -> dict[str, str]:
    """Return the names under which an earlier run wrote its components, by component."""
    genrm = record.get("genrm")
    components, renamed = (
        part if isinstance(genrm, dict) and isinstance(part := genrm.get(key), dict) else {}
        for key in ("components", "component_names")
    )
    return {"genrm": "genrm"} | {name: str(renamed.get(name, name)) for name in components}


def _names_beside(before: Collection[str], written: Mapping[str, str], ours: Collection[str]) -> dict[str, str]:
    """Return the name under which to write each component: the name used before, or else its own unless taken."""
    names: dict[str, str] = {}
    for name in ours:
        free = written.get(name, name)
        while name not in written and (free in before or free in names.values()):
            free = f"genrm_{free}"
        names[name] = free
    return names


FORMAT = Format(
    "episode",
    _recognise,
    _read,
    _annotate,
    scores=_scores,
    fields=Fields(prompt=("messages",), response=("messages",), metadata=("scenario", "metadata", "run_id", "reward")),
    owns_line=True,
    example={"scenario": {"scenario_id": "river"}, "messages": [ASKED, ANSWERED]},
)
