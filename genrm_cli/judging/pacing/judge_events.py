"""Events of the judges of a run."""

from collections.abc import Sequence

from genrm_cli.errors import Message, SettingRef
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.verdicts import StoppedBy

# How a profile was chosen, in the words of a log and of a terminal.
_PROFILE_SOURCES = {
    "setting": "set",
    "model name": "by model name",
    "compat": "as in NeMo Gym",
    "default": "default",
    "probe": "found by the probe",
}


class JudgeEvent(Event, frozen=True):
    """A judge was chosen; `profile` is None for the built-in lexical judge."""

    name: str
    model: str | None
    profile: str | None
    profile_from: str | None
    base_urls: Sequence[str]
    http_clients: Sequence[str]
    compares: bool
    max_model_len: int | None

    def text(self) -> str:
        """Name the judge."""
        judge = describe_judge(
            self.name, self.profile, self.profile_from, self.base_urls, self.http_clients
        )
        return f"judge: {judge}"


def describe_judge(
    name: str | None,
    profile: str | None,
    profile_from: str | None,
    base_urls: Sequence[str],
    http_clients: Sequence[str],
    probe: str | None = None,
) -> str:
    """Describe a judge in one line: its name, its profile and how that was chosen, its endpoints,
    the slower HTTP client if it is used, its probe unless it passed.
    """
    if profile is None or profile_from is None:
        return f"{name}, the built-in baseline"
    parts = [
        name,
        f"profile {profile.partition('+')[0]} ({_PROFILE_SOURCES[profile_from]})",
        " ".join(base_urls),
        "over httpx" if "httpx" in http_clients else None,
        f"probe {probe}" if probe not in (None, "passed") else None,
    ]
    return ", ".join(filter(None, parts))


class ProbingEvent(Event, frozen=True):
    """The probe of a judge begins."""

    endpoints: Sequence[str]
    model: str | None
    call_timeout_s: float

    def text(self) -> str:
        """Name the endpoints."""
        return f"probing {', '.join(self.endpoints)} (at most {self.call_timeout_s:g} s per call)"


class ProbeEvent(Event, frozen=True):
    """All judges have been probed; `warning` is None if they passed."""

    severity = Severity.WARNING
    warning: Message | None

    def text(self) -> Message | None:
        """Return the warning."""
        return self.warning


class AdaptedEvent(Event, frozen=True):
    """A judge refused a field of its requests, which use `instead` from now on."""

    severity = Severity.WARNING
    model: str
    field: str
    instead: str | None
    detail: str

    def text(self) -> str:
        """Say what is refused."""
        return f"{self.model} does not take {self.detail}"


class FoundProfileEvent(Event, frozen=True):
    """The default profile got no verdict when the judge was probed, and another one does."""

    severity = Severity.WARNING
    model: str
    profile: str
    found: str
    reason: str

    def text(self) -> Message:
        """Say which is used and why, and what saves the detour."""
        return Message.of(
            f"{self.model}: the profile {self.profile} got no verdict ({self.reason}); its server "
            f"takes a JSON schema, so {self.found} is used. ",
            SettingRef("profile", self.found),
            " saves the detour",
        )


class LearnedContextEvent(Event, frozen=True):
    """A judge's context was learned from a refusal, or from a reply that it cut off."""

    severity = Severity.WARNING
    model: str
    tokens: int

    def text(self) -> Message:
        """Say what was learned, and what saves the detour."""
        return Message.of(
            f"{self.model}: its context is {self.tokens:,} tokens, as its server says: longer "
            "prompts are shortened and asked again. ",
            SettingRef("max_model_len", self.tokens),
            " saves the detour",
        )


class OtherModelEvent(Event, frozen=True):
    """Replies name another model than the requests."""

    severity = Severity.WARNING
    model: str
    other: str

    def text(self) -> str:
        """Name both."""
        return f"{self.model}: replies name another model, {self.other}"


class EndpointDownEvent(Event, frozen=True):
    """An endpoint gets no requests until it recovers."""

    severity = Severity.WARNING
    endpoint: str
    detail: str

    def text(self) -> str:
        """Name the endpoint and the reason."""
        return f"{self.endpoint} is marked unhealthy: {self.detail}"


class EndpointUpEvent(Event, frozen=True):
    """An endpoint has recovered."""

    endpoint: str
    detail: str

    def text(self) -> str:
        """Name the endpoint."""
        return f"{self.endpoint} is healthy again"


class PausedEvent(Event, frozen=True):
    """All endpoints of a judge are down."""

    severity = Severity.WARNING
    detail: str
    give_up_after_s: float

    def text(self) -> str:
        """Say how long the run waits."""
        return (
            f"the judge is down ({self.detail}); giving up unless it recovers within "
            f"{self.give_up_after_s:g} s"
        )


class StoppedEvent(Event, frozen=True):
    """A limit stopped the calls of the run."""

    severity = Severity.WARNING
    reason: StoppedBy

    def text(self) -> Message:
        """Name the limit."""
        return Message.of(
            "stopped by ",
            SettingRef(self.reason),
            ": making no more calls and writing partial results",
        )


JUDGE_WARNINGS = (
    AdaptedEvent,
    LearnedContextEvent,
    OtherModelEvent,
    EndpointDownEvent,
    PausedEvent,
)
"""Events that explain why a call to a judge takes long, or differs from the settings."""
