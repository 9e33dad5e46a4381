"""Compile the settings into the plan of a run."""

from collections.abc import Sequence

from msgspec.structs import fields

from genrm_cli.errors import SettingRef, UsageError, naming
from genrm_cli.groups.graders import ROW_SET, graders_in
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.judging.lexical import LEXICAL_VERSION
from genrm_cli.judging.lookup import profile_of
from genrm_cli.pairing.lists import ListPlan
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.rollouts.views import ViewOptions
from genrm_cli.settings import Settings
from genrm_cli.settings.checks import first_repeated
from genrm_cli.settings.components import (
    GENRM,
    Source,
    find_kind,
    inputs_of,
    needs_verdicts,
    order_of,
    refuse_reserved,
)
from genrm_cli.settings.panel import judges_of
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict


def compile_plan(settings: Settings) -> GroupPlan:
    """Return the plan that the settings describe; the ring is not yet fitted to a budget.

    Raises:
        UsageError: a component, profile or rubric set cannot be found, or settings contradict each
            other.
    """
    is_lexical = settings.judge.judge is not None
    is_gym = settings.judge.compat is not None
    configs = judges_of(settings) if asks_for_verdicts(settings) else ()
    judges = tuple(
        JudgePlan(config.name, None if is_lexical else profile_of(config)) for config in configs
    )
    given = settings.input
    pairing = settings.pairing
    criteria = settings.judge.criteria
    patterns = settings.judge.redact_pattern
    # NeMo Gym always shows the lower index first.
    same_names = {
        each.name: getattr(pairing, each.name)
        for each in fields(PairingPlan)
        if each.name != "order_balanced"
    }
    default = None
    if is_gym and configs:
        score = configs[0].default_score
        default = Verdict(score, score, MIDDLE_RANKING, defaulted=True)
    plan = GroupPlan(
        pairing=PairingPlan(**same_names, order_balanced=not is_gym),
        lists=ListPlan(pairing.list_size, pairing.repeats, pairing.seed),
        judges=judges,
        graders=graders_in(settings),
        rewards=compile_rewards(settings),
        default=default,
        principle=settings.judge.principle,
        uses_own_principle=not is_gym or settings.judge.principle is not None,
        redactor=redactor_of(patterns) if patterns else None,
        keep_replies=settings.output.keep_replies,
        view=ViewOptions(
            given.view,
            answer_field=given.answer_field,
            answer_tool=given.answer_tool,
            tool_definitions=not is_gym,
            # What Python's `str` makes of a missing text, and so what NeMo Gym shows.
            blank="None" if is_gym else None,
            images=_shows_images(settings, judges),
            image_hosts=settings.judge.image_hosts,
        ),
        ignore_media=given.ignore_media or is_gym,
        blank_loses=given.empty == "lose",
        shows_as_gym=is_gym,
        reference_field=given.reference_field,
        rubric_field=given.rubric_field,
        criteria={} if criteria is None else dict(criteria.sentences),
        category_fields=() if criteria is None else criteria.fields,
    )
    _refuse_contradictions(settings, plan)
    return plan


def _refuse_contradictions(settings: Settings, plan: GroupPlan) -> None:
    """Refuse settings that exclude each other, or have no effect.

    Raises:
        UsageError: the message names what to omit.
    """
    goal = settings.pairing.goal
    if goal != "rewards" and not plan.compares_pairs:
        more = " needs judges that compare pairs; omit judges that grade responses, or the goal."
        raise UsageError(SettingRef("goal", goal), more)
    if goal != "rewards" and settings.rewards.advantage == "reliability":
        more = " leaves the reliability unknown; omit $advantage, or the goal."
        raise UsageError(SettingRef("goal", goal), naming(more))
    if len({judge.form for judge in plan.judges}) > 1:
        names = ", ".join(f"{judge.name} ({judge.form})" for judge in plan.judges)
        raise UsageError(
            f"the judges of a panel must be shown the same: {names}. Name profiles of one kind."
        )
    if plan.reference_field is not None:
        plan.refuse_reference()
    by_row = any(grader.list_name == ROW_SET for grader in plan.graders)
    if by_row and plan.rubric_field is None:
        raise UsageError(
            naming(
                "the rubric set row needs $rubric_field, the field with the criteria of each row."
            )
        )
    if plan.criteria and not plan.uses_own_principle:
        raise UsageError(naming("[criteria] has no effect with $compat unless $principle is set."))


def _shows_images(settings: Settings, judges: Sequence[JudgePlan]) -> bool:
    """Whether every judge sees images: all are shown the same."""
    compared = zip(judges_of(settings), (judge.profile for judge in judges), strict=False)
    asked = [*compared, *((grader.config, grader.profile) for grader in graders_in(settings))]
    seeing = [
        config.judge.images or (profile is not None and profile.images) for config, profile in asked
    ]
    return (
        settings.judge.compat is None
        and settings.judge.judge is None
        and bool(seeing)
        and all(seeing)
    )


def asks_for_verdicts(settings: Settings) -> bool:
    """Whether pairs must be judged."""
    return needs_verdicts(settings.rewards.components, settings.rewards.total)


def judge_name(settings: Settings) -> str | None:
    """Return the name of the judge, those of a panel, or the lexical judge's version; None if no
    judge compares.
    """
    if not asks_for_verdicts(settings):
        return None
    if not settings.panel.judges and settings.judge.judge is not None:
        return LEXICAL_VERSION
    return " + ".join(config.name for config in judges_of(settings)) or None


def compile_rewards(settings: Settings) -> RewardPlan:
    """Return the rules that turn verdicts and components into rewards.

    Raises:
        UsageError: a total, rank or diversity names a component that is not configured; or a rubric
            set or function cannot be found.
    """
    plan = RewardPlan(settings.rewards, _component_names(settings), *_origins(settings))
    _check_names(plan)
    return plan


def _component_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of all components of a rollout, `genrm` first where pairs are judged.

    Raises:
        UsageError: two components have the same name, or one has a name of ours.
    """
    names = [each.name for each in settings.rewards.components if not each.is_judged]
    names += [name for grader in graders_in(settings) for name in grader.names]
    for grader in graders_in(settings):
        for name in grader.names:
            refuse_reserved(name, grader.kind, f"rubric set {grader.list_name}")
    names = [name for name in names if name != GENRM]
    twice = first_repeated(names)
    if twice is not None:
        raise UsageError(f"two components are named {twice!r}; rename one of them.")
    return (GENRM, *names) if asks_for_verdicts(settings) else tuple(names)


def _check_names(plan: RewardPlan) -> None:
    given = plan.settings
    wanted = [
        (component.kind, name) for component in given.components for name in inputs_of(component)
    ]
    wanted += [("[total]", name) for name, _ in (*plan.total.weights, *plan.total.gates)]
    wanted += [("[diversity]", name) for name in plan.divided]
    for where, name in wanted:
        if name not in plan.names:
            known = ", ".join(plan.names) or "none"
            raise UsageError(
                f"{where}: unknown component {name!r}; configured: {known}. Add a table "
                f"[components.{name}], or name it in ",
                SettingRef("component"),
                ".",
            )
    if unweighted := set(plan.divided) - {name for name, _ in plan.total.weights}:
        raise UsageError(
            f"[diversity] divides {min(unweighted)!r}, which has no weight in the total; "
            "give it one."
        )
    for component in given.components:
        find_kind(component.kind).version(component)  # refuses a function that cannot be imported


def _origins(settings: Settings) -> tuple[dict[str, Source], frozenset[str]]:
    """Return the source of each component, and which have no values without verdicts."""
    sources: dict[str, Source] = {GENRM: "judge"}
    sources |= {name: "judge" for grader in graders_in(settings) for name in grader.names}
    from_verdicts = {GENRM}
    # Inputs come before what is computed from them.
    for component in order_of(settings.rewards.components):
        kind = find_kind(component.kind)
        inputs = inputs_of(component)
        if inputs:
            sources[component.name] = sources.get(inputs[0], "judge")
        elif not component.is_judged:
            sources[component.name] = kind.source
        if kind.from_verdicts or from_verdicts.intersection(inputs):
            from_verdicts.add(component.name)
    return sources, frozenset(from_verdicts)
