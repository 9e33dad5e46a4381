"""Patterns that are compiled when they are first used: those for failures, and for texts that few
runs have, take longer to compile than a short run has.
"""

import re
from typing import Any, cast


class _LatePattern:
    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, found)  # the next use finds it at once
        return found


def late_pattern(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return what `re.compile` returns, compiled at its first use."""
    return cast(re.Pattern[str], _LatePattern(pattern, flags))
