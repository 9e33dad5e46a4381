"""Grades by a judge, one component for each rubric of a set."""

from genrm_cli.settings import checks
from genrm_cli.settings.components import ComponentKind

KIND = ComponentKind(
    options={
        "set": checks.text,
        "json_schema": checks.boolean,
        "repeats": checks.integer(1, 16),
    },
    required=("set",),
    short="set",
    source="judge",
    is_judged=True,
)
"""`groups.graders` asks the judge and reads its grades."""
