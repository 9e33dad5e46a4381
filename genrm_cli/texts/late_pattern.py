"""Patterns that are compiled when they are first used: those for failures, and for texts that few
runs have, take longer to compile than a short run has.
"""

import re
from typing import Any, AnyStr, cast


class _LatePattern:
    def __init__(self, pattern: Any, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, found)  # the next use finds it at once
        return found


def late_pattern(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, compiled at its first use."""
    return cast(re.Pattern[AnyStr], _LatePattern(pattern, flags))
