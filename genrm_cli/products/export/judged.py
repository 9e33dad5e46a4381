"""The judge's requests and replies about pairs: requests are rendered again, and the journal has
their replies.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from statistics import fmean

from genrm_cli.errors import InputError, naming
from genrm_cli.groups.check import judge_specs, open_options
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import begin_group, iter_stages
from genrm_cli.groups.plan import RewardPlan
from genrm_cli.judging.engine import RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import DEFAULT_PROFILE, PROFILES
from genrm_cli.judging.opening.open_judges import idle_judges
from genrm_cli.judging.profiles.answer import END_THINK, THINK
from genrm_cli.judging.profiles.profile import (
    AnyProfile,
    neutralise_prompt,
    render_messages,
    sample_prompt,
)
from genrm_cli.judging.profiles.scores_json import KEYS
from genrm_cli.judging.requests import Reply
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.products.export.candidates import Drop
from genrm_cli.products.export.chat_messages import REASONING_FIELD, Message
from genrm_cli.products.export.chat_messages import ReasoningPolicy as Reasoning
from genrm_cli.products.export.rows import ExportFormat, JudgeReply
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.lines import ScoredGroup
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings import Settings
from genrm_cli.settings.table import changed, value_of
from genrm_cli.verdicts import (
    Explanation,
    Verdict,
    contradicts_itself,
    preferred,
    verdict_after_swap,
)

_Place = tuple[str, Comparison]  # the judge, and what it was asked
# No profile derives this ranking from these scores, or these scores from a label.
_STATED = Verdict(4.0, 2.0, 1.0)
# The forms in which profiles ask for scores and a ranking.
_STATING = (
    '{"score_1": 4, "score_2": 2, "ranking": 1}',
    "[The Begin of Individual Scores]\n\\boxed{4, 2}\n[The End of Individual Scores]\n"
    "[The Begin of Ranking Score]\n\\boxed{1}\n[The End of Ranking Score]",
)


class JudgedPairs:
    """The replies of the judges of a run about pairs, with the requests that they answer."""

    def __init__(
        self,
        run: ScoredRun,
        settings: Settings,
        journal: Journal | None,
        format_: ExportFormat,
        reasoning: Reasoning,
    ) -> None:
        """Prepare to render the requests of a run again, with its settings; its metrics name the
        judge without one.

        Raises:
            InputError: the run has no replies about pairs.
            UsageError: the profile of a judge cannot be found.
        """
        name = run.name
        record = run.metrics
        settings = _with_judge_of(settings, record)
        specs = [] if settings.judge.judge is not None else judge_specs(settings)
        if not specs or (record is not None and record.judge.is_baseline):
            raise InputError(
                f"{name}: the built-in baseline writes no replies; score it with a judge."
            )
        if journal is None or not journal.has_verdicts:
            where = "name the run's journal with $journal. Runs with $use_journal keep no replies."
            raise InputError(
                f"{name}: no journal with the judge's replies; ", naming(where, use_journal=False)
            )
        options = replace(
            open_options(settings, api_keys={}), recall=RecallPolicy(with_replies=True)
        )
        self._judges, specs = idle_judges(specs, options, journal)
        # Without components: their graders are asked about other things than pairs.
        self.plan = replace(compile_plan(settings).with_judges(specs), rewards=RewardPlan())
        self._is_label = format_.profile is not None
        self._reasoning = reasoning
        self._profiles = list[AnyProfile]()
        self._has_scores = list[bool]()
        for judge in self.plan.judges:
            profile = judge.profile
            if profile is None or judge.grading is not None or judge.turns > 1:
                how = "grades responses" if judge.grading is not None else "answers in two turns"
                raise InputError(
                    f"{name}: {judge.name} {how}; only replies that compare two responses are "
                    "exported."
                )
            self._profiles.append(
                _askable(profile) if format_.profile is None else PROFILES[format_.profile]
            )
            self._has_scores.append(_has_scores(profile))

    def iter_couples(
        self, group: ScoredGroup, usable: Set[int], dropped: Counter[Drop]
    ) -> Iterator[tuple[JudgeReply, JudgeReply]]:
        """Yield the replies about each pair of `usable` rollouts, one of each order together; count
        the others.
        """
        verdicts: dict[_Place, Verdict] = {}
        for each in group.comparisons:
            if each.is_pair and usable >= set(each.indices):
                if each.verdict is None:
                    dropped[Drop.NO_VERDICT] += 1
                else:
                    first, second = each.indices
                    place = (each.judge, Comparison(first, second, each.judge_idx))
                    verdicts[place] = each.verdict
        by_pair: defaultdict[tuple[str, tuple[int, ...]], list[JudgeReply]] = defaultdict(list)
        for reply in self._iter_replies(group, verdicts, dropped) if verdicts else ():
            # Requests in the words of another profile are the same for all judges, which then must
            # agree.
            judge = "" if self._is_label else reply.judge
            by_pair[judge, tuple(sorted(reply.shown))].append(reply)
        for (_, pair), replies in by_pair.items():
            one = [each for each in replies if each.shown == pair]
            other = [each for each in replies if each.shown != pair]
            signs = {preferred(each.verdict) for each in one}
            signs |= {-preferred(each.verdict) for each in other}
            if not one or not other:
                dropped[Drop.ONE_ORDER] += len(replies)
            elif len(signs) > 1 or any(contradicts_itself(each.verdict) for each in replies):
                dropped[Drop.ORDERS_DISAGREE] += len(replies)
            elif self._is_label:
                yield _labelled(one[0], replies), _labelled(other[0], replies)
            else:
                couples = list(zip(one, other, strict=False))
                dropped[Drop.ONE_ORDER] += len(replies) - 2 * len(couples)
                yield from couples

    def _iter_replies(
        self, group: ScoredGroup, verdicts: Mapping[_Place, Verdict], dropped: Counter[Drop]
    ) -> Iterator[JudgeReply]:
        """Yield the replies in the journal to comparisons whose verdict is still the one that is
        wanted.
        """
        pairs = list(dict.fromkeys(comparison for _, comparison in verdicts))
        as_judged = Group(group.key, self._rollouts(group), pairs=pairs)
        dropped[Drop.NOT_IN_JOURNAL] += len(verdicts)
        for id_, prompt in next(
            iter_stages(begin_group(as_judged, self.plan), as_judged, self.plan)
        ):
            if id_.judge >= len(self.plan.judges):
                break
            name = self.plan.judges[id_.judge].name
            first, second = id_.shown
            verdict = verdicts.get((name, Comparison(first, second, id_.repeat)))
            if verdict is None:
                continue
            judge = self._judges[id_.judge]
            request = judge.prepare(prompt, id_.repeat)
            (outcome,) = judge.recall([request])
            # A reply that the journal has from a later run may say something else.
            if outcome is None or outcome.result != verdict or not outcome.reply_text:
                continue
            dropped[Drop.NOT_IN_JOURNAL] -= 1
            profile = self._profiles[id_.judge]
            text = outcome.reply_text
            neutralised = neutralise_prompt(profile, prompt, {})
            if not self._is_label and profile.parse_reply(Reply(text), neutralised) != verdict:
                dropped[Drop.OTHER_FORM] += 1
                continue
            yield JudgeReply(
                request.key.hex(),
                (first, second),
                name,
                render_messages(profile, neutralised),
                _reply_message(text, self._reasoning),
                verdict,
                self._has_scores[id_.judge],
            )

    def _rollouts(self, group: ScoredGroup) -> list[Rollout]:
        """Return the rollouts of a group as they were judged; one whose line is missing has no
        response.
        """
        size = group.members[-1].line.index + 1
        rollouts = [replace(group.members[0].rollout, response=None)] * max(
            group.line.group_size, size
        )
        for each in group.members:
            reason = each.line.reason
            rollout = self.plan.with_chosen_fields(each.rollout, each.record["record"])
            if reason is not None and reason.is_exclusion:
                rollout = replace(rollout, left_out=Explanation(reason))
            rollouts[each.line.index] = rollout
        return rollouts


def _with_judge_of(settings: Settings, record: RunRecord | None) -> Settings:
    """Return settings with the judge of a run where they name none."""
    if record is None or record.judge.panel or settings.panel.judges:
        return settings
    judge = record.judge
    overrides = {
        "model": judge.model,
        "judge_id": None if judge.name == judge.model else judge.name,
        "profile": (judge.profile or "").partition("+")[0],  # without its parser
        "compat": judge.compat,
    }
    missing = {
        name: value for name, value in overrides.items() if value and not value_of(settings, name)
    }
    return changed(settings, **missing)


def _reply_message(text: str, reasoning: Reasoning) -> Message:
    """Return a judge's reply as a message; its reasoning ends with the last tag, as for the parsers
    of verdicts.
    """
    thoughts, _, answer = text.rpartition(END_THINK)
    if reasoning == "keep":
        return {"role": "assistant", "content": text}
    message: Message = {"role": "assistant", "content": answer.strip()}
    if reasoning == "separate":
        message[REASONING_FIELD] = thoughts.replace(THINK, "", 1).strip()
    return message


def _askable(profile: AnyProfile) -> AnyProfile:
    """Return the profile, or if only the judge's own chat template has its roles, one that asks in
    a user message.
    """
    messages = render_messages(profile, sample_prompt(profile, (), "", ""))
    roles = {message["role"] for message in messages}
    return profile if roles <= {"system", "user"} else PROFILES[DEFAULT_PROFILE]


def _has_scores(profile: AnyProfile) -> bool:
    """Whether a profile reads scores from 1 to 5 and a ranking as the judge writes them, and
    derives neither.
    """
    prompt = sample_prompt(profile, (), "", "")
    return any(profile.parse_reply(Reply(text), prompt) == _STATED for text in _STATING)


def _labelled(reply: JudgeReply, replies: Sequence[JudgeReply]) -> JudgeReply:
    """Return a reply with the mean of all verdicts on its pair."""
    verdicts = [
        each.verdict if each.shown == reply.shown else verdict_after_swap(each.verdict)
        for each in replies
    ]
    score_1, score_2, ranking = (fmean(getattr(each, name) for each in verdicts) for name in KEYS)
    has_scores = all(each.has_scores for each in replies)
    return replace(reply, verdict=Verdict(score_1, score_2, ranking), has_scores=has_scores)
