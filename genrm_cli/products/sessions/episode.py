"""One episode: identity, progress and cost, playing it to its end, and its rollout record for
`genrm score`.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from genrm_cli.errors import GenrmError
from genrm_cli.json_types import Record, whole_text
from genrm_cli.products.sessions.environment import (
    CLIENT_FAILED,
    CONTEXT_TOO_LONG,
    POLICY_FAILED,
    PRIVATE_DATA,
    TRUNCATIONS,
    TURN_TOO_LONG,
    AnyEnvironment,
    EpisodeScenario,
    EpisodeState,
    broken,
    ended,
)
from genrm_cli.products.sessions.session_agents import AgentConfig, Answer, RunStoppedError
from genrm_cli.products.sessions.session_options import CLIENT, POLICY
from genrm_cli.rollouts.reading.messages import items_of_text
from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.rollouts.rollout import Turn, words_of
from genrm_cli.verdicts import ChatTurn, Failure, Outcome


class EpisodeSlot(Struct, frozen=True):
    """One episode to play.

    Attributes:
        index: number in its file, from 0.
        variant: variant of the client; each variant is its own group.
        number: within its group, from 0.
        branch_at: the policy's turn at which the episodes of the group diverge, from 1; 1 if they
            share no turns.
        identity: NAME=TEXT: the client says this text before its first words; empty for nothing.
    """

    index: int
    scenario: EpisodeScenario
    variant: int
    seed: int
    number: int
    branch_at: int = 1
    identity: str = ""

    @property
    def group(self) -> str:
        """The name of its group: same scenario, client and seed, and the same history up to the
        branch.
        """
        branch = "" if self.branch_at == 1 else f"/b{self.branch_at}"
        seed = f"/s{self.seed}" if self.seed else ""
        identity = f"@{self.name_of_identity}" if self.identity else ""
        return f"{self.scenario.scenario_id}{identity}/v{self.variant}{seed}{branch}"

    @property
    def name_of_identity(self) -> str:
        """The name of the identity, as records have it."""
        return self.identity.partition("=")[0]

    def repeat_at(self, turn_index: int) -> int:
        """Return the repeat number of the policy's call at a turn; before the branch a group shares
        it.
        """
        own = self.number + 1 if turn_index + 1 >= self.branch_at else 0
        # Variants and numbers are below 2^32, so no two episodes share a number.
        return self.client_repeat << 32 | own

    @property
    def client_repeat(self) -> int:
        """The repeat number of the client's calls, which a whole group shares."""
        return self.seed << 32 | self.variant


class Usage(Struct):
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


class Played(Struct, frozen=True):
    """An episode that has been played; one that failed ends with one of `FAILURES`.

    Attributes:
        faults: faults of the environment's own model.
        hidden: what the environment alone knows of it.
    """

    slot: EpisodeSlot
    state: EpisodeState
    usage: Mapping[str, Usage] = {}
    faults: Sequence[str] = ()
    hidden: Record = {}


# In every record, because a record may be found without the others.
ADVISORY = (
    "Simulated session and automatic scores: advisory, to be reviewed by experts before training."
)


class RunOrigin(Struct, frozen=True):
    """The part that all records of a run share.

    Attributes:
        policy_model: the policy's model and sampling, or the name of a scripted one.
        client: what plays the environment's part.
        scenario_digests: digests of the raw scenarios, by id.
        generator: what played the sessions.
    """

    run_id: str
    policy: Record
    policy_model: Record
    client: Record
    scenario_digests: Mapping[str, str]
    generator: str = "genrm collect"
    created_at: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


def client_record(environment: AnyEnvironment, model: AgentConfig | None) -> Record:
    """Return what plays the environment's part."""
    return {**environment.identity(), "model": None if model is None else model.as_record()}


def episode_record(
    played: Played, environment: AnyEnvironment, run: RunOrigin, reward: Record | None
) -> Record:
    """Return the record of an episode, JSON-ready; `reward` is None if it failed."""
    slot = played.slot
    state = played.state
    scenario = slot.scenario.as_record()
    if slot.identity:
        scenario["identity"] = slot.name_of_identity
    metadata: Record = {
        "env_version": environment.version,
        "generator": run.generator,
        "created_at": run.created_at,
        slot.scenario.origin: True,
        "review": "pending",
        "advisory": ADVISORY,
        "group": slot.group,
        "variant": slot.variant,
        "seed": slot.seed,
        "turns": state.turn_index,
        "end_reason": None,
        "truncated": False,
        **({} if state.end is None else state.end.as_record()),
        "policy_model": run.policy_model,
        "client": run.client,
        "client_faults": list(played.faults),
        "scenario_digest": run.scenario_digests[slot.scenario.scenario_id],
        "tokens": {role: to_builtins(usage) for role, usage in played.usage.items()},
        "hidden": played.hidden,
    }
    if slot.branch_at > 1:
        metadata["branch_at"] = slot.branch_at
    return {
        "run_id": run.run_id,
        "episode_index": slot.index,
        "scenario": scenario,
        "messages": [{"role": turn.role, "content": turn.text} for turn in state.messages],
        "policy": run.policy,
        "reward": reward,
        "metadata": metadata,
    }


class TurnFailedError(Exception):
    """A turn that a role cannot take; the message is the detail of the reason."""

    def __init__(self, role: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.role = role
        # A client that fails says nothing about the policy, however it fails.
        self.reason = CLIENT_FAILED if role == CLIENT and reason != PRIVATE_DATA else reason


def spoken_words(role: str, outcome: Outcome) -> str:
    """Return the text of a reply without its reasoning, or raise `TurnFailedError`."""
    if isinstance(failure := outcome.result, Failure):
        reason = CONTEXT_TOO_LONG if failure.too_long is not None else POLICY_FAILED
        raise TurnFailedError(role, reason, f"{failure.kind}: {failure.detail}")
    if words := words_of(items_of_text(whole_text(outcome.reply_text or ""))).strip():
        return words
    raise TurnFailedError(role, POLICY_FAILED, "a reply holds reasoning only")


def check_turn(role: str, words: str, environment: AnyEnvironment, redactor: Redactor) -> None:
    """Raise `TurnFailedError` for a turn that is too long, or holds private data."""
    size_bytes = len(words.encode())
    most_bytes = environment.max_turn_bytes
    if size_bytes > most_bytes:
        detail = f"a turn of {size_bytes:,} bytes, more than {most_bytes:,}"
        raise TurnFailedError(role, TURN_TOO_LONG, detail)
    matches: Counter[str] = Counter()
    redactor.redact(words, matches)
    if matches:
        detail = f"{role}: matches of redact_pattern: {', '.join(sorted(matches))}"
        raise TurnFailedError(role, PRIVATE_DATA, detail)


async def play_episode(
    slot: EpisodeSlot,
    environment: AnyEnvironment,
    answer: Answer,
    redactor: Redactor,
    scripted_policy: str | None = None,
    on_outcome: Callable[[str, Outcome], None] = lambda role, outcome: None,
) -> Played:
    """Play an episode. Its requests depend on earlier answers only, so a journal resumes it at any
    turn.

    Args:
        redactor: matches in a generated turn end the episode as private data.
        scripted_policy: a policy of the environment that needs no model; None for one that `answer`
            asks.
    """
    usage: dict[str, Usage] = {}

    def take(role: str, outcome: Outcome) -> str:
        usage.setdefault(role, Usage()).add(outcome)
        on_outcome(role, outcome)
        words = spoken_words(role, outcome)
        check_turn(role, words, environment, redactor)
        return words

    async def ask(conversation: tuple[Turn, ...]) -> str:
        return take(CLIENT, await answer(CLIENT, conversation, slot.client_repeat))

    async def act(state: EpisodeState) -> Outcome:
        repeat = slot.repeat_at(state.turn_index)
        if scripted_policy is None:
            shown = environment.messages_shown(state, slot.scenario)
            return await answer(POLICY, shown, repeat)
        return Outcome(
            ChatTurn(), reply_text=environment.scripted_turn(scripted_policy, state, repeat)
        )

    state: EpisodeState = environment.reset(slot.scenario, slot.variant, slot.seed)
    played = Played(slot, state, usage)
    # In the words of the client: a note in the instructions would not test what the policy hears.
    if said := slot.identity.partition("=")[2]:
        *before, first = state.messages
        first = first._replace(text=f"{said} {first.text}")
        state = dataclasses.replace(state, messages=(*before, first))
    try:
        while state.end is None:
            state = await environment.step(state, take(POLICY, await act(state)), ask)
    except TurnFailedError as failed:
        # Without a turn before it, a cut is a failure of the policy.
        is_cut = failed.reason in TRUNCATIONS and not state.turn_index
        reason = POLICY_FAILED if is_cut else failed.reason
        state = ended(state, reason, failed.role, str(failed))
    except (RunStoppedError, GenrmError):
        raise
    except Exception as error:  # noqa: BLE001  (a bug met by one session ends no other)
        return replace(played, state=broken(state, error))
    played = replace(played, state=state)
    try:
        return replace(
            played,
            faults=environment.faults(state),
            hidden=environment.describe(state),
        )
    except Exception as error:  # noqa: BLE001  (code of others)
        return replace(played, state=broken(state, error))
