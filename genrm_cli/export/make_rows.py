"""Make the rows of an export from groups of scored rollouts."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.export.candidates import Candidate, Drop
from genrm_cli.export.chat_messages import messages_of_prompt, messages_of_response
from genrm_cli.export.export_options import ExportOptions
from genrm_cli.export.pairs import (
    ChosenPair,
    choose_pairs,
    joined_verdicts,
    preferences_of,
)
from genrm_cli.export.read_scored import (
    ExportCounts,
    ExportInput,
    candidates_of,
    digest_of_items,
    refuse_smoke_tests,
)
from genrm_cli.export.rows import (
    ExportedAnswer,
    ExportFormat,
    Json,
    JudgeReply,
    Pair,
    Prompt,
    PromptRow,
    Sample,
    UnfitError,
)
from genrm_cli.metrics.figures import rounded
from genrm_cli.rollouts.rollout import Reasoning
from genrm_cli.scored.lines import ScoredGroup


@dataclass(frozen=True, slots=True)
class MadeRow:
    """A row in its output format.

    Attributes:
        leader: digest of the prompt of the group's first candidate: rows that share it stay on one
            side of a split.
        answers: the rollouts, each with its side, such as `chosen`.
    """

    row: Json
    leader: int
    answers: Sequence[tuple[str, Candidate]]

    @property
    def with_reasoning(self) -> int:
        """Number of responses with reasoning."""
        return sum(
            any(isinstance(item, Reasoning) for item in answer.items) for _, answer in self.answers
        )

    @property
    def differs_in_reasoning_only(self) -> bool:
        """Whether it is a pair whose responses differ only in what the judge never saw."""
        if len(self.answers) != 2 or self.answers[0][0] != "chosen" or not self.with_reasoning:
            return False
        one, other = (
            digest_of_items(answer.items, with_reasoning=False) for _, answer in self.answers
        )
        return one == other


class RowMaker:
    """Make the rows of one export."""

    def __init__(
        self, inputs: Sequence[ExportInput], format_: ExportFormat, options: ExportOptions
    ) -> None:
        self.counts = ExportCounts()
        self._inputs = inputs
        self.format = format_
        self.options = options
        self._used: Counter[int] = Counter()  # rows by prompt
        self.missing = set(options.keep)  # fields to keep that no row has
        self._known: set[int] = set()  # names of rows that must not be repeated

    def iter_rows(self) -> Iterator[MadeRow]:
        """Yield all rows in their output format, by group."""
        make = {
            "pair": self._pairs,
            "label": self._labelled,
            "sample": self._samples,
            "prompt": self._prompts,
            "judgement": self._judgements,
        }
        for input_ in self._inputs:
            for group in input_.run.iter_groups():
                if self.format.unit == "pair" and not self.options.smoke_test:
                    refuse_smoke_tests(group, input_.run.name)
                candidates = candidates_of(group, input_.statuses, self.options, self.counts)
                if candidates:
                    self.counts.groups += 1
                    yield from make[self.format.unit](input_, group, candidates)

    def _pairs(
        self, input_: ExportInput, group: ScoredGroup, candidates: Sequence[Candidate]
    ) -> Iterator[MadeRow]:
        limit = self.options.max_pairs_per_prompt
        for pair in self._choose(input_, group, candidates):
            chosen = pair.chosen
            rejected = pair.rejected
            name = hash((chosen.prompt, chosen.text, rejected.text))
            if limit is not None and self._used[chosen.prompt] >= limit:
                self.counts.dropped[Drop.MAX_PAIRS_PER_PROMPT] += 1
            elif name in self._known:
                self.counts.dropped[Drop.REPEATED_PAIR] += 1
            else:
                answers = (self._answer(each, input_, group) for each in (chosen, rejected))
                row = self._render(Pair(_prompt(chosen, group), *answers))
                if row is not None:
                    self._known.add(name)
                    self._used[chosen.prompt] += 1
                    yield MadeRow(
                        row, candidates[0].prompt, (("chosen", chosen), ("rejected", rejected))
                    )

    def _choose(
        self, input_: ExportInput, group: ScoredGroup, candidates: Sequence[Candidate]
    ) -> list[ChosenPair]:
        preferences = None
        if self.options.needs_comparisons:
            verdicts = joined_verdicts(group.comparisons, input_.weights)
            preferences = preferences_of(verdicts)
        return choose_pairs(
            candidates,
            self.options,
            self.counts.dropped,
            preferences=preferences,
            key=group.key,
        )

    def _labelled(
        self, input_: ExportInput, group: ScoredGroup, candidates: Sequence[Candidate]
    ) -> Iterator[MadeRow]:
        """Yield the responses of a group that are clearly wanted or unwanted, each text once."""
        threshold = self.options.threshold
        middle = median(each.reward for each in candidates) if threshold is None else threshold
        names: set[tuple[int, int]] = set()
        for candidate in candidates:
            name = (candidate.prompt, candidate.text)
            is_wanted = candidate.reward >= middle
            if threshold is None and candidate.reward == middle:
                self.counts.dropped[Drop.AT_MEDIAN] += 1
            elif name in names:
                self.counts.dropped[Drop.REPEATED_TEXT] += 1
            elif is_wanted and candidate.is_gated:
                self.counts.dropped[Drop.GATED] += 1
            else:
                names.add(name)
                row = self._render(
                    Sample(
                        _prompt(candidate, group), self._answer(candidate, input_, group), is_wanted
                    )
                )
                if row is not None:
                    side = "wanted" if is_wanted else "unwanted"
                    yield MadeRow(row, candidates[0].prompt, ((side, candidate),))

    def _samples(
        self, input_: ExportInput, group: ScoredGroup, candidates: Sequence[Candidate]
    ) -> Iterator[MadeRow]:
        for candidate in sorted(candidates, key=lambda each: (-rounded(each.reward), each.index)):
            name = hash((candidate.prompt, candidate.text))
            if (reason := self._why_not_imitated(candidate, name)) is not None:
                self.counts.dropped[reason] += 1
                continue
            row = self._render(
                Sample(_prompt(candidate, group), self._answer(candidate, input_, group))
            )
            if row is not None:
                self._known.add(name)
                self._used[candidate.prompt] += 1
                yield MadeRow(row, candidates[0].prompt, (("kept", candidate),))

    def _why_not_imitated(self, candidate: Candidate, name: int) -> Drop | None:
        options = self.options
        if candidate.is_gated:
            return Drop.GATED
        if options.min_reward is not None and rounded(candidate.reward) < options.min_reward:
            return Drop.MIN_REWARD
        if self._used[candidate.prompt] >= options.best_of:
            return Drop.BEST_OF
        return Drop.REPEATED_TEXT if name in self._known else None

    def _prompts(
        self, input_: ExportInput, group: ScoredGroup, candidates: Sequence[Candidate]
    ) -> Iterator[MadeRow]:
        first = candidates[0]
        members = [candidate for candidate in candidates if candidate.prompt == first.prompt]
        self.counts.dropped[Drop.MIXED_PROMPTS] += len(candidates) - len(members)
        # A gate that was not there at scoring has not lowered the reward.
        lowest = min((each.reward for each in members if not each.is_gated), default=math.inf)
        gated = len(members)
        members = [each for each in members if not each.is_gated or each.reward <= lowest]
        self.counts.dropped[Drop.GATED] += gated - len(members)
        are_groups = self.format.name == "groups"
        if are_groups and len(members) < 2:
            self.counts.dropped[Drop.TOO_FEW] += 1
        elif not are_groups and first.prompt in self._known:
            self.counts.dropped[Drop.REPEATED_PROMPT] += 1
        else:
            answers = [self._answer(each, input_, group) for each in members]
            row = self._render(
                PromptRow(_prompt(first, group), answers, len(self._known), are_groups)
            )
            if row is not None:
                self._known.add(first.prompt)
                yield MadeRow(row, first.prompt, [("responses", each) for each in members])

    def _judgements(
        self, input_: ExportInput, group: ScoredGroup, candidates: Sequence[Candidate]
    ) -> Iterator[MadeRow]:
        """Yield the replies of judges about pairs, those in both orders next to each other."""
        by_index = {each.index: each for each in candidates}
        judged = input_.judged
        couples = (
            ()
            if judged is None
            else judged.iter_couples(group, by_index.keys(), self.counts.dropped)
        )
        for couple in couples:
            name = hash(frozenset(each.key for each in couple))
            if name in self._known:
                self.counts.dropped[Drop.REPEATED_PAIR] += len(couple)
                continue
            self._known.add(name)
            rows: list[MadeRow] = []
            for each in couple:
                pair = [by_index[index] for index in each.shown]
                answers = [self._answer(one, input_, group) for one in pair]
                row = self._render(
                    replace(each, prompt_id=_prompt(pair[0], group).id, answers=answers)
                )
                if row is not None:
                    rows.append(
                        MadeRow(
                            row,
                            candidates[0].prompt,
                            ((each.outcome, pair[each.outcome == "second"]),),
                        )
                    )
            if len(rows) == len(couple):  # rows are balanced in couples
                yield from rows

    def _render(self, row: Pair | Sample | PromptRow | JudgeReply) -> Json | None:
        """Return a row in its output format; None, counted, if the format cannot represent it."""
        try:
            rendered = self.format.render(row)
        except UnfitError as error:
            self.counts.dropped[Drop.UNFIT] += 1
            self.counts.unfit[str(error)] += 1
            return None
        for path in self.options.keep:
            columns = row.kept(path)
            if clash := rendered.keys() & columns.keys():
                raise UsageError(
                    SettingRef("keep", path), f": the format has a column {min(clash)} of its own."
                )
            rendered |= columns
        return rendered

    def _answer(
        self, candidate: Candidate, input_: ExportInput, group: ScoredGroup
    ) -> ExportedAnswer:
        scored = candidate.scored
        fields = scored.record["fields"]
        self.missing.difference_update(path for path, value in fields.items() if value is not None)
        return ExportedAnswer(
            id=f"{input_.stem}/{group.key}#{candidate.index}",
            messages=messages_of_response(
                scored.rollout.prompt, candidate.items, self.options.reasoning
            ),
            reward=candidate.reward,
            standard_error=scored.line.standard_error,
            advantage=scored.line.advantage,
            logprobs=scored.record.get("logprobs"),
            kept=fields,
            is_session=scored.rollout.is_session,
        )


def _prompt(candidate: Candidate, group: ScoredGroup) -> Prompt:
    rollout = candidate.scored.rollout
    messages = messages_of_prompt(rollout.prompt)
    return Prompt(
        f"{candidate.prompt:016x}",
        messages,
        rollout.tools,
        group.line.judge,
        candidate.scored.record["reference"],
    )
