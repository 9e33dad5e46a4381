"""A group in the form used by the page: short lists, all texts masked as for the judge."""

from collections.abc import Sequence

from msgspec.structs import replace

from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.json_types import Record
from genrm_cli.rollouts.redaction import Mask, masked_values
from genrm_cli.rollouts.rollout import (
    Item,
    Media,
    Reasoning,
    ToolCall,
    ToolResult,
    Turn,
    call_text,
)
from genrm_cli.scored.lines import ScoredGroup, ScoredRollout

_DIGITS = 4  # for people: more would only make the page larger
_PROMPT_CHARS = 120  # a line of the list of groups


def with_labels_masked(group: ScoredGroup, mask: Mask) -> ScoredGroup:
    """Return a group whose key, judges and reasons are masked."""
    if mask is str:  # there are no patterns
        return group
    members = []
    for each in group.members:
        judge, reason = (text and mask(text) for text in (each.line.judge, each.line.reason_text))
        members.append(replace(each, line=replace(each.line, judge=judge, reason_text=reason)))
    comparisons = tuple(replace(each, judge=mask(each.judge)) for each in group.comparisons)
    return ScoredGroup(mask(group.key), tuple(members), comparisons)


def group_document(group: ScoredGroup, mask: Mask) -> Record:
    """Return a group whose labels are masked, JSON-ready; its texts are masked here."""
    prompt = group.members[0].rollout.prompt
    return {
        "key": group.key,
        "reliability": rounded(group.line.reliability),
        "prompt": _turns(prompt, mask),
        "rollouts": [_rollout(each, prompt, mask) for each in group.members],
        "comparisons": [_comparison(each, mask) for each in group.comparisons],
    }


def prompt_beginning(group: ScoredGroup, mask: Mask) -> str:
    """Return the beginning of the last turn that the group answers."""
    prompt = group.members[0].rollout.prompt
    text = prompt[-1].text if prompt else ""
    # Cut before it is masked, which takes time by length; white space is joined afterwards.
    return " ".join(mask(text[: 8 * _PROMPT_CHARS]).split())[:_PROMPT_CHARS]


def rounded(value: float | None) -> float | None:
    """Return a number rounded for people."""
    return None if value is None else round(value, _DIGITS)


def _rollout(scored: ScoredRollout, prompt: tuple[Turn, ...], mask: Mask) -> Record:
    rollout = scored.rollout
    line = scored.line
    items = list[Item](rollout.response or ())
    if rollout.session is not None:  # shown as the turns that rules count, reasoning first
        items = [*rollout.session]
        if rollout.reasoning:
            items.insert(0, Reasoning(rollout.reasoning))
    document: Record = {
        "index": line.index,
        "reward": rounded(line.reward),
        "rank": line.rank,
        "advantage": rounded(line.advantage),
        "error": rounded(line.standard_error),
        "chars": len(rollout.answer or ""),
        "items": [_item(item, mask) for item in items],
    }
    if line.reward is None:
        document["why"] = line.reason_text or line.status
    elif line.total is not None and line.total.gated_by:
        document["why"] = f"broke the gate {', '.join(line.total.gated_by)}"
    if rollout.is_truncated:
        document["cut"] = True
    if line.neutralised:
        document["neutralised"] = line.neutralised
    if rollout.prompt != prompt:  # episodes share only the beginning of their prompts
        document["prompt"] = _turns(rollout.prompt, mask)
    if line.components:
        document["components"] = {name: rounded(value) for name, value in line.components.items()}
    if line.component_notes:
        document["notes"] = masked_values(line.component_notes, mask)
    return document


def _turns(prompt: Sequence[Turn], mask: Mask) -> list[list[str]]:
    return [[mask(turn.role), mask(turn.text)] for turn in prompt]


def _item(item: Item, mask: Mask) -> list[str]:
    match item:
        case Turn():
            return ["turn", mask(item.text), mask(item.role)]
        case ToolCall():
            return ["call", mask(call_text(item.name, item.arguments))]
        case ToolResult():
            return ["result", mask(item.text), mask(item.name)]
        case Media():
            return ["media", item.kind]
        case _:
            return [type(item).__name__.lower(), mask(item.text)]


def _comparison(comparison: ComparisonRecord, mask: Mask) -> Record:
    verdict = comparison.verdict
    document: Record = {
        "shown": comparison.indices,
        "judge": comparison.judge,
        "repeat": comparison.judge_idx,
    }
    if verdict is not None:
        document["verdict"] = [verdict.score_1, verdict.score_2, verdict.ranking]
    optional = {
        "failure": comparison.failure
        and [comparison.failure.kind, mask(comparison.failure.detail)],
        "reply": comparison.reply and mask(comparison.reply),
        "component": comparison.component,
        "grades": comparison.grades,
    }
    return document | {name: value for name, value in optional.items() if value}
