"""The judges to open for a run, and the options that they share."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from genrm_cli.judging.engine import RecallPolicy
from genrm_cli.judging.lookup import ProfileSource
from genrm_cli.judging.profiles.profile import AnyProfile
from genrm_cli.settings.judge_settings import LimitSettings
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.verdicts import ProbeResult


class ModelRole(Struct, frozen=True):
    """The title of a model in messages, and the names of its settings where they differ from a
    judge's.
    """

    title: str = "judge"
    settings: Mapping[str, str] = {}


JUDGE = ModelRole()


class JudgeSpec(Struct, frozen=True):
    """A judge to open.

    Attributes:
        profile: its profile; None for the built-in lexical judge.
        compares: whether it must prefer the better response when probed; False for a grader of
            components.
        role: its name, and those of its settings, in messages.
        max_model_len: context length in tokens, as set, reported by the endpoints or found in the
            journal; None if unknown.
        probe: the result of its probe; None before it is asked, and for the built-in judge.
    """

    config: JudgeConfig
    profile: AnyProfile | None
    compares: bool = True
    source: ProfileSource = ProfileSource.SETTING
    role: ModelRole = JUDGE
    max_model_len: int | None = None
    probe: ProbeResult | None = None


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options that apply to all judges of a run.

    Attributes:
        api_keys: API keys by judge name; never shown, not even by `repr`.
        started_s: start of the run, by the monotonic clock; the deadline counts from it.
        resumes: continue after the judge was down for `give_up_after`, as a server does.
    """

    limits: LimitSettings
    probe: bool = True
    recall: RecallPolicy = field(default_factory=RecallPolicy)
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    started_s: float = field(default_factory=time.monotonic)
    resumes: bool = False
