"""Make the rows of an export from the table of scored rollouts."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from genrm_cli.export.balance import balanced, similarity, spread_order
from genrm_cli.export.candidates import Candidate, Drop
from genrm_cli.export.chat_messages import messages_of_prompt, messages_of_response
from genrm_cli.export.export_options import ExportOptions
from genrm_cli.export.pairs import ChosenPair, choose_pairs
from genrm_cli.export.rows import Answer, ExportFormat, Json, Pair, Prompt, PromptRow, Sample, UnfitError
from genrm_cli.export.scored_table import ComparedVerdicts, ScoredTable, StoredRollout, digest_of_items
from genrm_cli.rollouts.rollout import Reasoning, words_of


@dataclass(slots=True)
class SideNumbers:
    """Rewards and lengths in characters of the responses on one side of an export; 12 bytes each."""

    rewards: "array[float]" = field(default_factory=lambda: array("d"))
    chars: "array[int]" = field(default_factory=lambda: array("I"))


@dataclass(slots=True)
class RowCounts:
    """Numbers of rows, by output, and of dropped rows, by reason.

    Attributes:
        rows: number of rows by output, `train` or `validation`.
        dropped: candidate rows by reason; those that the format cannot represent also by sentence in `unfit`.
        sides: numbers of the responses by side, such as `chosen` and `rejected`.
        only_reasoning: number of pairs that differ only in their reasoning.
        with_reasoning: number of responses with reasoning.
        sessions: number of responses that are sessions.
    """

    rows: Counter[str] = field(default_factory=Counter)
    dropped: Counter[Drop] = field(default_factory=Counter)
    unfit: Counter[str] = field(default_factory=Counter)
    sides: dict[str, SideNumbers] = field(default_factory=dict)
    only_reasoning: int = 0
    with_reasoning: int = 0
    sessions: int = 0


_MadeRow = tuple[Json, int]


class RowMaker:
    """Make the rows of one export."""

    def __init__(
        self,
        table: ScoredTable,
        stems: Sequence[str],
        format_: ExportFormat,
        options: ExportOptions,
        compared: ComparedVerdicts | None,
    ) -> None:
        self.counts = RowCounts()
        self._table = table
        self._stems = stems
        self._format = format_
        self._options = options
        self._compared = compared

    def iter_rows(self) -> Iterator[_MadeRow]:
        """Yield all rows in their output format, each with the number of its group.

        Labelled rows are spread by prompt; all others are ordered by group.
        """
        match self._format.unit:
            case "pair":
                return self._iter_pairs()
            case "label":
                return self._iter_labelled()
            case "sample":
                return self._iter_samples()
            case _:
                return self._iter_prompts()

    # Pairs

    def _iter_pairs(self) -> Iterator[_MadeRow]:
        made = self._iter_fit_pairs()
        if self._options.balance_length:
            made = self._balance(made)
        for pair, row in made:
            yield self._counted(row, ("chosen", pair.chosen), ("rejected", pair.rejected))

    def _iter_fit_pairs(self) -> Iterator[tuple[ChosenPair, Json]]:
        """Yield the pairs that pass all filters except the balance of lengths."""
        used: Counter[int] = Counter()
        known: set[int] = set()
        limit = self._options.max_pairs_per_prompt
        for group, candidates in self._table.iter_groups():
            for pair in self._choose(group, candidates):
                if limit is not None and used[pair.chosen.prompt] >= limit:
                    self.counts.dropped[Drop.MAX_PAIRS_PER_PROMPT] += 1
                    continue
                name = hash((pair.chosen.prompt, pair.chosen.text, pair.rejected.text))
                if name in known:
                    self.counts.dropped[Drop.REPEATED_PAIR] += 1
                    continue
                row = self._row_of_pair(pair)
                if row is not None:
                    known.add(name)
                    used[pair.chosen.prompt] += 1
                    yield pair, row

    def _choose(self, group: int, candidates: Sequence[Candidate]) -> list[ChosenPair]:
        preferences, confidence, compared = None, None, self._compared
        if compared is not None:
            preferences = compared.preferences(group)
            confidence = None if self._options.min_confidence is None else compared.confidence(group)
        return choose_pairs(
            candidates,
            self._options,
            self.counts.dropped,
            preferences=preferences,
            confidence=confidence,
            key=self._table.groups[group].key,
        )

    def _row_of_pair(self, pair: ChosenPair) -> Json | None:
        chosen, rejected = self._table.load(pair.chosen.row), self._table.load(pair.rejected.row)
        most = self._options.max_similarity
        if most is not None and similarity(words_of(chosen.items), words_of(rejected.items)) > most:
            self.counts.dropped[Drop.MAX_SIMILARITY] += 1
            return None
        answers = self._answer(pair.chosen, chosen), self._answer(pair.rejected, rejected)
        return self._render(Pair(self._prompt(pair.chosen, chosen), *answers), chosen, rejected)

    def _balance(self, made: Iterator[tuple[ChosenPair, Json]]) -> Iterator[tuple[ChosenPair, Json]]:
        """Drop pairs until lengths are balanced; keeps 24 bytes per pair, and renders the remaining pairs again."""
        rows, differences = array("Q"), array("q")
        for pair, _ in made:
            rows.extend((pair.chosen.row, pair.rejected.row))
            differences.append(pair.chosen.chars - pair.rejected.chars)
        self.counts.only_reasoning = self.counts.with_reasoning = self.counts.sessions = 0
        for number, kept in enumerate(balanced(differences, self._options.seed)):
            if not kept:
                self.counts.dropped[Drop.BALANCE_LENGTH] += 1
                continue
            chosen, rejected = (self._table.candidate(row) for row in rows[2 * number : 2 * number + 2])
            pair = ChosenPair(chosen, rejected)
            row = self._row_of_pair(pair)
            if row is not None:
                yield pair, row

    # Labelled and plain samples

    def _iter_labelled(self) -> Iterator[_MadeRow]:
        rows, prompts, labels = array("Q"), array("Q"), array("B")
        for _, candidates in self._table.iter_groups():
            for candidate, label in self._labels(candidates):
                rows.append(candidate.row)
                prompts.append(candidate.prompt)
                labels.append(label)
        order = spread_order(prompts, self._options.seed).tolist()
        for number in order:
            candidate = self._table.candidate(rows[number])
            row = self._row_of_sample(candidate, bool(labels[number]))
            if row is not None:
                yield self._counted(row, ("wanted" if labels[number] else "unwanted", candidate))

    def _labels(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, bool]]:
        """Yield the responses of a group that are clearly wanted or unwanted, each text once."""
        threshold = self._options.threshold
        middle = median(each.reward for each in candidates) if threshold is None else threshold
        known: set[tuple[int, int]] = set()
        for candidate in candidates:
            name = (candidate.prompt, candidate.text)
            if threshold is None and candidate.reward == middle:
                self.counts.dropped[Drop.AT_MEDIAN] += 1
            elif name in known:
                self.counts.dropped[Drop.REPEATED_TEXT] += 1
            elif candidate.reward >= middle and candidate.is_gated:
                self.counts.dropped[Drop.GATED] += 1
            else:
                known.add(name)
                yield candidate, candidate.reward >= middle

    def _row_of_sample(self, candidate: Candidate, label: bool | None = None) -> Json | None:
        stored = self._table.load(candidate.row)
        sample = Sample(self._prompt(candidate, stored), self._answer(candidate, stored), label)
        return self._render(sample, stored)

    def _iter_samples(self) -> Iterator[_MadeRow]:
        used: Counter[int] = Counter()
        known: set[tuple[int, int]] = set()
        for _, candidates in self._table.iter_groups():
            for candidate in sorted(candidates, key=self._rank_to_imitate):
                reason = self._why_not_imitated(candidate, used[candidate.prompt])
                if reason is None and (candidate.prompt, candidate.text) in known:
                    reason = Drop.REPEATED_TEXT
                if reason is not None:
                    self.counts.dropped[reason] += 1
                    continue
                row = self._row_of_sample(candidate)
                if row is not None:
                    known.add((candidate.prompt, candidate.text))
                    used[candidate.prompt] += 1
                    yield self._counted(row, ("kept", candidate))

    def _rank_to_imitate(self, candidate: Candidate) -> tuple[bool, float, int]:
        """Return the sort key of responses to imitate: lower confidence bound, unknown ones last."""
        bound = candidate.lower_bound(self._options.min_confidence)
        return math.isnan(bound), -bound, candidate.index

    def _why_not_imitated(self, candidate: Candidate, used: int) -> Drop | None:
        """Return why a response is not imitated; its lower bound must reach the least reward."""
        options = self._options
        if candidate.is_gated:
            return Drop.GATED
        bound = candidate.lower_bound(options.min_confidence)
        if math.isnan(bound):
            return Drop.UNKNOWN_CONFIDENCE
        if options.min_reward is not None and bound < options.min_reward:
            return Drop.MIN_REWARD
        return Drop.BEST_OF if used >= options.best_of else None

    # Prompts

    def _iter_prompts(self) -> Iterator[_MadeRow]:
        known: set[int] = set()
        number = 0
        for _, candidates in self._table.iter_groups():
            first = candidates[0]
            members = [candidate for candidate in candidates if candidate.prompt == first.prompt]
            self.counts.dropped[Drop.MIXED_PROMPTS] += len(candidates) - len(members)
            if self._format.name == "groups" and len(members) < 2:
                self.counts.dropped[Drop.TOO_FEW] += 1
                continue
            if self._format.name != "groups" and first.prompt in known:
                self.counts.dropped[Drop.REPEATED_PROMPT] += 1
                continue
            stored = [self._table.load(candidate.row) for candidate in members]
            answers = [self._answer(candidate, texts) for candidate, texts in zip(members, stored, strict=True)]
            row = self._render(PromptRow(self._prompt(first, stored[0]), answers, number), *stored)
            if row is not None:
                known.add(first.prompt)
                number += 1
                yield self._counted(row, *(("responses", candidate) for candidate in members))

    # Parts of rows

    def _render(self, row: Pair | Sample | PromptRow, *stored: StoredRollout) -> Json | None:
        """Return a row of some rollouts in its output format; None, counted, if the format cannot represent it."""
        try:
            rendered = self._format.render(row)
        except UnfitError as error:
            self.counts.dropped[Drop.UNFIT] += 1
            self.counts.unfit[str(error)] += 1
            return None
        self.counts.sessions += sum(each.rollout.is_session for each in stored)
        reasoned = sum(any(isinstance(item, Reasoning) for item in each.items) for each in stored)
        self.counts.with_reasoning += reasoned
        if reasoned and isinstance(row, Pair):
            one, other = (digest_of_items(each.items, with_reasoning=False) for each in stored)
            self.counts.only_reasoning += one == other
        return rendered

    def _counted(self, row: Json, *sides: tuple[str, Candidate]) -> _MadeRow:
        """Return a row with the number of its group, its responses counted on their sides."""
        for name, candidate in sides:
            side = self.counts.sides.setdefault(name, SideNumbers())
            side.rewards.append(candidate.reward)
            side.chars.append(candidate.chars)
        return row, self._table.group_number_of(sides[0][1].row)

    def _prompt(self, candidate: Candidate, stored: StoredRollout) -> Prompt:
        group = self._table.group_of(candidate.row)
        messages = messages_of_prompt(stored.rollout.prompt)
        return Prompt(f"{candidate.prompt:016x}", messages, stored.rollout.tools, group.key, group.judge)

    def _answer(self, candidate: Candidate, stored: StoredRollout) -> Answer:
        group = self._table.group_of(candidate.row)
        return Answer(
            id=f"{self._stems[group.input]}/{group.key}#{candidate.index}",
            messages=messages_of_response(stored.rollout.prompt, stored.items, self._options.reasoning),
            reward=candidate.reward,
            standard_error=None if math.isnan(candidate.error) else candidate.error,
            advantage=stored.advantage,
            logprobs=stored.logprobs,
            is_session=stored.rollout.is_session,
        )
