"""A number from the line."""

import math

from genrm_cli.json_types import field_at
from genrm_cli.rewards.component import MOST, Column, Ids, Lines, LocalKind, Rollouts, why_refused
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component, last_part


def _compute(component: Component, _rollouts: Rollouts, records: Lines, _ids: Ids) -> Column:
    found = [field_at(record, component.option("field") or "") for record in records]
    values = [_number_of(value) for value in found]
    return Column(values, failure=why_refused(found, values, f"number from 0 to {MOST:g}"))


def _number_of(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)) or not math.isfinite(value) or not 0 <= value <= MOST:
        return None
    return float(value)


KIND = LocalKind(
    options={"field": checks.text},
    required=("field",),
    short="field",
    implied=lambda name: {} if name == "field" else {"field": name},
    name_of=last_part,
    source="input",
    compute=_compute,
)
