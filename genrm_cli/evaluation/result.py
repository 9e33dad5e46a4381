"""The result of `genrm eval`: written, and read to compare two judges and for the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from genrm_cli.errors import InputError
from genrm_cli.evaluation.accuracy import JudgeQuality, PairRecord
from genrm_cli.scored.json_form import FormError, from_json
from genrm_cli.scored.run_record import InputVersion, JudgeRecord, PanelRecord
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.objects import read_object
from genrm_cli.verdicts import StoppedBy

FORMAT: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectRecord:
    """A line without a pair that can be judged, and why."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """The result of one run.

    Attributes:
        partial: whether a limit left judgements unasked.
        rejects: the first rejected lines; `rejected_lines` counts all.
        figures: quality over all pairs.
        redactions: matches masked in the texts sent, by kind.
    """

    format: Literal[1] = FORMAT
    input: InputVersion
    time: str
    partial: bool
    stopped_by: StoppedBy | None
    judge: PanelRecord | JudgeRecord
    lines: int
    rejected_lines: int
    rejects: tuple[RejectRecord, ...]
    figures: JudgeQuality
    by_category: Mapping[str, JudgeQuality]
    redactions: Mapping[str, int]
    calls: int
    journal_hits: int
    prompt_tokens: int
    completion_tokens: int
    wall_time_s: float
    settings_digest: str
    versions: Mapping[str, str]
    pairs: tuple[PairRecord, ...]


def read_result(uri: str, s3: S3Options) -> EvalResult:
    """Read a result.

    Raises:
        InputError: the file is missing or not such a result.
        StorageError: it cannot be read.
    """
    content = read_object(uri, s3)
    if content is None:
        raise InputError(f"{uri}: no such file; check the path")
    try:
        return from_json(EvalResult, parse_record(content))
    except (BadLineError, FormError) as error:
        raise InputError(f"{uri}: {error}. Expected a result of `genrm eval PAIRS -o {uri}`.") from error
