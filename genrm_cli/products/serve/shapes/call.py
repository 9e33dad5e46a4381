"""The input and the fields of a shape."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from genrm_cli.errors import counted
from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.http_server.http_replies import JsonReply, RefusedError
from genrm_cli.http_server.router import parse_body
from genrm_cli.json_types import JsonObject, Record, whole_characters, whole_text
from genrm_cli.products.serve.cohorts.cohort import Member, canonical_json, index_in
from genrm_cli.products.serve.cohorts.rounds import RoundsService
from genrm_cli.products.serve.served_answers import GroupAnswer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.rollouts.formats import FORMATS, recognise
from genrm_cli.rollouts.gym_view import gym_line
from genrm_cli.rollouts.reading.known_names import part_named
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.settings.file_settings import ServeSettings
from genrm_cli.settings.kinds import ON_FAILURE


class Call(Struct):
    """One request.

    `take_json` empties the body, as thousands of requests may wait for long. The path has its
    percent-encoding, as ids may contain slashes."""

    body: bytes
    path: str
    query: Mapping[str, str]
    rounds: RoundsService
    settings: ServeSettings
    is_gone: Callable[[], bool]

    def take_json(self) -> Record:
        """Return the body as a JSON object, and forget it."""
        body = self.body
        self.body = b""
        return parse_body(body)

    @property
    def service(self) -> RewardService:
        """What judges groups and cohorts."""
        return self.rounds.service

    @property
    def on_failure(self) -> float | Literal["mean"] | None:
        """The replacement for a missing reward: that of the URL, or else of the settings."""
        setting = self.query.get("on_failure", self.settings.on_failure)
        if setting is None:
            return None
        parsed = ON_FAILURE.parse(setting)
        if parsed is None:
            raise UnreadableRecordError(f"?on_failure is not {ON_FAILURE.expected}")
        return "mean" if parsed == "mean" else float(parsed)

    def evaluates(self, value: object = None) -> bool:
        """Return whether a response is compared with the reference answer to its prompt, not with
        its siblings, as its record or its URL says (`?as=reference`).
        """
        given = self.query.get("as") if value is None else value
        if given not in (None, "reference"):
            raise UnreadableRecordError(f"as is {given!r}, expected reference")
        return given is not None

    def number_of(self, score: ScoredLine, answer: GroupAnswer) -> float:
        """Return the reward of a rollout, or the user's replacement, which is counted.

        `mean` is the mean of the rewards in its group, or of all groups so far if its group has
        none, or before the first the middle of the judge's scale. Raises `NoRewardError` if there
        is none.
        """
        if score.reward is not None:
            return score.reward
        counts = answer.counts
        instead = self.on_failure
        if instead == "mean":
            instead = counts.reward_mean
            if instead is None:
                instead = counts.reward_mean_before
        if instead is None:
            member = answer.ids[score.index]
            raise NoRewardError(
                f"group {answer.name!r}: no reward for {member!r}: {score.reason_text}"
            )
        self.service.counts.default_rewards += 1
        return instead

    def cohort_size_of(self, value: object) -> int:
        """Return the size of a cohort: as the request has it, as its URL says (`?size=8`), or as
        `cohort_size` does.
        """
        if value is not None:
            return size_of(value)
        size = self.query.get("size")
        if size is not None:
            return size_of(index_in(size), "?size")
        if self.settings.cohort_size is None:
            raise UnreadableRecordError(
                "the size of the cohort is not known; add ?size=N to the URL, or set cohort_size "
                "of the server"
            )
        return self.settings.cohort_size


class NoRewardError(RefusedError):
    """A rollout has no reward, and the shape requires a number."""

    kind = "no_reward"


Handler = Callable[[Call], Awaitable[JsonReply]]


Route = tuple[str, str, Handler]
"""The method and the path of an endpoint, and what answers it."""

MAX_SIZE = 1_024  # a cohort is planned at its first member, while all others wait
MAX_DEADLINE_S = 86_400  # a longer one is a mistake of units
MAX_ID_CHARS = 512  # ids appear in logs, journal keys and URLs


def identifier_of(value: object, name: str) -> str:
    """Return a text or an integer as an id."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise UnreadableRecordError(f"{name} is not a text or an integer")
    if len(str(value)) > MAX_ID_CHARS:
        raise UnreadableRecordError(f"{name} is longer than {MAX_ID_CHARS} characters")
    return whole_text(str(value))


def size_of(value: object, name: str = "size") -> int:
    """Return the size of a cohort, from 1 to `MAX_SIZE`."""
    # To Python, true is the integer 1.
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE:
        raise UnreadableRecordError(f"{name} is not an integer between 1 and {MAX_SIZE}")
    return value


def deadline_of(value: object) -> float | None:
    """Return seconds, at most a day; None if none are given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        value = 0
    if not 0 < value <= MAX_DEADLINE_S:
        raise UnreadableRecordError(
            f"deadline_s is not a positive number of seconds, at most {MAX_DEADLINE_S}"
        )
    return float(value)


def rollout_of(id_: str, name: str, request: Record, response: Record, plan: GroupPlan) -> Member:
    """Return a response to the messages of a request as a member of the group `name`.

    By the plan, an object of the Responses API may be shown as by NeMo Gym.
    """
    line = line_of(name, request, response)
    as_line = None
    if plan.shows_as_gym:
        as_line = gym_line(line["prompt"], line["completion"])
    if as_line is None:
        return member_of(id_, line, plan)
    del line["prompt"], line["completion"]
    return member_of(id_, line | as_line, plan, "nemo_gym")


def line_of(name: str, request: Record, response: Record) -> Record:
    """Return a response to the messages of a request as a line that `genrm score` reads."""
    messages = request.get("messages")
    if not isinstance(messages, (str, list)) or not messages:
        raise UnreadableRecordError("messages is neither a text nor a list of messages")
    if ("text" in response) == ("item" in response):
        raise UnreadableRecordError("a response has either text or item")
    if not isinstance(response.get("text"), str | None):
        raise UnreadableRecordError("text is not a text")
    record = response.get("record") or {}
    if not isinstance(record, dict):
        raise UnreadableRecordError("record is not an object")
    # A name that the record has for its prompt is its own.
    line = {
        "prompt_id": name,
        **record,
        "prompt": messages,
        "completion": response.get("text", response.get("item")),
    }
    principle = request.get("principle")
    return line if principle is None else {**line, "principle": principle}


def member_of(id_: str, line: Record, plan: GroupPlan, format_: str = "completion") -> Member:
    """Read a member from a line in this format.

    The request says what is the prompt and what the response: of the record's other fields, only
    those with the name of one could contradict it."""
    shown = shown_of(line)
    try:
        recognised = recognise(shown, settled=others_of(shown))
    except UnreadableRecordError as error:
        own = ", ".join(
            sorted(name for name in shown.keys() - {"prompt", "completion"} if part_named(name))
        )
        if not own:
            raise
        unclear = f"the record's {own} could be part of the prompt or a response; rename it"
        raise UnreadableRecordError(unclear) from error
    if recognised is not FORMATS[format_]:
        raise UnreadableRecordError(
            f"the fields of the record make it a line in the format {recognised.name!r}"
        )
    rollouts = recognised.read(shown)
    if len(rollouts) != 1:
        raise UnreadableRecordError(f"holds {counted(len(rollouts), 'response')}, expected one")
    rollout = plan.with_chosen_fields(rollouts[0], shown)
    return Member.of(id_, line, shown, rollout)


def shown_of(line: JsonObject) -> Record:
    """Return a line in whole characters."""
    try:
        msgspec.json.encode(line)  # which refuses half ones, in a tenth of the time
    except UnicodeEncodeError:
        shown: Record = whole_characters(line)
        return shown
    return dict(line)


def others_of(line: Record) -> list[str]:
    """Return the fields of a line that have no name of a prompt or a response."""
    return [name for name in line if part_named(name) is None]


def digest_of(value: object) -> bytes:
    """Return a digest of a JSON value; equal values have equal digests."""
    return hashlib.sha256(canonical_json(value)).digest()
