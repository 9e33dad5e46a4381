"""Make the rows of an export from groups of scored rollouts."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from msgspec import Struct, field

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.metrics.figures import rounded
from genrm_cli.products.export.candidates import Candidate, Drop
from genrm_cli.products.export.chat_messages import messages_of_prompt, messages_of_response
from genrm_cli.products.export.export_options import ExportOptions
from genrm_cli.products.export.preference_pairs import choose_pairs, preferences_of
from genrm_cli.products.export.read_scored import (
    ExportCounts,
    ExportInput,
    candidates_of,
    refuse_smoke_tests,
)
from genrm_cli.products.export.row_spool import RowSpool
from genrm_cli.products.export.rows import (
    TRL_READS,
    ExportedAnswer,
    ExportFormat,
    Json,
    Pair,
    Prompt,
    PromptRow,
    Sample,
    UnfitError,
)
from genrm_cli.scored.lines import ScoredGroup

_Row = Pair | Sample | PromptRow


class RowMaker(Struct):
    """Makes the rows of one export, and puts them into `rows`.

    Attributes:
        missing: fields to keep that no row has.
    """

    format: ExportFormat
    options: ExportOptions
    rows: RowSpool
    missing: set[str]
    counts: ExportCounts = field(default_factory=ExportCounts)
    _used: Counter[int] = field(default_factory=Counter)  # rows by prompt
    _known: set[int] = set()  # names of rows that must not be repeated

    def add_group(self, input_: ExportInput, group: ScoredGroup) -> None:
        """Make the rows of a group."""
        unit = self.format.unit
        if unit == "pair" and not self.options.smoke_test:
            refuse_smoke_tests(group, input_.run.name)
        candidates = candidates_of(group, input_, self.options, self.counts)
        if not candidates:
            return
        self.counts.groups += 1
        match unit:
            case "pair":
                self._add_pairs(group, candidates)
            case "label":
                self._add_labelled(candidates)
            case "sample":
                self._add_samples(candidates)
            case "prompt":
                self._add_prompt(candidates)

    def _add_pairs(self, group: ScoredGroup, candidates: Sequence[Candidate]) -> None:
        preferences = None
        if self.options.pairs == "compared":
            preferences = preferences_of(group.comparisons)
        limit = self.options.max_pairs_per_prompt
        dropped = self.counts.dropped
        for chosen, rejected in choose_pairs(
            candidates, self.options, dropped, preferences, group.key
        ):
            # Of digests, so the same in every process; the texts would fill the memory.
            name = hash((chosen.prompt, chosen.text, rejected.text))
            if limit is not None and self._used[chosen.prompt] >= limit:
                dropped[Drop.MAX_PAIRS_PER_PROMPT] += 1
            elif name in self._known:
                dropped[Drop.REPEATED_PAIR] += 1
            else:
                pair = Pair(_prompt_of(chosen), self._answer(chosen), self._answer(rejected))
                sides = [("chosen", chosen), ("rejected", rejected)]
                if self._add(pair, candidates, sides):
                    self._known.add(name)
                    self._used[chosen.prompt] += 1

    def _add_labelled(self, candidates: Sequence[Candidate]) -> None:
        """Add the responses of a group that are clearly wanted or unwanted, each text once."""
        dropped = self.counts.dropped
        threshold = self.options.threshold
        middle = median(each.reward for each in candidates) if threshold is None else threshold
        names: set[tuple[int, int]] = set()
        for candidate in candidates:
            name = (candidate.prompt, candidate.text)
            is_wanted = candidate.reward >= middle
            if threshold is None and candidate.reward == middle:
                dropped[Drop.AT_MEDIAN] += 1
            elif name in names:
                dropped[Drop.REPEATED_TEXT] += 1
            elif is_wanted and candidate.is_gated:
                dropped[Drop.GATED] += 1
            else:
                names.add(name)
                row = Sample(_prompt_of(candidate), self._answer(candidate), is_wanted)
                self._add(row, candidates, [("wanted" if is_wanted else "unwanted", candidate)])

    def _add_samples(self, candidates: Sequence[Candidate]) -> None:
        # By the index where rewards are equal: the order of lines is not the same on every machine.
        for candidate in sorted(candidates, key=lambda each: (-rounded(each.reward), each.index)):
            name = hash((candidate.prompt, candidate.text))
            if (reason := self._why_not_imitated(candidate, name)) is not None:
                self.counts.dropped[reason] += 1
                continue
            row = Sample(_prompt_of(candidate), self._answer(candidate))
            if self._add(row, candidates, [("kept", candidate)]):
                self._known.add(name)
                self._used[candidate.prompt] += 1

    def _why_not_imitated(self, candidate: Candidate, name: int) -> Drop | None:
        options = self.options
        if candidate.is_gated:
            return Drop.GATED
        if options.min_reward is not None and rounded(candidate.reward) < options.min_reward:
            return Drop.MIN_REWARD
        if self._used[candidate.prompt] >= options.best_of:
            return Drop.BEST_OF
        return Drop.REPEATED_TEXT if name in self._known else None

    def _add_prompt(self, candidates: Sequence[Candidate]) -> None:
        first = candidates[0]
        members = [candidate for candidate in candidates if candidate.prompt == first.prompt]
        self.counts.dropped[Drop.MIXED_PROMPTS] += len(candidates) - len(members)
        # A gate that was not there at scoring has not lowered the reward.
        lowest = min((each.reward for each in members if not each.is_gated), default=math.inf)
        kept = [each for each in members if not each.is_gated or each.reward <= lowest]
        self.counts.dropped[Drop.GATED] += len(members) - len(kept)
        are_groups = self.format.name == "groups"
        if are_groups and len(kept) < 2:
            self.counts.dropped[Drop.TOO_FEW] += 1
        elif not are_groups and first.prompt in self._known:
            self.counts.dropped[Drop.REPEATED_PROMPT] += 1
        else:
            answers = [self._answer(each) for each in kept]
            row = PromptRow(_prompt_of(first), answers, len(self._known), are_groups)
            if self._add(row, candidates, [("responses", each) for each in kept]):
                self._known.add(first.prompt)

    def _add(
        self, row: _Row, group: Sequence[Candidate], sides: Sequence[tuple[str, Candidate]]
    ) -> bool:
        """Add a row of a group; False, counted, if the format cannot represent it.

        Args:
            group: its candidates. Rows that share the prompt of the first stay on one side of a
                split.
            sides: the rollouts, each with its side, such as `chosen`.
        """
        rendered = self._render(row)
        if rendered is not None:
            self.rows.append(rendered, group[0].prompt, sides)
        return rendered is not None

    def _render(self, row: _Row) -> Json | None:
        try:
            rendered = self.format.render(row)
        except UnfitError as error:
            self.counts.dropped[Drop.UNFIT] += 1
            self.counts.unfit[str(error)] += 1
            return None
        others = TRL_READS if isinstance(row, Sample) else frozenset()
        for path in self.options.keep:
            columns = row.kept(path)
            if clash := (rendered.keys() | others) & columns.keys():
                raise UsageError(
                    SettingRef("keep", path),
                    f": {min(clash)} is a column that the format or its trainer reads; omit it.",
                )
            rendered |= columns
        return rendered

    def _answer(self, candidate: Candidate) -> ExportedAnswer:
        scored = candidate.scored
        fields = scored.record["fields"]
        self.missing.difference_update(path for path, value in fields.items() if value is not None)
        return ExportedAnswer(
            id=candidate.id,
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


def _prompt_of(candidate: Candidate) -> Prompt:
    scored = candidate.scored
    return Prompt(
        f"{candidate.prompt:016x}",
        messages_of_prompt(scored.rollout.prompt),
        scored.rollout.tools,
        scored.line.judge,
        scored.record["reference"],
    )
