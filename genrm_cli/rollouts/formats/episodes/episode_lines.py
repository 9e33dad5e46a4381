"""Episodes: whole sessions with a scenario, `messages`, and `reward` as an object of components.

The whole session is judged: the common beginning of the sessions of a scenario (system and first
user turn) is shown as the conversation, the rest as the response.

`reward.total_reward` becomes our reward, and our components join those of the episode under their
own names. The number of the comparisons, which has another scale, stays in `genrm.components`.
`genrm.previous_reward` is the reward that the episode brought, however often it is scored; gates
that it broke stay broken."""

import hashlib
from collections.abc import Sequence

from genrm_cli.json_types import Record, field_at
from genrm_cli.rollouts.formats.episodes.session_safety import (
    CLIENT_HARMED,
    GUARD,
    safety_of_components,
)
from genrm_cli.rollouts.formats.format import (
    Format,
    Score,
    detail_of,
    number_or_none,
    set_detail,
    written_scores,
)
from genrm_cli.rollouts.formats.shapes import read_conversation
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import identifier, index_of, task_of
from genrm_cli.rollouts.reading.values import object_or_empty, words
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.rollouts.scenario import render_scenario

MASKED = "masked (the client was harmed)"
_OF_ONE_SCORE = ("gated_by", "reason")  # of a reward, what another score may not repeat

# Others have an object `scenario` as well: without one of these, it is not a session's.
_SCENARIO_NAMES = frozenset(
    words(
        "scenario_id goal goals constraints hard_constraints risk_level expected_outcomes "
        "client_profile"
    )
)


def _recognise(record: Record) -> bool:
    is_session = not _SCENARIO_NAMES.isdisjoint(object_or_empty(record.get("scenario")))
    return is_session and isinstance(record.get("messages"), list)


def _read(record: Record) -> list[Rollout]:
    # `genrm collect` writes it: same scenario, client and seed, and the same history to a branch.
    group = identifier(field_at(record, "metadata.group"))
    ended_by = field_at(record, "metadata.end_reason")
    rollout = read_conversation(
        record,
        record.get("messages"),
        "task",
        task=task_of(record) if group is None else f"group:{group}",
        index=_index_of(record),
        is_session=True,
        opens_freely=True,
        scenario=render_scenario(record),
        gated_by=_gates_of(_reward_before(record)),
        excluded=MASKED if ended_by == CLIENT_HARMED else None,
    )
    return [rollout]


def _index_of(record: Record) -> int | None:
    """Return the number of the episode combined with its run, because a file may contain the
    episodes of two runs.
    """
    index = index_of(record)
    run = record.get("run_id")
    if index is None or not isinstance(run, str) or not 0 <= index < 2**30:
        return index
    digest = hashlib.blake2b(run.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") << 30 | index


def name_in_episode(name: str) -> str:
    """Return the name that a component has in an episode: a rubric's is that of its competency."""
    return name.removeprefix("rubric_")


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    (score,) = scores
    earlier = _reward_before(record)
    kept = {
        name: value for name, value in object_or_empty(earlier).items() if name not in _OF_ONE_SCORE
    }
    ours = score.detail.get("components") or {}
    components = {**object_or_empty(kept.get("components"))}
    components |= {name_in_episode(name): value for name, value in ours.items() if name != "genrm"}
    record["reward"] = {**kept, "total_reward": score.reward, "components": components}
    if "source" in kept:  # of `genrm collect`: what a judge scored is no longer its smoke test
        is_compared = score.detail.get("judge") is not None and not score.detail.get("is_baseline")
        is_graded = any(name.startswith("rubric_") for name in ours)
        record["reward"]["source"] = "judge" if is_compared or is_graded else "plumbing"
    gates = object_or_empty(score.detail.get("total")).get("gated_by")
    if gates:
        record["reward"]["gated_by"] = gates
    if why := score.detail.get("reason_text"):
        record["reward"]["reason"] = why
    set_detail(record, score.detail | {"previous_reward": earlier})


def _reward_before(record: Record) -> object:
    return object_or_empty(record.get("genrm")).get("previous_reward", record.get("reward"))


def _gates_of(reward: object) -> tuple[str, ...]:
    """Return the gates that a session broke before: those recorded, or in a record without them,
    those that the validators of its writer put at 0. The guard is none: the judge of this run
    decides.
    """
    kept = object_or_empty(reward)
    named = kept.get("gated_by")
    if isinstance(named, list):
        return tuple(str(name) for name in named if name != GUARD)
    if "source" in kept:  # of `genrm collect`, which names the gates that a session broke
        return ()
    values = object_or_empty(kept.get("components"))
    # Other scales may have low values that are no harm; 0 of a constraint is one in all.
    zero = {name: 0.0 for name, value in values.items() if number_or_none(value) == 0}
    return tuple(name for name in safety_of_components(zero, None).broken if name != GUARD)


def _scores(record: Record) -> list[Score]:
    reward = record.get("reward")
    if not isinstance(reward, dict):
        return written_scores(record)
    return [Score(number_or_none(reward.get("total_reward")), detail_of(record))]


FORMAT = Format(
    "episode",
    _recognise,
    _read,
    annotate_rollout=_annotate,
    scores=_scores,
    fields=Fields(prompt=("messages",), response=("messages",)),
    owns_line=True,
)
