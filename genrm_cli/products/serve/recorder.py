"""Record served groups in files that `genrm report` and `genrm export` read."""

from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
from msgspec.structs import replace

from genrm_cli.groups.count_group import count_whole_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.json_types import Record
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.metrics.event import OnEvent
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.serve.cohorts.cohort import Member
from genrm_cli.rollouts.formats import Score, recognise
from genrm_cli.rollouts.redaction import Mask, mask_of, masked_values
from genrm_cli.scored.describe_run import run_record, run_totals
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.write_lines import comparison_json, scores_of
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.record_files import RecordFiles
from genrm_cli.storage.store import Store

_OF_COMPARE = "response_objs"


class Recorder(RecordFiles):
    """Writes served groups: comparisons, scored lines and metrics."""

    kind = "served"
    suffixes = (".comparisons.jsonl", ".scored.jsonl")

    def __init__(
        self,
        folder: str,
        settings: Settings,
        plan: GroupPlan,
        judges: Sequence[JudgeSpec],
        on_event: OnEvent,
    ) -> None:
        """Prepare the folder; writes nothing."""
        super().__init__(
            folder,
            settings.serve.record_every,
            on_event,
            Store(settings.storage),
            any_prefix=settings.storage.any_prefix,
        )
        self._settings = settings
        self._plan = plan
        self._judges = judges
        self._names: set[str | None] = set()
        self._counts = RunMetrics()
        self._mask = mask_of(settings.judge.redact_pattern)

    def add(self, members: Sequence[Member], judged: JudgedGroup, rewards: GroupRewards) -> None:
        """Record a group. A file never holds two groups of one name."""
        comparisons = b"".join(
            orjson.dumps(
                comparison_json(each, with_reply=self._plan.keep_replies),
                option=orjson.OPT_APPEND_NEWLINE,
            )
            for each in rewards.comparisons
        )
        self._append_group(
            rewards.key, comparisons, scored_lines(members, rewards, self._plan.rewards, self._mask)
        )
        count_whole_group(self._counts, judged, rewards, self._plan)

    def add_late(self, member: Member, rewards: GroupRewards, index: int) -> None:
        """Record a late member, apart from its group; its comparisons are in the journal."""
        # The other lines are already in the file, with the rewards of their first reply.
        alone = replace(
            rewards, scores=[replace(rewards.scores[index], group_size=1)], comparisons=[]
        )
        self._append_group(
            rewards.key, b"", scored_lines([member], alone, self._plan.rewards, self._mask)
        )

    def _append_group(self, key: str | None, *parts: bytes) -> None:
        self._append(*parts, begins=key in self._names)
        self._names.add(key)

    def _metrics(self, uri: str) -> bytes:
        settings = self._settings
        wall_time_s = (datetime.now(UTC) - self._begun).total_seconds()
        totals = run_totals(settings, self._counts, self._plan, self._judges, wall_time_s)
        record = run_record(
            totals,
            settings,
            input_=None,
            output=uri,
            output_mark=None,
            journal=settings.journal.journal if settings.journal.use_journal else None,
        )
        self._names = set()
        self._counts = RunMetrics()
        return render_document(to_json(record))


def scored_lines(
    members: Sequence[Member], rewards: GroupRewards, rules: RewardPlan, mask: Mask
) -> bytes:
    """Return the lines of a group in its order, masked, each with its reward; a compare request is
    one line.
    """
    scores = scores_of(rewards.scores, rules)
    if members and isinstance(
        members[0].line.get(_OF_COMPARE), dict
    ):  # one response of a compare request
        whole = {**members[0].line, _OF_COMPARE: [member.line[_OF_COMPARE] for member in members]}
        return _annotated(masked_values(whole, mask), scores)
    lines = (masked_values({**member.line}, mask) for member in members)
    return b"".join(_annotated(line, [score]) for line, score in zip(lines, scores, strict=True))


def _annotated(line: Record, scores: Sequence[Score]) -> bytes:
    recognise(line, settled=[*line]).annotate(line, scores)
    return render_record(line)
