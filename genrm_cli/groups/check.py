"""Refuse settings that cannot work, before any input is read or any call is made."""

from collections.abc import Mapping

from msgspec.structs import replace

from genrm_cli.errors import MissingModelError, UsageError, naming
from genrm_cli.groups.compile import asks_for_verdicts, compile_rewards
from genrm_cli.groups.graders import DIVERSITY, graders_in
from genrm_cli.judging.client import chat_url
from genrm_cli.judging.engine import RecallPolicy
from genrm_cli.judging.lookup import (
    profile_of,
    source_of_profile,
)
from genrm_cli.judging.opening.judge_spec import JudgeSpec, OpenOptions
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import JudgeConfig, judges_of
from genrm_cli.settings.table import changed
from genrm_cli.verdicts import StoppedBy


def check_settings(settings: Settings) -> None:
    """Refuse settings without a judge, with a judge that cannot be asked, or with rewards that
    cannot be computed.

    Raises:
        UsageError: the message says what to pass.
    """
    compile_rewards(settings)
    judges = judges_of(settings) if asks_for_verdicts(settings) else ()
    for number, config in enumerate((*judges, *(grader.config for grader in graders_in(settings)))):
        try:
            _check_judge(config, only_known=asks_nothing(settings))
        except UsageError as error:
            if number >= len(judges) or settings.panel.judges:  # it is one of several
                raise UsageError(f"{config.name}: ", error.message) from None
            raise
    for grader in graders_in(settings):
        if grader.config.judge.judge is not None:
            table = (
                "[diversity]" if grader.kind == DIVERSITY else f"[components.{grader.component}]"
            )
            raise UsageError(
                f"{table} needs a real judge, not ",
                naming(
                    "$judge: set model and base_url in its table.", judge=grader.config.judge.judge
                ),
            )


def refuse_defaults(settings: Settings, measured: str) -> None:
    """Refuse defaults for missing verdicts where verdicts measure something.

    Raises:
        UsageError: `compat` has them.
    """
    if (compat := settings.judge.compat) is not None:
        raise UsageError(
            naming(
                "$compat replaces missing verdicts with defaults, which say nothing about "
                f"{measured}; omit it (`genrm "
                "config` shows its source).",
                compat=compat,
            )
        )


def without_components(settings: Settings) -> Settings:
    """Return settings for verdicts alone, because a settings file may be shared with `genrm
    score`.
    """
    return changed(settings, component=(), components=(), diversity=None, total=None)


def _check_judge(config: JudgeConfig, *, only_known: bool) -> None:
    judge = config.judge
    if judge.judge is not None:
        if judge.base_url:
            raise UsageError(
                naming(
                    "$judge, the built-in baseline, and $base_url exclude each other; omit one "
                    "of them.",
                    judge=judge.judge,
                )
            )
        return
    if only_known and judge.model is None:
        raise UsageError(
            naming(
                "this run calls no judge, but it needs $model: the judge whose verdicts to take "
                "or to ask for."
            )
        )
    if not judge.base_url and not only_known:
        raise UsageError(
            naming(
                "no judge given. Pass $base_url and $model for a real judge, or $judge to try the "
                "pipeline with the "
                "built-in baseline.",
                judge="lexical",
            )
        )
    if judge.model is None:
        raise MissingModelError(
            naming(
                "$base_url requires $model: the name of the judge, as its server lists it under "
                "/v1/models."
            )
        )
    for base_url in judge.base_url:
        chat_url(base_url)
    profile_of(config)


def why_nothing_is_asked(settings: Settings) -> StoppedBy | None:
    """Return the setting that disables calls; None if judges are asked."""
    if settings.offline.is_used:
        return StoppedBy.REPLIES_FROM
    return StoppedBy.CONCLUDE if settings.journal.conclude else None


def asks_nothing(settings: Settings) -> bool:
    """Whether verdicts are taken from the journal, or from replies that come from elsewhere."""
    return why_nothing_is_asked(settings) is not None


def judge_specs(settings: Settings) -> list[JudgeSpec]:
    """Return the judges to open, those that compare before the graders of components.

    Raises:
        UsageError: a profile cannot be found.
    """
    specs = []
    for config in judges_of(settings) if asks_for_verdicts(settings) else ():
        if config.judge.judge is not None:
            specs.append(JudgeSpec(config, None))
            continue
        specs.append(JudgeSpec(config, profile_of(config), source=source_of_profile(config)))
    specs += [
        JudgeSpec(grader.config, grader.profile, compares=False) for grader in graders_in(settings)
    ]
    if settings.judge.compat is not None:
        return specs
    return [replace(spec, max_model_len=spec.config.judge.max_model_len or None) for spec in specs]


def open_options(
    settings: Settings,
    *,
    api_keys: Mapping[str, str],
    resumes: bool = False,
) -> OpenOptions:
    """Return the options that apply to all judges of a run; see `OpenOptions`."""
    return OpenOptions(
        limits=settings.limits,
        probe=settings.judge.probe,
        recall=RecallPolicy(
            only_known=asks_nothing(settings),
            with_failures=settings.journal.conclude,
            only_failed=settings.journal.only_failed,
            with_replies=settings.output.keep_replies,
        ),
        api_keys=api_keys,
        resumes=resumes,
    )
