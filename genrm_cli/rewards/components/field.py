"""A number from the line."""

import math
from collections.abc import Sequence

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.rewards.component import MOST, Column, LocalKind, RolloutId, why_refused
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component, last_part


def _compute(
    component: Component, _rollouts: Sequence[Rollout], records: Sequence[JsonObject], _ids: Sequence[RolloutId]
) -> Column:
    found = [field_at(record, component.option("field") or "") for record in records]
    values = [_number_of(value) for value in found]
    return Column(values, failure=why_refused(found, values, f"number from 0 to {MOST:g}"))


def _number_of(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= MOST:
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
