"""Read scored runs, and choose the rollouts of a group that can be exported."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import takewhile

from msgspec import Struct, field
from msgspec.structs import replace

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.json_types import Record, field_at
from genrm_cli.metrics.figures import rounded
from genrm_cli.products.export.candidates import Candidate, Drop, digest_of_items
from genrm_cli.products.export.export_options import ExportOptions
from genrm_cli.products.export.rows import ExportFormat
from genrm_cli.rollouts.formats.episodes.session_safety import safety_of_components
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.rollouts.reading.chosen_fields import reference_at
from genrm_cli.rollouts.reading.known_names import REFERENCES
from genrm_cli.rollouts.rollout import (
    Rollout,
    Turn,
    chars_of_items,
    has_act,
    turns_of_items,
)
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.lines import ScoredGroup, ScoredRollout
from genrm_cli.scored.review_file import APPROVED, PENDING, own_status, read_statuses
from genrm_cli.settings import Settings
from genrm_cli.storage.location import short_names
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import Reason

# Names under which rollout files keep them.
_LOGPROBS = ("logprobs", "response_logprobs", "completion_logprobs")


class ExportInput(Struct, frozen=True):
    """One scored file or set.

    Attributes:
        name: its name in the ids of rollouts; no other input has it.
        statuses: reviews by group and index.
    """

    name: str
    run: ScoredRun
    statuses: Mapping[tuple[str, int], str]


class ExportCounts(Struct):
    """Counts of an export.

    Attributes:
        left_out: rollouts that are not exported, by reason.
        is_baseline: whether any reward is the built-in baseline's, of a run that has no account.
        truncated: exported rollouts that a limit cut off.
        incomplete_groups: groups with lines missing from their input.
        unreviewed: rollouts whose review is pending, included nevertheless.
        groups: groups with a rollout that can be exported.
        rows: number of rows by output, `train` or `validation`.
        dropped: candidate rows by reason; those that the format cannot represent also by sentence
            in `unfit`.
    """

    left_out: Counter[Drop | Reason] = field(default_factory=Counter)
    is_baseline: bool = False
    truncated: int = 0
    incomplete_groups: int = 0
    unreviewed: int = 0
    groups: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    dropped: Counter[Drop] = field(default_factory=Counter)
    unfit: Counter[str] = field(default_factory=Counter)


def open_inputs(
    scored: Sequence[ScoredInput],
    format_: ExportFormat,
    options: ExportOptions,
    settings: Settings,
    opened: ExitStack,
) -> list[ExportInput]:
    """Read all inputs; `opened` closes them.

    Raises:
        InputError: an input cannot be read, or has no scored line, or lacks the comparisons that
            are needed.
        UsageError: the inputs were scored with different settings.
    """
    inputs = []
    store = Store(settings.storage)
    needs = naming("$pairs needs", pairs="compared")
    comparisons = format_.unit == "pair" and options.pairs == "compared"
    kept_of = partial(_kept_of, options.keep, settings.input.reference_field)
    for each, name in zip(scored, short_names([each.uri for each in scored]), strict=True):
        run = opened.enter_context(ScoredRun(each, settings, kept_of=kept_of))
        run.read(store, comparisons=comparisons)
        if comparisons and not run.has_comparisons:
            remedy = " its comparisons file; put *.comparisons.jsonl of the same run next to it"
            raise InputError(f"{each.name}: ", needs, remedy)
        inputs.append(ExportInput(name, run, read_statuses(each, store, settings)))
    _refuse_mixed([each.run for each in inputs])
    return inputs


def _kept_of(paths: Sequence[str], reference_field: str | None, record: Record) -> Record:
    """Return what an export needs besides the rollout."""
    references = [reference_field] if reference_field else sorted(REFERENCES & record.keys())
    # Of several the user must name one.
    reference = reference_at(record, references[0]) if len(references) == 1 else None
    return {
        "policy": record.get("policy"),
        "reference": reference or "",
        "fields": {path: field_at(record, path) for path in paths},
        "metadata": {"review": field_at(record, "metadata.review")},
        "reward": {"source": field_at(record, "reward.source")},
        "logprobs": next(filter(None, map(_numbers, map(record.get, _LOGPROBS))), None),
    }


def _numbers(value: object) -> list[float] | None:
    if isinstance(value, list) and all(isinstance(each, (int, float)) for each in value):
        return [float(each) for each in value]
    return None


def refuse_smoke_tests(group: ScoredGroup, name: str) -> None:
    """Refuse sessions whose rewards no judge gave: nobody compared what they are about to teach.

    Raises:
        UsageError: the message names the file.
    """
    if any(field_at(each.record, "reward.source") == "plumbing" for each in group.members):
        raise UsageError(
            f"{name}: no judge rewarded these sessions, so their rewards only test the plumbing. "
            "Score them with a judge, or pass ",
            SettingRef("smoke_test", True),
            ".",
        )


def candidates_of(
    group: ScoredGroup, input_: ExportInput, options: ExportOptions, counts: ExportCounts
) -> list[Candidate]:
    """Return the rollouts of a group that can be exported, by index; the others are counted."""
    counts.incomplete_groups += len(group.members) < group.line.group_size
    candidates = []
    for each in group.members:
        rollout = each.rollout
        line = each.line
        counts.is_baseline |= line.is_baseline and input_.run.metrics is None
        # A review of the file beside the lines counts more than what the session says of itself.
        status = None if line.group is None else input_.statuses.get((line.group, line.index))
        status = status or own_status(rollout, each.record)
        reason = _why_left_out(rollout, line)
        if status == PENDING and options.include_pending:
            counts.unreviewed += 1
        elif status not in (None, APPROVED):
            reason = Drop[f"REVIEW_{status.upper()}"]
        if reason is None and options.branch_at is not None:
            branched = branch_at(rollout, options.branch_at)
            reason = Drop.TOO_FEW_TURNS if branched is None else None
            rollout = branched or rollout
        if reason is not None or line.reward is None:
            counts.left_out[reason or Drop.UNSCORED] += 1
            continue
        counts.truncated += rollout.is_truncated
        id_ = f"{input_.name}/{group.key}#{line.index}"
        candidates.append(_candidate(id_, replace(each, rollout=rollout), line.reward, options))
    return candidates


def _candidate(id_: str, scored: ScoredRollout, reward: float, options: ExportOptions) -> Candidate:
    line = scored.line
    policy = scored.record.get("policy")
    items = scored.rollout.response or ()
    return Candidate(
        scored,
        line.index,
        reward,
        chars_of_items(items),
        digest_of_items(items, with_reasoning=options.reasoning != "strip"),
        digest_of_prompt(scored.rollout.prompt),
        is_gated=_is_gated(scored.rollout, line, options),
        # Of `collect --policy-role teacher`.
        is_teacher=isinstance(policy, dict) and policy.get("role") == "teacher",
        id=id_,
    )


def _is_gated(rollout: Rollout, line: ScoredLine, options: ExportOptions) -> bool:
    """Whether a rollout broke a gate, at collection or since, is recorded as unsafe without a gate,
    or has no component of the least value that the user set.
    """
    components = line.components or {}
    if rollout.gated_by or (line.total is not None and line.total.gated_by):
        return True
    if safety_of_components(components, None).broken:
        return True
    for name, least in options.least_components.items():
        value = components.get(name)
        if value is None or rounded(value) < rounded(least):
            return True
    return False


def _why_left_out(rollout: Rollout, line: ScoredLine) -> Drop | Reason | None:
    """Return why a rollout is not exported; None if it is."""
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
    """Return a rollout whose response is one turn of the policy, and whose prompt is everything
    before it.

    A turn is everything between two turns that the policy did not write: text, reasoning, calls and
    results.

    Args:
        rollout: a session, or a response with turns of an environment.
        number: number of the policy's turn, from 1.

    Returns:
        None if the policy has fewer turns.
    """
    items = rollout.response or ()
    written = [at for at, item in enumerate(items) if not isinstance(item, Turn)]
    starts = [at for at in written if at == 0 or isinstance(items[at - 1], Turn)]
    if len(starts) < number:
        return None
    start = starts[number - 1]
    turn = tuple(takewhile(lambda item: not isinstance(item, Turn), items[start:]))
    return replace(rollout, prompt=rollout.prompt + turns_of_items(items[:start]), response=turn)


def _refuse_mixed(runs: Sequence[ScoredRun]) -> None:
    """Refuse inputs whose rewards are on different scales.

    Raises:
        UsageError: several judges or settings.
    """
    judges = sorted(set[str]().union(*(run.judges for run in runs)))
    digests: dict[str, str] = {}
    for run in runs:
        if run.metrics is not None:
            digests.setdefault(run.metrics.settings_digest, run.name)
    if len(judges) > 1 or len(digests) > 1:
        by = f"with different settings ({', '.join(digests.values())})"
        by = f"by different judges ({', '.join(judges)})" if len(judges) > 1 else by
        raise UsageError(
            f"the inputs were scored {by}, so their rewards are on different scales. Export them "
            "apart."
        )
