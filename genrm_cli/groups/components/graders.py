"""The judges that grade components, and how each is asked."""

from dataclasses import dataclass, replace
from functools import lru_cache

from genrm_cli.judging.lookup import find_rubric_set
from genrm_cli.judging.profiles.profile import GradingProfile
from genrm_cli.judging.rubrics.clusters import CLUSTERS
from genrm_cli.judging.rubrics.grading import grading_profile
from genrm_cli.judging.rubrics.ranking import ranking_profile
from genrm_cli.judging.rubrics.rubric_sets import RubricSet
from genrm_cli.settings import Settings
from genrm_cli.settings.components import Component
from genrm_cli.settings.panel import JudgeConfig, graders_of

DIVERSITY = "diversity"


@dataclass(frozen=True, slots=True)
class Grader:
    """One judge that grades a component.

    Attributes:
        component: the name of its table; `diversity` for the grader that finds clusters.
        kind: `rubric`, `rubric_rank` or `diversity`.
        names: names of the components that its grades become, in order; empty for `diversity`.
        config: settings of the judge.
        profile: the profile of the judge.
        rubric_set: the rubrics to grade by; None for `diversity`.
    """

    component: str
    kind: str
    names: tuple[str, ...]
    config: JudgeConfig
    profile: GradingProfile
    rubric_set: RubricSet | None = None


@lru_cache(maxsize=64)
def graders_in(settings: Settings) -> tuple[Grader, ...]:
    """Return the graders of a run, in the order of their tables; the grader that finds clusters comes last.

    Raises:
        UsageError: a rubric set is unknown or cannot be read.
    """
    configs = graders_of(settings)
    judged = [component for component in settings.rewards.components if component.is_judged]
    graders = [_grader(component, config) for component, config in zip(judged, configs, strict=False)]
    if len(configs) > len(graders):
        with_schema = settings.rewards.diversity is None or settings.rewards.diversity.json_schema
        graders.append(
            Grader(DIVERSITY, DIVERSITY, (), configs[-1], _without_schema(CLUSTERS, json_schema=with_schema))
        )
    return tuple(graders)


def _grader(component: Component, config: JudgeConfig) -> Grader:
    rubric_set = find_rubric_set(component.option("set") or "")
    ranked = component.kind == "rubric_rank"
    profile = ranking_profile(rubric_set) if ranked else grading_profile(rubric_set)
    names = (component.name,) if ranked else tuple(rubric.component_name for rubric in rubric_set.rubrics)
    profile = _without_schema(profile, json_schema=dict(component.options).get("json_schema") is not False)
    return Grader(component.name, component.kind, names, config, profile, rubric_set)


def _without_schema(profile: GradingProfile, *, json_schema: bool) -> GradingProfile:
    """Drop the JSON schema, which some servers do not support, if so configured."""
    if json_schema:
        return profile
    fields = {name: value for name, value in profile.request_fields.items() if name != "response_format"}
    return replace(profile, request_fields=fields)
