"""Types of parsed JSON."""

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]
"""An object that is only read."""
Record: TypeAlias = dict[str, Any]
"""A line of a file, or an object that becomes one; its readers add fields."""
