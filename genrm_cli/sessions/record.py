"""The rollout record of an episode: the shape that trainers and `genrm score` read, one line an episode."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from genrm_cli.sessions.environment import Environment, ScenarioT, StateT
from genrm_cli.sessions.episode import Played

GENERATOR = "genrm collect"
ADVISORY = "Simulated session and automatic scores: advisory, to be reviewed by experts before training."


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What all records of a run share.

    Attributes:
        run_id: name of the run.
        created_at: when it began, ISO 8601.
        policy: the object `policy` of the records.
        policy_model: the policy's model and sampling, or the name of a scripted one.
        client: the same of the models that play the environment's part.
        scenario_digests: of the scenarios as they were read, by id.
    """

    run_id: str
    created_at: str
    policy: Mapping[str, Any]
    policy_model: Mapping[str, Any]
    client: Mapping[str, Any]
    scenario_digests: Mapping[str, str]


def episode_record(
    played: Played[ScenarioT, StateT],
    environment: Environment[ScenarioT, StateT],
    run: RunRecord,
    reward: Mapping[str, Any] | None,
    faults: Sequence[str],
) -> dict[str, Any]:
    """Return the record of an episode, JSON-ready; `reward` is None where it is no episode."""
    slot, end = played.slot, played.state.end
    failure = {} if played.failed is None else {"failure": played.detail}
    return {
        "run_id": run.run_id,
        "episode_index": slot.index,
        "scenario": slot.scenario.as_record(),
        "messages": [{"role": turn.role, "content": turn.text} for turn in played.state.messages],
        "policy": dict(run.policy),
        "reward": reward,
        "metadata": {
            "env_version": environment.version,
            "generator": GENERATOR,
            "created_at": run.created_at,
            slot.scenario.origin: True,
            "review": "pending",
            "advisory": ADVISORY,
            "group": slot.group,
            "variant": slot.variant,
            "seed": slot.seed,
            **({} if slot.branch_at == 1 else {"branch_at": slot.branch_at}),
            "turns": played.state.turn_index,
            "end_reason": played.failed or (None if end is None else end.reason),
            **({} if end is None else {"ended_by": end.by}),
            **({"end_evidence": end.evidence} if end is not None and end.evidence else {}),
            "truncated": end is not None and end.truncated,
            **failure,
            "policy_model": dict(run.policy_model),
            "client": dict(run.client),
            "client_faults": list(faults),
            "scenario_digest": run.scenario_digests[slot.scenario.scenario_id],
            "tokens": {role: asdict(usage) for role, usage in played.usage.items()},
            "hidden": environment.describe(played.state),
        },
    }


def digest_of_json(value: object) -> str:
    """Return the first 16 hexadecimal digits of the sha256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]
