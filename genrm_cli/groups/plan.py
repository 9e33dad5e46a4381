"""The compiled plan of a run: all that the core needs before the first group."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import floor

from msgspec import Struct, field
from msgspec.structs import replace

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.groups.graders import Grader, count_gradings
from genrm_cli.json_types import JsonObject
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.profiles.profile import (
    AnyProfile,
    GradingProfile,
    Profile,
    count_turns,
    render_messages,
    sample_prompt,
)
from genrm_cli.judging.request_form import reply_limit
from genrm_cli.pairing.lists import LEAST_BLOCK_REPEATS, ListPlan
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.reading.chosen_fields import (
    criteria_at,
    principle_by_category,
    principle_of,
    reference_at,
)
from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.rollouts.scenario import render_scenario
from genrm_cli.rollouts.shorten import Room
from genrm_cli.rollouts.views import AUTO, ViewOptions, shown_parts, why_not_compared
from genrm_cli.settings.components import GENRM, Source, TotalTable
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.texts.tokens import estimate_tokens, tokens_beside_texts
from genrm_cli.verdicts import Explanation, Verdict

# rollouts: the estimators use n × n arrays, up to 300 MB and 7 s for a group of this size
MAX_COMPARED = 2_048
# rollouts: all pairs of 256 are 32,640 verdicts for the estimator, and of 2,048 over two million;
# larger groups that are only graded are compared along rings
MAX_GRADED_ALL_PAIRS = 256


class JudgePlan(Struct, frozen=True, dict=True):
    """A judge whose verdicts the rewards depend on.

    Attributes:
        name: its name in outputs.
        profile: its profile; None for the built-in lexical judge.
    """

    name: str
    profile: AnyProfile | None = None
    component: None = None

    @cached_property
    def grading(self) -> GradingProfile | None:
        """The profile of a pointwise or listwise judge; None for a pairwise one."""
        return self.profile if isinstance(self.profile, GradingProfile) else None

    @property
    def form(self) -> str:
        """Responses per request: two, one, or all."""
        if self.grading is None:
            return "pairwise"
        return "listwise" if self.grading.whole_group else "pointwise"

    @property
    def turns(self) -> int:
        """Number of calls for one of its answers."""
        return 1 if self.profile is None else count_turns(self.profile)


class Effort(Struct, frozen=True):
    """The requests to one judge about a group.

    Attributes:
        responses: shown in each.
        turns: calls that each takes.
    """

    requests: int
    responses: int
    turns: int


class RewardPlan(Struct, frozen=True):
    """The rules that turn verdicts and components into rewards.

    Attributes:
        settings: how they are turned.
        names: names of all components of a rollout, `genrm` first if there are verdicts.
        sources: source of each component: `judge`, `rules`, `input`, `responses` or `functions`.
        from_verdicts: components without a value if there are no verdicts.
    """

    settings: RewardSettings = field(default_factory=RewardSettings)
    names: tuple[str, ...] = (GENRM,)
    sources: Mapping[str, Source] = {}
    from_verdicts: frozenset[str] = frozenset({GENRM})

    @property
    def total(self) -> TotalTable:
        """Weights and gates; `genrm` alone by default."""
        return self.settings.total or TotalTable(weights=((GENRM, 1.0),))

    @property
    def divided(self) -> tuple[str, ...]:
        """The components that are divided by the size of clusters."""
        diversity = self.settings.diversity
        if diversity is None:
            return ()
        return diversity.components or tuple(name for name, _ in self.total.weights)

    @property
    def is_composed(self) -> bool:
        """Whether rewards depend on more than verdicts."""
        given = self.settings
        return bool(given.components) or given.diversity is not None or given.total is not None

    @property
    def uses_reliability(self) -> bool:
        """Whether rewards or advantages depend on the reliability of their group."""
        return self.settings.min_reliability is not None or self.settings.advantage == "reliability"


class GroupPlan(Struct, frozen=True, dict=True):
    """Everything that the core needs to know about a run.

    Attributes:
        pairing: which comparisons to make.
        judges: judges whose verdicts count, all asked alike; empty if no reward depends on
            verdicts.
        graders: judges that grade components; numbered after the judges.
        rewards: how verdicts become rewards.
        default: the verdict of a failed comparison (setting `compat`); None for none.
        principle: principle for rollouts without one of their own.
        uses_own_principle: send the rollouts' own principles.
        ignore_media: compare responses with images or files, which the judge does not see.
        blank_loses: give blank responses the lowest score of their group instead of leaving them
            unscored.
        shows_as_gym: read and show exactly what NeMo Gym does (setting `compat`).
        reference_field: dotted path of the reference answer to show; None for none.
        rubric_field: dotted path of the rubric of each row; None for none.
        criteria: the principle by category, for rollouts without one of their own; the category is
            in the first of `category_fields`, dotted paths, that a line has.
        rooms: space for texts in the prompts of the judges whose context is known.
        lists: which lists to show to listwise judges, instead of pairs.
    """

    pairing: PairingPlan = field(default_factory=PairingPlan)
    judges: tuple[JudgePlan, ...] = ()
    graders: tuple[Grader, ...] = ()
    rewards: RewardPlan = field(default_factory=RewardPlan)
    default: Verdict | None = None
    principle: str | None = None
    uses_own_principle: bool = True
    redactor: Redactor | None = None
    keep_replies: bool = False
    view: ViewOptions = AUTO
    ignore_media: bool = False
    blank_loses: bool = False
    shows_as_gym: bool = False
    reference_field: str | None = None
    rubric_field: str | None = None
    criteria: Mapping[str, str] = {}
    category_fields: tuple[str, ...] = ()
    rooms: tuple[Room, ...] = ()
    lists: ListPlan = field(default_factory=ListPlan)

    def with_chosen_fields(self, rollout: Rollout, record: JsonObject) -> Rollout:
        """Return a rollout with what the settings take from its record for the judge.

        Raises:
            UnreadableRecordError: its rubric cannot be read.
        """
        if self.reference_field is not None:
            rollout = replace(rollout, reference=reference_at(record, self.reference_field))
        if self.rubric_field is not None:
            criteria = criteria_at(record, self.rubric_field)
            rollout = replace(
                rollout, criteria=criteria, principle=principle_of(criteria) or rollout.principle
            )
        if self.criteria and rollout.principle is None:
            principle = principle_by_category(record, self.category_fields, self.criteria)
            rollout = replace(rollout, principle=principle)
        return rollout

    @property
    def chosen_fields(self) -> tuple[str, ...]:
        """Paths of a record from which the judge is told more."""
        paths = (self.reference_field, self.rubric_field)
        return (*(path for path in paths if path is not None), *self.category_fields)

    def missing_fields(self, rollout: Rollout) -> list[str]:
        """Return the settings that name a field for the judge which the line of a rollout lacks."""
        found = {"reference_field": rollout.reference, "rubric_field": rollout.criteria}
        return [
            name for name, value in found.items() if not value and getattr(self, name) is not None
        ]

    def refuse_reference(self) -> None:
        """Raise if the prompts have no place for the reference.

        Raises:
            UsageError: NeMo Gym shows none, or the profile of a judge has no place for it.
        """
        if self.shows_as_gym:
            raise UsageError(naming("NeMo Gym shows judges no reference answer; omit $compat."))
        for judge in self.judges:
            if judge.profile is not None and not judge.profile.takes_reference:
                raise UsageError(
                    f"the profile {judge.profile.name} has no place for a reference answer. "
                    "Choose one with sections (",
                    SettingRef("profile", "nemotron-plain"),
                    "), or add {reference} to a profile of your own.",
                )

    def why_not_compared(self, rollout: Rollout) -> Explanation | None:
        """Return why a rollout cannot be compared; None if it can."""
        return why_not_compared(rollout, self.view, ignore_media=self.ignore_media)

    def shown_of(self, rollout: Rollout, record: JsonObject | None) -> object:
        """Return all that judges see of a rollout: those that are equal in it are one rollout to
        them.

        None under `compat`: NeMo Gym compares equal rollouts.
        """
        if self.shows_as_gym:
            return None
        scenario = render_scenario(record) if self.graders and record else None
        return shown_parts(rollout, self.view), rollout.criteria, scenario

    def refuse_large(self, key: str | None, rollouts: int) -> None:
        """Refuse a group that is too large to compare.

        Raises:
            InputError: the message names the group, its size and the remedy.
        """
        if self.judges and rollouts > MAX_COMPARED:
            raise InputError(
                f"group {key!r} has {rollouts:,} rollouts; at most {MAX_COMPARED:,} can be "
                "compared. Name the field "
                "that tells its tasks apart with ",
                SettingRef("group_by"),
                ".",
            )

    def with_judges(self, specs: Sequence[JudgeSpec]) -> "GroupPlan":
        """Return the plan with the profiles and contexts that were found for its judges, in
        order.
        """
        pairs = zip(self.judges, (spec.profile for spec in specs if spec.compares), strict=True)
        judges = tuple(replace(judge, profile=profile) for judge, profile in pairs)
        rooms = [room_of(spec, self.lists.list_size) for spec in specs if not self.shows_as_gym]
        return replace(self, judges=judges, rooms=tuple(room for room in rooms if room is not None))

    @property
    def judge_name(self) -> str | None:
        """The name of the judge or the panel in scored lines; None if no judge compares."""
        return " + ".join(judge.name for judge in self.judges) or None

    @property
    def is_baseline(self) -> bool:
        """Whether the judge is the built-in lexical one, whose rewards must not be trained on."""
        return any(judge.profile is None for judge in self.judges)

    @property
    def is_panel(self) -> bool:
        """Whether several judges answer every comparison."""
        return len(self.judges) > 1

    @cached_property
    def compares_pairs(self) -> bool:
        """Whether the judges are shown pairs of responses."""
        return bool(self.judges) and self.judges[0].grading is None

    @cached_property
    def is_listwise(self) -> bool:
        """Whether the judges are shown lists of responses."""
        grading = self.judges[0].grading if self.judges else None
        return grading is not None and grading.whole_group

    def efforts(self, n: int) -> list[Effort]:
        """Return the effort of each judge for n rollouts with a response; empty if n < 2."""
        if n < 2:
            return []
        if self.compares_pairs:
            return [Effort(self.pairing.count(n), 2, judge.turns) for judge in self.judges]
        effort = Effort(n * self.pairing.repeats, 1, 1)
        if self.is_listwise:
            effort = Effort(self.lists.count(n), self.lists.longest(n), 1)
        return [effort] * len(self.judges)

    @cached_property
    def asked(self) -> tuple[JudgePlan | Grader, ...]:
        """All judges by their numbers in requests: those that compare, then graders."""
        return *self.judges, *self.graders

    def turns_of(self, judge: int) -> int:
        """Return the number of calls for an answer of a judge, by its number; a grader answers in
        one.
        """
        return self.judges[judge].turns if judge < len(self.judges) else 1

    def count_further(self, n: int) -> int:
        """Return the number of requests that depend on the verdicts of others."""
        return self.pairing.count_further(n) * len(self.judges)

    def planned_repeats(self, judge: int) -> int:
        """Return the number of repeats that the plan may have of a request to a judge, by its
        number; those that replace failed ones come after them.
        """
        if judge >= len(self.judges):
            return self.graders[judge - len(self.judges)].repeats
        repeats = self.pairing.repeats
        return max(repeats, LEAST_BLOCK_REPEATS) if self.is_listwise else repeats

    def extra_calls(self, n: int) -> int:
        """Return how many calls may be made about n rollouts with a response beyond the planned
        ones.
        """
        planned = sum(effort.requests * effort.turns for effort in self.efforts(n))
        return floor(self.pairing.max_extra * (planned + self.count_gradings(n)))

    def count_gradings(self, n: int) -> int:
        """Return the maximum number of requests to all graders for n rollouts with a response."""
        return sum(count_gradings(grader, n) for grader in self.graders)

    def count_requests(self, n: int) -> int:
        """Return the maximum number of requests for n rollouts with a response."""
        return sum(effort.requests for effort in self.efforts(n)) + self.count_gradings(n)


def room_of(spec: JudgeSpec, list_size: int) -> Room | None:
    """Return the space for texts in the prompts of a judge; None if its context is unknown.

    Raises:
        UsageError: the instructions alone fill the context.
    """
    profile = spec.profile
    settings = spec.config.judge
    length = spec.max_model_len
    if length is None or not isinstance(profile, (Profile, GradingProfile)):
        return None
    turns = count_turns(profile)
    reply = reply_limit(profile.request_fields, settings)
    frame = render_messages(profile, sample_prompt(profile, (), "", ""))
    instructions = sum(estimate_tokens(message["content"]) for message in frame)
    used = instructions + tokens_beside_texts(
        length, instructions, None if reply is None else turns * reply
    )
    if used >= length:
        raise UsageError(
            f"the judge's context of {length:,} tokens leaves no room for texts: {instructions:,} "
            f"are its instructions, and {used - instructions:,} are reserved for its reply; ",
            naming("correct $max_model_len, or serve the model with a longer context."),
        )
    responses: int | None = 2 if isinstance(profile, Profile) else 1
    if isinstance(profile, GradingProfile) and profile.whole_group:
        # Graders of components show the whole group.
        responses = list_size if spec.compares else None
    return Room(length - used, responses)
