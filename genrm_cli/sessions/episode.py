"""One episode: identity, progress, cost, and its rollout record, one line of a file that `genrm score` reads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from genrm_cli.json_types import Record
from genrm_cli.sessions.environment import AnyEnvironment, EpisodeScenario, EpisodeState
from genrm_cli.verdicts import ChatTurn, Outcome


@dataclass(frozen=True, slots=True)
class EpisodeSlot:
    """One episode to play.

    Attributes:
        index: number in its file, from 0.
        scenario: what is played.
        variant: of the client; another variant is another group.
        seed: of the environment.
        number: within its group, from 0.
        branch_at: the policy's turn at which the episodes of the group part, from 1; 1 where they share nothing.
    """

    index: int
    scenario: EpisodeScenario
    variant: int
    seed: int
    number: int
    branch_at: int = 1

    @property
    def group(self) -> str:
        """The name of its group: same scenario, client and seed, and the same history up to the branch."""
        branch = "" if self.branch_at == 1 else f"/b{self.branch_at}"
        return f"{self.scenario.scenario_id}/v{self.variant}{branch}"

    def repeat_at(self, turn_index: int) -> int:
        """Return the repeat number of the policy's call at a turn; before the branch a group shares it."""
        own = self.number + 1 if turn_index + 1 >= self.branch_at else 0
        return self.client_repeat << 32 | own

    @property
    def client_repeat(self) -> int:
        """The repeat number of the client's calls, which a whole group shares."""
        return self.seed << 32 | self.variant


@dataclass(slots=True)
class Usage:
    """The cost of one role in an episode, whether this run or an earlier one paid it."""

    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut_turns: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count an answer."""
        self.turns += 1
        self.prompt_tokens += outcome.prompt_tokens
        self.completion_tokens += outcome.completion_tokens
        self.cut_turns += isinstance(outcome.result, ChatTurn) and outcome.result.is_truncated


@dataclass(slots=True)
class Played:
    """An episode that has been played.

    Attributes:
        slot: which one.
        state: its last.
        failed: why it is no episode, one of `FAILURES`; None if it is one.
        detail: what happened then.
        usage: by role.
    """

    slot: EpisodeSlot
    state: EpisodeState
    failed: str | None = None
    detail: str = ""
    usage: dict[str, Usage] = field(default_factory=dict)

    @property
    def end_reason(self) -> str | None:
        """Why the session failed, or how the episode ended."""
        return self.failed or (None if self.state.end is None else self.state.end.reason)


GENERATOR = "genrm collect"
ADVISORY = "Simulated session and automatic scores: advisory, to be reviewed by experts before training."


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """The part that all records of a run share.

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
    policy: Record
    policy_model: Record
    client: Record
    scenario_digests: Mapping[str, str]


def episode_record(
    played: Played,
    environment: AnyEnvironment,
    run: RunOrigin,
    reward: Record | None,
    faults: Sequence[str],
) -> Record:
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
            "end_reason": played.end_reason,
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
