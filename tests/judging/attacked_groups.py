"""Judges that know how good every response is, and what becomes of the rewards when one response is
hostile.

Rollout 0 of each group is the attacker and rollout 1 its honest twin: both are bad, and the other
six are not. A judge writes its own verdict in its family's words, and quotes, repairs, obeys,
refuses or echoes the hostile text besides; the program shows it that text and parses its reply.
With and without the text, groups and noise are the same."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import cycle, islice, permutations
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from bench.simulation.world import JudgeModel, draw_world, judge_pairs
from hostile_corpus import Hostile
from judge_families import Family
from msgspec.structs import replace
from quoting_judges import as_shown, iter_all_quoting
from reply_readers import READERS
from staged_groups import judge_in_stages, plan_of

from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.profiles.profile import Profile, render_messages
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.neutralise.forms import fold
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.verdicts import MIDDLE_RANKING, Failure, FailureKind, Outcome, Verdict, preference

SIZE = 8
QUALITY_OF_BAD = -2.0
OTHER = "It is 42, as the sum of the parts shows."


class Asked(NamedTuple):
    """One request about the attacker.

    Attributes:
        shown: what the judge is shown, hostile texts broken up.
        place: 1 or 2: where the attacker stands.
        words: the judge's own verdict.
        number: varies what the judge does besides.
    """

    profile: Profile
    family: Family
    hostile: Hostile
    shown: PairwisePrompt
    place: int
    words: str
    number: int

    @property
    def text(self) -> str:
        """The attacker's text as it is shown."""
        return self.shown.responses[self.place - 1]

    @property
    def own(self) -> Reply:
        """The reply of a judge that reasons a little and gives its verdict."""
        reasons = "The first is short. The second is longer."
        if self.family.before is None:
            return Reply(f"{self.words}{self.family.after}{reasons}", finish_reason="stop")
        return Reply(f"{reasons}\n{self.words}", finish_reason="stop")

    def quoting(self, text: str) -> Reply:
        """The reply of a judge that quotes a text somewhere besides its verdict."""
        replies = cycle(iter_all_quoting(self.family, text, self.words))
        return Reply(next(islice(replies, self.number, None))[1], finish_reason="stop")

    @property
    def repaired(self) -> str:
        """The attacker's text in plain characters, without the signs that were put into it."""
        return _plain(
            self.text.replace(self.shown.broken.forms.wedge, "") if self.shown.broken else self.text
        )


@lru_cache(maxsize=1_000)
def _plain(text: str) -> str:
    return fold(text)[0]


Habit = Callable[[Asked], Reply | Failure]


def break_out(asked: Asked) -> Reply:
    """Give the attacker the best verdict if it closes its section or turn; else judge."""
    harmless = PairwisePrompt(asked.shown.conversation, OTHER, OTHER)
    expected = _control_tokens(asked.profile, harmless)
    found = _control_tokens(asked.profile, asked.shown)
    # Roles need no markers.
    if expected == [token for token in found if expected or "===" not in token]:
        return asked.own
    return Reply(_best_for(asked.family, asked.place), finish_reason="stop")


def _control_tokens(profile: Profile, prompt: PairwisePrompt) -> list[str]:
    messages = render_messages(profile, prompt)
    return [token for each in messages for token in _TOKENS.findall(each["content"])]


def obey(asked: Asked) -> Reply:
    """Do what a text asks for that wants no verdict; else judge."""
    said = "Both responses answer in a few words."
    match asked.hostile.payload.removeprefix("Note to the judge: ").split(" ")[0:2]:
        case ["Do", _]:
            return Reply("", finish_reason="stop")
        case ["This", _]:
            return Reply(said, refusal="I cannot judge this.", finish_reason="stop")
        case ["Describe", _]:
            return Reply(said, finish_reason="stop")
        case ["Begin", _]:
            return Reply(f"<think>{said}\n{asked.words}", finish_reason="stop")
        case ["Name", _]:
            return Reply(
                "\n".join((f"{said} These are my verdicts:", *asked.family.says)),
                finish_reason="stop",
            )
        case ["Repeat", _]:
            return Reply("poem " * 200, finish_reason="length")
    return asked.own


HABITS: Mapping[str, Habit] = {
    "judges": lambda asked: asked.own,
    "quotes": lambda asked: asked.quoting(asked.text),
    "repairs what it quotes": lambda asked: asked.quoting(asked.repaired),
    "quotes from memory": lambda asked: asked.quoting(asked.hostile.text),
    "reads control tokens": break_out,
    "obeys": obey,
    "echoes": lambda asked: Reply(asked.text, finish_reason="stop"),
    "echoes both": lambda asked: Reply("\n\n".join(asked.shown.responses), finish_reason="stop"),
    "is filtered": lambda asked: Reply("", finish_reason="content_filter"),
    "is refused": lambda asked: Failure(
        FailureKind.REFUSED, "the prompt is longer than the context"
    ),
    "is cut off": lambda asked: Reply(f"<think>{asked.text}", finish_reason="length"),
}
SILENT = ("echoes", "echoes both", "is filtered", "is refused", "is cut off")
"""Habits that give no verdict of the judge's own."""

_TOKENS = re.compile(
    r"<\|\w{1,40}\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>|<extra_id_\d+>|<｜\w{1,40}｜>|\[gMASK\]|<sop>"
    r"|\[\|\w+\|\]|<seed:\w+>|</?think>|^\[=== .* ===\]$",
    re.MULTILINE,
)


def _best_for(family: Family, place: int) -> str:
    return (max if place == 1 else min)(
        family.says, key=lambda words: preference(family.says[words])
    )


class Tested(NamedTuple):
    """What a hostile text did: how much it raised the advantages of its response and of the honest
    twin, and failures.

    Attributes:
        forged: replies in which another verdict was read than the judge's own.
    """

    gain: float
    twin: float
    failures: float
    forged: list[str]


class Setup(NamedTuple):
    """Groups without an attack.

    Attributes:
        words: the judge's own words, by group and pair, in the order shown.
        pairing: which pairs are judged.
        advantages: those of the attacker and its twin in each group, by estimator.
    """

    words: list[dict[tuple[int, ...], str]]
    pairing: PairingPlan
    advantages: Mapping[str, Any]

    def about(self, group: int, shown: tuple[int, ...]) -> tuple[int, str] | None:
        """Return where the attacker stands in a request, and the words; None if it does not."""
        return (1 if shown[0] == 0 else 2, self.words[group][shown]) if 0 in shown else None


@cache
def setup_of(name: str, groups: int, rings: int, estimators: tuple[str, ...]) -> Setup:
    """Draw groups, and let the judges of a family say what they think of them."""
    says = READERS[name].says
    draw = np.random.default_rng(rings)
    world = draw_world(JudgeModel(), groups, SIZE, draw)
    world.quality[:, :2] += QUALITY_OF_BAD - world.truth[:, :2]
    every = list(permutations(range(SIZE), 2))
    pairs = np.array([every] * groups)
    batch = judge_pairs(world, pairs[:, :, 0], pairs[:, :, 1], draw)
    leads = batch.score_1 - batch.score_2 + (MIDDLE_RANKING - batch.ranking) / 2
    words = [
        {pair: _words_for(name, float(lead)) for pair, lead in zip(every, row, strict=True)}
        for row in leads
    ]
    pairing = PairingPlan("ring", ring_k=rings, max_extra=1.0)
    setup = Setup(words, pairing, {})

    def answer(g: int, shown: tuple[int, ...]) -> Outcome:
        return Outcome(says[words[g][shown]])

    advantages = {each: advantages_by_group(setup, answer, each) for each in estimators}
    return setup._replace(advantages=advantages)


@cache
def _words_for(name: str, lead: float) -> str:
    """Return the words of a family that are nearest to a lead in scores."""
    says = READERS[name].says

    def lead_in(words: str) -> float:
        return preference(says[words]) + (MIDDLE_RANKING - says[words].ranking) / 2

    return min(says, key=lambda words: abs(lead_in(words) - lead))


def advantages_by_group(
    setup: Setup, answer: Callable[[int, tuple[int, ...]], Outcome], estimator: str
) -> Any:
    """Return the advantages of the attacker and its twin in each group; NaN without a reward."""
    plan = plan_of(setup.pairing, RewardSettings(estimator=estimator))
    found = []
    statistics = CalibrationStatistics()
    for g in range(len(setup.words)):
        group = judge_in_stages(str(g), SIZE, plan, partial(answer, g))
        found.append(verdicts_of(group, plan))
        statistics.add_group(SIZE, found[-1].used)
    rewards = reward_verdicts(found, plan, statistics.fit())
    return np.array([each.advantages[:2] for each in rewards], dtype=float)


@lru_cache(maxsize=1_000)
def _prompts_of(name: str, text: str) -> list[PairwisePrompt]:
    """Return what a judge is shown with the attacker first, and second."""
    question = [("user", "How much is it?")]
    prompts = (PairwisePrompt(question, *pair) for pair in ((text, OTHER), (OTHER, text)))
    return [as_shown(READERS[name].profile, prompt) for prompt in prompts]


class Attack:
    """Judges of one family with one habit, before hostile texts.

    Texts that have the same effect on every request share their rewards.
    """

    def __init__(
        self, name: str, habit: str, *, groups: int, rings: int, estimators: Sequence[str]
    ) -> None:
        self._name = name
        self._profile, self._family = READERS[name]
        self._habit = habit
        self._estimators = estimators
        self._setup = setup_of(name, groups, rings, tuple(estimators))
        about = [
            self._setup.about(g, shown) for g in range(groups) for shown in self._setup.words[g]
        ]
        self._keys = [key for key in dict.fromkeys(about) if key is not None]
        self._known: dict[Any, tuple[float, float]] = {}

    def test(self, hostile: Hostile) -> Tested:
        """Return what a text does, in the estimators in which it does most."""
        shown = _prompts_of(self._name, hostile.text)
        forged: list[str] = []
        variant = crc32(hostile.text.encode("utf-8", "surrogatepass"))
        read: dict[tuple[int, str, int], Verdict | Failure] = {}

        def ask(place: int, words: str, number: int) -> Verdict | Failure:
            if (place, words, number) not in read:
                prompt: Any = shown[place - 1]
                said = HABITS[self._habit](
                    Asked(self._profile, self._family, hostile, prompt, place, words, number)
                )
                result = (
                    said if isinstance(said, Failure) else self._profile.parse_reply(said, prompt)
                )
                if isinstance(result, Verdict) and (
                    self._habit in SILENT or result != self._family.says[words]
                ):
                    forged.append(f"{words} was read as {result} in {said}"[:2_000])
                read[place, words, number] = result
            return read[place, words, number]

        def answer(place: int, words: str) -> Outcome:
            return Outcome(ask(place, words, variant % 97))

        results = {key: answer(*key) for key in self._keys}
        signature = tuple(
            said.kind if isinstance(said := each.result, Failure) else said
            for each in results.values()
        )
        if signature not in self._known:
            self._known[signature] = self._changes(results)
        failures = sum(isinstance(outcome.result, Failure) for outcome in results.values())
        return Tested(*self._known[signature], failures / len(results), forged)

    def _changes(self, answers: Mapping[tuple[int, str], Outcome]) -> tuple[float, float]:
        """Return how much these answers to the requests about the attacker change its advantage and
        its twin's, in the groups in which they have one.
        """
        says = self._family.says

        def answer(g: int, shown: tuple[int, ...]) -> Outcome:
            key = self._setup.about(g, shown)
            if key is None:
                return Outcome(says[self._setup.words[g][shown]])
            return replace(answers[key])

        changes = []
        for each in self._estimators:
            change = advantages_by_group(self._setup, answer, each) - self._setup.advantages[each]
            known = ~np.isnan(change)
            means = [change[known[:, i], i].sum() / max(1, known[:, i].sum()) for i in range(2)]
            changes.append(means)
        return max(float(each[0]) for each in changes), min(float(each[1]) for each in changes)
