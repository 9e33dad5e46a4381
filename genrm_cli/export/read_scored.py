"""Read scored lines into a table, and count what cannot be exported."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from genrm_cli.errors import InputError, SettingRef, UsageError
from genrm_cli.export.candidates import Drop
from genrm_cli.export.export_options import ExportOptions
from genrm_cli.export.scored_table import ScoredTable
from genrm_cli.rollouts.declared import Requirement, parse_requirement
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.rollouts.rollout import Rollout, Turn, has_act, turns_of_items
from genrm_cli.scored.files import ScoredInput, open_scored, read_metrics_beside
from genrm_cli.scored.lines import ScoredLine, ScoredRollout
from genrm_cli.scored.parse_lines import iter_scored
from genrm_cli.scored.review_file import APPROVED, read_statuses
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings import Settings
from genrm_cli.storage.location import InputIdentity, S3Options
from genrm_cli.storage.source import Source
from genrm_cli.verdicts import Reason


@dataclass(slots=True)
class ScoredFile:
    """One scored file.

    Attributes:
        input: number of the input that it belongs to.
        sha256: digest of its lines, each with a newline.
    """

    identity: InputIdentity
    input: int
    sha256: str = ""
    lines: int = 0
    rollouts: int = 0
    judges: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Reading:
    """The inputs of an export, and counts of omitted lines and rollouts.

    Attributes:
        metrics: the metrics file of each input, a file or a set of files; None without one.
        rejects: lines that were not read, by reason.
        left_out: rollouts that are not exported, by reason.
        is_baseline: whether any reward is the built-in baseline's.
        truncated: rollouts that a limit cut off, exported or not.
        incomplete_groups: groups some of whose lines are missing in their input.
        repeated_prompts: prompts that groups of several inputs answer.
    """

    inputs: list[ScoredFile] = field(default_factory=list)
    metrics: list[RunRecord | None] = field(default_factory=list)
    rejects: Counter[str] = field(default_factory=Counter)
    left_out: Counter[Drop | Reason] = field(default_factory=Counter)
    is_baseline: bool = False
    truncated: int = 0
    incomplete_groups: int = 0
    repeated_prompts: int = 0

    @property
    def rollouts(self) -> int:
        """Number of rollouts in all files."""
        return sum(each.rollouts for each in self.inputs)


def read_scored(
    scored: Sequence[ScoredInput], table: ScoredTable, options: ExportOptions, settings: Settings, s3: S3Options
) -> Reading:
    """Read all inputs into the table.

    Raises:
        InputError: an input that cannot be read, or has no scored line; with `--strict`, one with a bad line.
        UsageError: inputs that were scored with different settings.
    """
    reading = Reading()
    prompts: Counter[int] = Counter()
    for number, each in enumerate(scored):
        one = _InputReader(number, table, options, settings, reading, read_statuses(each, s3, settings))
        reading.metrics.append(read_metrics_beside(each, s3, settings))
        for uri in each.files:
            with open_scored(uri, s3, settings) as source:
                one.read(source)
                source.verify_unchanged()
        reading.incomplete_groups += sum(one.seen[key] < size for key, size in one.sizes.items())
        prompts.update(set(one.prompts.values()))
    reading.repeated_prompts = sum(count > 1 for count in prompts.values())
    _refuse_mixed(scored, reading, options)
    return reading


class _InputReader:
    """One input, a file or a set of files, on its way into the table.

    Attributes:
        prompts: digest of the prompt of each group.
        sizes: rollouts of each group when it was scored, and in this input in `seen`.
    """

    def __init__(
        self,
        number: int,
        table: ScoredTable,
        options: ExportOptions,
        settings: Settings,
        reading: Reading,
        withheld: Mapping[tuple[str, int], str],
    ) -> None:
        self.prompts: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.seen: Counter[str] = Counter()
        self._number = number
        self._table = table
        self._options = options
        self._settings = settings
        self._reading = reading
        self._requirements: list[Requirement] = [parse_requirement(text) for text in settings.input.require_metadata]
        self._withheld = withheld

    def read(self, source: Source) -> None:
        """Read every line of a file.

        Raises:
            InputError: none of them is scored.
        """
        reading, read = self._reading, ScoredFile(source.identity, self._number)
        digest = hashlib.sha256()
        first = ""
        for line, rollouts, problem in iter_scored(source, self._settings.input, self._requirements):
            read.lines += 1
            digest.update(line.raw + b"\n")
            if problem is not None:
                reading.rejects[problem] += 1
                first = first or f"{source.unit} {line.number}: {problem}"
            for each in rollouts:
                read.rollouts += 1
                self._add(each, read)
        if read.lines and not read.rollouts:
            raise InputError(f"{source.uri}: none of its {read.lines:,} {source.unit}s can be exported ({first})")
        if first and self._settings.input.strict:
            raise InputError(f"{source.uri}: ", SettingRef("strict", True), f" refuses {first}")
        read.sha256 = digest.hexdigest()
        reading.inputs.append(read)

    def _add(self, scored: ScoredRollout, read: ScoredFile) -> None:
        rollout, line, reading = scored.rollout, scored.line, self._reading
        key = line.group_name(read.lines)
        self.sizes.setdefault(key, line.group_size)
        self.seen[key] += 1
        if key not in self.prompts and rollout.has_prompt:
            self.prompts[key] = digest_of_prompt(rollout.prompt)
        reading.is_baseline |= line.is_baseline
        if line.judge is not None:
            read.judges.add(line.judge)
        reason = self._why_left_out(rollout, line)
        if reason is None and self._options.branch_at is not None:
            branched = branch_at(rollout, self._options.branch_at)
            reason = Drop.TOO_FEW_TURNS if branched is None else None
            rollout = branched or rollout
        if reason is not None or line.reward is None:
            reading.left_out[reason or Drop.UNSCORED] += 1
            return
        reading.truncated += rollout.is_truncated
        group = self._table.group_number(self._number, key, line.judge)
        kept = replace(scored, rollout=rollout)
        self._table.append(group, kept, with_reasoning=self._options.reasoning != "strip")

    def _why_left_out(self, rollout: Rollout, line: ScoredLine) -> Drop | Reason | None:
        """Return why a rollout is not exported; None if it is."""
        status = None if line.group is None else self._withheld.get((line.group, line.index))
        if status not in (None, APPROVED):
            return Drop(f"review_{status}")
        if line.reward is None or line.status == "unscored":
            return line.reason or Drop.UNSCORED
        if line.status == "single":
            return Drop.SINGLE
        if line.defaulted:
            return Drop.DEFAULTED
        if rollout.excluded is not None:
            return Drop.EXCLUDED
        if rollout.response is None:
            return Drop.NO_RESPONSE
        if rollout.media:
            return Drop.MEDIA
        if not rollout.has_prompt:
            return Drop.NO_PROMPT
        return None if has_act(rollout.response) else Drop.BLANK


def branch_at(rollout: Rollout, number: int) -> Rollout | None:
    """Return a rollout whose response is one turn of the policy, and whose prompt is everything before it.

    A turn is everything between two turns that the policy did not write: text, reasoning, calls and results.

    Args:
        rollout: a session, or a response with turns of an environment.
        number: number of the policy's turn, from 1.

    Returns:
        None if the policy has fewer turns.
    """
    items = rollout.response or ()
    own = [at for at, item in enumerate(items) if not isinstance(item, Turn)]
    starts = [at for at in own if at == 0 or isinstance(items[at - 1], Turn)]
    if len(starts) < number:
        return None
    start = starts[number - 1]
    turn = tuple(takewhile(lambda item: not isinstance(item, Turn), items[start:]))
    return replace(rollout, prompt=rollout.prompt + turns_of_items(items[:start]), response=turn)


def _refuse_mixed(scored: Sequence[ScoredInput], reading: Reading, options: ExportOptions) -> None:
    """Refuse inputs whose rewards are on different scales.

    Raises:
        UsageError: several judges or settings.
    """
    if options.mixed_settings:
        return
    judges = sorted({judge for each in reading.inputs for judge in each.judges})
    if len(judges) > 1:
        raise UsageError(
            f"the inputs were scored by different judges ({', '.join(judges)}), so their rewards are on different "
            "scales. Export them apart, or pass ",
            SettingRef("mixed_settings", True),
            ".",
        )
    digests: dict[str, str] = {}
    for each, metrics in zip(scored, reading.metrics, strict=True):
        if metrics is not None:
            digests.setdefault(metrics.settings_digest, each.name)
    if len(digests) > 1:
        raise UsageError(
            f"the inputs were scored with different settings ({', '.join(digests.values())}). Score them alike, "
            "export them apart, or pass ",
            SettingRef("mixed_settings", True),
            ".",
        )
