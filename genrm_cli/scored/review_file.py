"""The review file of scored lines: experts' verdicts on single rollouts; and what a session says of
its own review.

`X.review.jsonl` belongs to `X.scored.jsonl`. Each line is an object with `group` and `index` of a
rollout, as in its `genrm` object, and a `status`; of several lines about one rollout the last
counts. Other keys (name, time, comment) are for people."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from genrm_cli.errors import InputError
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.scored.files import ScoredInput
from genrm_cli.settings import Settings
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import parse_json

SUFFIX = ".review.jsonl"
APPROVED = "approved"
PENDING = "pending"
Status = Literal["approved", "pending", "held", "rejected"]
STATUSES: tuple[str, ...] = get_args(Status)


class _ReviewLine(Struct, frozen=True):
    group: str
    index: int
    status: Status


def own_status(rollout: Rollout, record: JsonObject) -> str | None:
    """Return the status in `metadata.review` of a session, `pending` after `genrm collect`; None
    without one.
    """
    metadata = record.get("metadata")
    status = (
        metadata.get("review") if rollout.is_session and isinstance(metadata, Mapping) else None
    )
    return next((each for each in STATUSES if each == str(status).strip().lower()), None)


def read_statuses(
    scored: ScoredInput, store: Store, settings: Settings
) -> dict[tuple[str, int], str]:
    """Return the last status of each rollout in a review file, by group and index; empty without
    one.

    Raises:
        InputError: a line is not a review; a rollout that should be withheld must not slip through.
    """
    statuses: dict[tuple[str, int], str] = {}
    source = scored.open_beside(SUFFIX, store, settings)
    if source is None:
        return statuses
    with source:
        for line in source.iter_lines():
            try:
                review = parse_json(_ReviewLine, line.raw)
            except ValueError as error:
                raise InputError(
                    f"{source.uri}: line {line.number}: not a review: {error}; expected group "
                    f"(text), index (integer) and status ({', '.join(STATUSES)})"
                ) from error
            statuses[review.group, review.index] = review.status
    return statuses
