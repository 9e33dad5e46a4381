"""Record served groups in files that `genrm report` and `genrm export` read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from genrm_cli.groups.count_group import count_served_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.jobs.context import s3_options
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.pacing.pool import OnEvent
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rollouts.formats import Score, recognise
from genrm_cli.scored.describe_run import output_mark, run_record, run_totals
from genrm_cli.scored.json_form import Json, to_json
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.scored.write_lines import comparison_json, scored_line
from genrm_cli.serve.cohort import Member
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.rolling_files import RecordSpool, RollingFiles

_OF_COMPARE = "response_objs"


class Recorder(RollingFiles[RunTotals]):
    """Writes served groups: scored lines, comparisons and metrics."""

    kind = "served"

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
            folder, settings.serve.record_every, on_event, any_prefix=settings.storage.any_prefix
        )
        self._settings = settings
        self._plan = plan
        self._judges = judges
        self._names: set[str | None] = set()
        self._metrics = RunMetrics()

    async def open(self, keep_marks: Callable[[Iterable[bytes]], None]) -> None:
        """Write the groups that killed servers left, once their marks are kept: nothing may record
        them again.
        """
        await self.write_left(
            lambda left: keep_marks([mark for _, _, mark in left.iter_blocks() if mark])
        )

    def add(
        self, members: Sequence[Member], judged: JudgedGroup, rewards: GroupRewards, mark: bytes
    ) -> None:
        """Record a group. A file never holds two groups of one name.

        `mark` says that the group was recorded, for `open` after a kill; empty if it may be
        recorded again."""
        comparisons = b"".join(
            orjson.dumps(
                comparison_json(each, with_reply=self._plan.keep_replies),
                option=orjson.OPT_APPEND_NEWLINE,
            )
            for each in rewards.comparisons
        )
        self._spool_lines(
            rewards.key, scored_lines(members, rewards, self._plan), comparisons, mark
        )
        count_served_group(self._metrics, judged, rewards, self._plan)

    def add_late(self, member: Member, rewards: GroupRewards, index: int) -> None:
        """Record a late member, apart from its group; its comparisons are in the journal."""
        alone = replace(rewards, scores=[rewards.scores[index]], comparisons=[])
        self._spool_lines(rewards.key, scored_lines([member], alone, self._plan), b"", b"")

    def _spool_lines(self, key: str | None, *parts: bytes) -> None:
        self._spool_parts(*parts, begins=key in self._names)
        self._names.add(key)

    def _seal(self) -> RunTotals:
        wall_time_s = (datetime.now(UTC) - self._begun).total_seconds()
        totals = run_totals(self._settings, self._metrics, self._plan, self._judges, wall_time_s)
        self._names = set()
        self._metrics = RunMetrics()
        return totals

    def _write_file(self, place: str, spool: RecordSpool, sealed: RunTotals | None) -> str:
        """Write the files of a spool, all of them or none; without metrics those that a killed
        server left.
        """
        with Outputs(
            s3_options(self._settings), overwrite=True, manifest_uri=f"{place}.commit"
        ) as outputs:
            comparisons = outputs.open(f"{place}.comparisons.jsonl")
            metrics = None if sealed is None else outputs.open(f"{place}.metrics.json")
            scored = outputs.open(f"{place}.scored.jsonl")
            for scored_block, comparisons_block, _ in spool.iter_blocks():
                scored.write(scored_block)
                comparisons.write(comparisons_block)
            scored.finish()
            if metrics is not None and sealed is not None:
                journal = (
                    self._settings.journal.journal if self._settings.journal.use_journal else None
                )
                mark = output_mark(scored.mark)
                record = run_record(
                    sealed,
                    self._settings,
                    input_=None,
                    output=scored.uri,
                    output_mark=mark,
                    journal=journal,
                )
                metrics.write(render_document(to_json(record)))
            outputs.commit()
        return f"{place}.scored.jsonl"


def scored_lines(members: Sequence[Member], rewards: GroupRewards, plan: GroupPlan) -> bytes:
    """Return the lines of a group in its order, each with its reward; a compare request is one
    line.
    """
    scores = [scored_line(score, rewards, plan).as_score() for score in rewards.scores]
    if members and isinstance(
        members[0].line.get(_OF_COMPARE), dict
    ):  # one response of a compare request
        whole = {**members[0].line, _OF_COMPARE: [member.line[_OF_COMPARE] for member in members]}
        return _annotated(whole, scores)
    return b"".join(
        _annotated({**member.line}, [score]) for member, score in zip(members, scores, strict=True)
    )


def _annotated(line: Json, scores: Sequence[Score]) -> bytes:
    recognise(line).annotate(line, scores)
    return render_record(line)
