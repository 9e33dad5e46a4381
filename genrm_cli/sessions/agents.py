"""The models that take part in episodes: the policy, and those that play the environment's part.

They share the HTTP client, pacing, retries, budget, deadline and journal of judges.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from genrm_cli.errors import JudgeError, UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.judging.engine import JudgeSet, RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.judge_spec import JudgeSpec, OpenOptions
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.judging.opening.probe import ModelRole
from genrm_cli.judging.profiles.profile import ChatProfile
from genrm_cli.judging.requests import ChatPrompt
from genrm_cli.rollouts.reading.chat_messages import items_of_text
from genrm_cli.rollouts.rollout import Turn, words_of
from genrm_cli.sessions.environment import AnyEnvironment, Ask, ModelUse, run_dialogue
from genrm_cli.sessions.session_options import POLICY
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.settings.reward_settings import REFERENCE_SCORE
from genrm_cli.verdicts import MIDDLE_RANKING, Failure, FailureKind, Outcome


class RunStoppedError(Exception):
    """The deadline or a budget ended the run; the message names which."""


class SilentError(Exception):
    """A model returned no turn; `is_too_long` if the conversation exceeds its context."""

    def __init__(self, detail: str, *, is_too_long: bool = False) -> None:
        super().__init__(detail)
        self.is_too_long = is_too_long


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
        """Return the model as an environment uses it in one role."""
        temperature = self.model.temperature if use.temperature is None else use.temperature
        tokens = max(self.model.max_reply_tokens or 0, use.min_tokens)
        model = replace(self.model, temperature=temperature, max_reply_tokens=tokens)
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


Answer = Callable[[str, Sequence[Turn], int], Awaitable[Outcome]]
"""Asks the model of a role for its next turn; equal requests with different repeat numbers are sent
separately.

Raises `RunStoppedError` when the deadline or a budget ends the run.
"""


def _answer_of(roles: Sequence[str], judges: JudgeSet | None) -> Answer:
    """Return what asks the models of these roles, or takes their turns from the journal."""
    numbers = {role: number for number, role in enumerate(roles)}

    async def answer(role: str, conversation: Sequence[Turn], repeat: int) -> Outcome:
        if judges is None or role not in numbers:
            raise UsageError(
                f"the environment asks its {role}, but no model plays it; pass ",
                naming("$client_base_url."),
            )
        judge = judges[numbers[role]]
        request = judge.prepare(ChatPrompt(conversation), repeat)
        (outcome,) = judge.recall([request])
        if outcome is not None:
            await judges.yield_regularly()
        elif (slot := await judge.admit()) is not None:
            outcome = await judge.ask(request, slot)
        result = None if outcome is None else outcome.result
        if outcome is None or (
            isinstance(result, Failure) and result.kind == FailureKind.NOT_ASKED
        ):
            raise RunStoppedError(judge.stopped_by or "deadline")
        return outcome

    return answer


def spoken_words(outcome: Outcome) -> str:
    """Return the text of a reply without its reasoning; raise `SilentError` if it is empty."""
    if isinstance(failure := outcome.result, Failure):
        raise SilentError(f"{failure.kind}: {failure.detail}", is_too_long=failure.is_too_long)
    if words := words_of(items_of_text(outcome.reply_text or "")).strip():
        return words
    raise SilentError("a reply holds reasoning only")


@asynccontextmanager
async def open_agents(
    agents: Mapping[str, AgentConfig],
    environment: AnyEnvironment,
    run: RunContext,
    journal: Journal | None,
) -> AsyncIterator[Answer]:
    """Open the models of a run, test each with a harmless question and in its role, and yield what
    asks them.
    """
    if not agents:
        yield _answer_of((), None)
        return
    settings = run.settings
    options = OpenOptions(
        limits=settings.limits,
        probe=settings.judge.probe,
        recall=RecallPolicy(with_replies=True),
        api_keys={
            role: agent.api_key for role, agent in agents.items() if agent.api_key is not None
        },
        started_s=run.started_s,
    )
    specs = []
    for role, agent in agents.items():
        model = replace(
            agent.model,
            ca_bundle=settings.judge.ca_bundle,
            http_client=settings.judge.http_client,
        )
        config = JudgeConfig(role, 1.0, model, settings.limits, REFERENCE_SCORE, MIDDLE_RANKING)
        profile = ChatProfile(role, 1, "takes part in episodes", agent.request_fields)
        specs.append(JudgeSpec(config, profile, compares=False, role=_role_of(role)))
    async with open_judges(specs, options, run.on_event) as judges:
        await judges.probe()
        answer = _answer_of(list(agents), judges.with_journal(journal))
        if settings.judge.probe:
            await _probe_parts(environment, answer, list(agents.values())[-1].model.model)
        yield answer


async def _probe_parts(environment: AnyEnvironment, answer: Answer, model: str | None) -> None:
    """Refuse a model that cannot play the environment's part."""

    async def ask_model(ask: Ask) -> str:
        try:
            return spoken_words(await answer(ask.role, ask.conversation, 1))
        except SilentError as error:
            raise JudgeError(f"{_role_of(ask.role).title}: {error}") from error

    try:
        complaint = await run_dialogue(environment.probe_models(), ask_model)
    except RunStoppedError:
        return  # the first session reports it
    if complaint:
        raise JudgeError(
            f"client's model: {model} cannot play its part: {complaint}. ",
            naming("Choose a more capable $client_model, or pass $probe.", probe=False),
        )


def _role_of(role: str) -> ModelRole:
    return ModelRole("policy" if role == POLICY else "client's model", setting_names(role))


def setting_names(role: str) -> Mapping[str, str]:
    """Map setting names of a judge to those of a role: `base_url` to `policy_base_url`, and so
    on.
    """
    of = POLICY if role == POLICY else "client"
    names = {name: f"{of}_{name}" for name in ("base_url", "model", "api_key_env")}
    return names | {"max_reply_tokens": f"{of}_max_tokens"}
