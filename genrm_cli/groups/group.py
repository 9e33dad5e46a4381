"""A group before and after it was judged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Self

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from genrm_cli.errors import InputError
from genrm_cli.json_types import JsonObject, whole_characters
from genrm_cli.judging.requests import ExtraCalls, RequestId
from genrm_cli.rewards.component import Column
from genrm_cli.rewards.shaping import TextShape
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.gym_view import as_gym, gym_line
from genrm_cli.rollouts.reading.answers import items_of_response
from genrm_cli.rollouts.reading.messages import media_of_messages, turns_of_prompt
from genrm_cli.rollouts.rollout import Item, Rollout, UnreadableRecordError
from genrm_cli.rollouts.views import with_one_reading
from genrm_cli.verdicts import Explanation, Outcome, Reason

Results = list[tuple[RequestId, Outcome]]


class Group(Struct, frozen=True):
    """The rollouts of one task; `Group.of` builds one from a prompt and its responses.

    Attributes:
        key: name of the group; together with the setting `seed`, it determines which rollouts are
            compared. None for a single rollout that belongs to no group.
        rollouts: rollouts in the group's order, in one reading of what is reasoning.
        records: fields of each rollout, for components that read them; otherwise empty.
        mixed: why no rollouts can be compared: their prompts or reference answers differ; None if
            they do not.
    """

    key: str | None
    rollouts: Sequence[Rollout]
    records: Sequence[JsonObject] = ()
    mixed: Reason | None = None

    def __post_init__(self) -> None:
        """Read the responses once: what is measured, clustered and copied is what is shown."""
        force_setattr(self, "rollouts", with_one_reading(self.rollouts))

    @classmethod
    def of(
        cls,
        prompt: object,
        responses: Sequence[object],
        *,
        key: str | None = None,
        principle: str | None = None,
        reference: str | None = None,
    ) -> Self:
        """Build a group from a prompt and the responses to it.

        Args:
            prompt: a string, or a list of messages (`{"role": ..., "content": ...}`).
            responses: n responses, n >= 0. Each is a string, a message, a list of messages, an
                object of the Responses API, or None if the generation failed.
            key: name of the group; by default a hash of the prompt.
            principle: the criterion to judge by; by default the setting `principle`.
            reference: the known answer, to be shown to the judge as such.

        Raises:
            InputError: the prompt or a response cannot be read.
        """
        if isinstance(responses, (str, bytes, Mapping)) or not isinstance(responses, Sequence):
            raise InputError(
                f"the responses are {type(responses).__name__!r}; expected a list of responses."
            )
        prompt = whole_characters(prompt)
        principle = whole_characters(principle)
        reference = whole_characters(reference)
        key = whole_characters(key)
        responses = list(map(whole_characters, responses))
        try:
            turns = turns_of_prompt(prompt)
        except UnreadableRecordError as error:
            raise InputError(f"{error}.") from error
        media = media_of_messages(prompt)
        rollouts = [
            Rollout(
                turns,
                _parse_response(index, each),
                principle,
                reference=reference,
                prompt_media=media,
            )
            for index, each in enumerate(responses)
        ]
        lines = [gym_line(prompt, response) for response in responses]
        records = [line for line in lines if line is not None]
        return cls(
            key or (group_key(rollouts[0], 1) if rollouts else ""),
            rollouts,
            records if len(records) == len(rollouts) else (),
        )

    def as_gym(self) -> Self:
        """Return the group as NeMo Gym reads its records; the same group without records."""
        if not self.records:
            return self
        return replace(self, rollouts=list(map(as_gym, self.rollouts, self.records)))


def _parse_response(index: int, response: object) -> tuple[Item, ...] | None:
    try:
        return items_of_response(response)
    except UnreadableRecordError as error:
        raise InputError(
            f"response {index} is {type(response).__name__!r}: {error}. "
            "Expected a string, a message, a list of messages or None."
        ) from error


class JudgedGroup(Struct):
    """Everything known about a group after it was judged; its texts are no longer needed.

    Attributes:
        key: key of the group; None for a single rollout that belongs to no group.
        answered: indices of the rollouts that can be compared, of equal ones the first.
        has_response: whether each rollout has a response.
        not_compared: why each rollout cannot be compared; None for those that can.
        shapes: lengths and style of each rollout's texts.
        results: result of every request, in the order of `RequestId` once `sort` was called.
        neutralised: what was broken up in each response by its index: the number of places for the
            judge with most.
        copies: the other ones, by index, each with the one whose comparisons count for it.
        gated: the gates that rollouts broke when they were collected, by index.
        columns: components that need no judge.
        clusters: number of the cluster of each of `answered`, by n-grams; None if not requested.
        redactions: matches masked in the texts that the judges were shown, by name; each text
            counts once.
        shortened: characters cut out of the prompt and a response so that they fit into the judges'
            context, by index; empty if all fit.
        extra: the calls that may still replace failed ones.
    """

    key: str | None
    size: int
    mixed: Reason | None
    answered: tuple[int, ...]
    has_response: tuple[bool, ...]
    not_compared: tuple[Explanation | None, ...]
    view: str
    shapes: list[TextShape]
    results: Results = []
    copies: Mapping[int, int] = {}
    neutralised: dict[int, int] = {}
    gated: Mapping[int, tuple[str, ...]] = {}
    columns: dict[str, Column] = {}
    clusters: list[int] | None = None
    redactions: Counter[str] = field(default_factory=Counter)
    shortened: dict[int, int] = {}
    extra: ExtraCalls = field(default_factory=lambda: ExtraCalls(0))

    @property
    def blank(self) -> tuple[int, ...]:
        """Indices of the rollouts without anything that a judge could see."""
        return tuple(
            index
            for index, why in enumerate(self.not_compared)
            if why is not None and why.reason is Reason.BLANK
        )

    @property
    def counted(self) -> list[int]:
        """Indices of the rollouts that count: not masked, failed, superseded or outside a trial."""
        return [
            index
            for index, why in enumerate(self.not_compared)
            if why is None or not why.reason.is_exclusion
        ]

    @property
    def is_comparable(self) -> bool:
        """Whether the rollouts answer one prompt."""
        return self.mixed is None and self.key is not None

    def sort(self) -> None:
        """Bring the results into an order that does not depend on which request was answered
        first, and count what was cut out of single requests.
        """
        self.results.sort(key=lambda result: result[0])
        for id_, outcome in self.results:
            for index, chars in zip(id_.shown, outcome.shortened, strict=False):
                self.shortened[index] = max(chars, self.shortened.get(index, 0))
