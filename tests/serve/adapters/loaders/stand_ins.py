"""Stand-ins for the few names that adapters take from trainers that cannot be installed on a CPU,
or not at all.

Each has the signatures of the source that its test names.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def modules(**contents: dict[str, Any]) -> Iterator[None]:
    """Let modules be imported for a while; `a__b` stands for `a.b`."""
    made = {}
    for name, names in contents.items():
        parts = name.split("__")
        for depth in range(1, len(parts) + 1):
            module = made.setdefault(".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
            module.__path__ = []
        vars(module).update(names)
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]
