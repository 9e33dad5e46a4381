"""The models that take part in episodes: the policy, and those that play the environment's part.

They share the HTTP client, pacing, retries, budget, deadline and journal of judges.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from genrm_cli.errors import UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.judging.engine import JudgeSet, RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.judge_spec import JudgeSpec, ModelRole, OpenOptions
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.judging.profiles.profile import ChatProfile
from genrm_cli.judging.requests import ChatPrompt
from genrm_cli.products.sessions.environment import ModelUse
from genrm_cli.products.sessions.session_options import POLICY
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.settings.reward_settings import REFERENCE_SCORE
from genrm_cli.verdicts import Failure, FailureKind, Outcome


class RunStoppedError(Exception):
    """The deadline or a budget ended the run; the message names which."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """A model that takes part in episodes.

    Attributes:
        model: its endpoints, name and sampling.
        request_fields: other fields of its requests, set by its role; immutable.
        api_key: never shown, not even by `repr`.
    """

    model: JudgeSettings
    request_fields: Mapping[str, object] = field(default_factory=dict)
    api_key: str | None = field(default=None, repr=False)

    def used(self, use: ModelUse) -> "AgentConfig":
        """Return the model as an environment uses it."""
        tokens = max(self.model.max_reply_tokens or 0, use.min_tokens)
        model = replace(self.model, max_reply_tokens=tokens)
        return replace(self, model=model, request_fields=use.request_fields)

    def as_record(self) -> Record:
        """Return the model and its sampling, JSON-ready."""
        of = self.model
        sampling = {
            "temperature": of.temperature,
            "top_p": of.top_p,
            "max_tokens": of.max_reply_tokens,
        }
        return {
            "model": of.model,
            "sampling": {name: value for name, value in sampling.items() if value is not None},
        }


_MOST_ASKED = 4  # calls for one turn

Answer = Callable[[str, Sequence[Turn], int], Awaitable[Outcome]]
"""Asks the model of a role for its next turn; equal requests with different repeat numbers are sent
separately.

Raises `RunStoppedError` when the deadline or a budget ends the run.
"""


def _answer_of(roles: Sequence[str], judges: JudgeSet | None) -> Answer:
    """Return what asks the models of these roles, or takes their turns from the journal."""

    async def answer(role: str, conversation: Sequence[Turn], repeat: int) -> Outcome:
        if judges is None or role not in roles:
            raise UsageError(
                f"the environment asks its {role}, but no model plays it; pass ",
                naming("$client_base_url."),
            )
        judge = judges[roles.index(role)]
        request = judge.prepare(ChatPrompt(conversation), repeat)
        # Before a slot is asked for: a turn of the journal is no call, and waits for none.
        (outcome,) = judge.recall([request])
        if outcome is not None:
            await judges.yield_regularly()
        for _ in range(_MOST_ASKED):
            # An empty reply must not end a whole conversation.
            if outcome is not None and outcome.is_decided:
                break
            slot = await judge.admit()
            if slot is None:
                break
            outcome = await judge.ask(request, slot)
        result = None if outcome is None else outcome.result
        if outcome is None or (
            isinstance(result, Failure) and result.kind == FailureKind.NOT_ASKED
        ):
            raise RunStoppedError(judge.stopped_by or "deadline")
        return outcome

    return answer


@asynccontextmanager
async def open_agents(
    agents: Mapping[str, AgentConfig], run: RunContext, journal: Journal | None
) -> AsyncIterator[Answer]:
    """Open the models of a run, test each with a harmless question, and yield what asks them."""
    if not agents:
        yield _answer_of((), None)
        return
    settings = run.settings
    judge = settings.judge
    keys = {role: agent.api_key for role, agent in agents.items()}
    options = OpenOptions(
        limits=settings.limits,
        probe=judge.probe,
        recall=RecallPolicy(with_replies=True),
        api_keys={role: key for role, key in keys.items() if key is not None},
        started_s=run.started_s,
    )
    specs = []
    for role, agent in agents.items():
        model = replace(agent.model, http_client=judge.http_client)
        # Weight and reference verdict are those of a judge; a role gives no verdict.
        config = JudgeConfig(role, model, settings.limits, REFERENCE_SCORE)
        profile = ChatProfile(
            name=role,
            version=1,
            about="takes part in episodes",
            request_fields=agent.request_fields,
        )
        title = "policy" if role == POLICY else "client's model"
        of_role = ModelRole(title, setting_names(role))
        specs.append(JudgeSpec(config, profile, compares=False, role=of_role))
    async with open_judges(specs, options, run.on_event) as judges:
        await judges.probe()
        yield _answer_of(list(agents), judges.with_journal(journal))


def setting_names(role: str) -> Mapping[str, str]:
    """Map setting names of a judge to those of a role: `base_url` to `policy_base_url`, and so
    on.
    """
    names = {name: f"{role}_{name}" for name in ("base_url", "model", "api_key_env")}
    return names | {"max_reply_tokens": f"{role}_max_tokens"}
