import ast
from pathlib import Path

import genrm_cli

JUDGING = Path(genrm_cli.__file__).parent / "judging"
WALL_CLOCKS = {
    "time",
    "time_ns",
    "now",
    "utcnow",
    "today",
    "localtime",
    "gmtime",
    "ctime",
}
# When a verdict was given is a date, and so may Retry-After be.
MAY_TELL_THE_DATE = {
    ("journal.py", "_write"),
    ("client.py", "_retry_after_s"),
    *(("journal_file.py", name) for name in ("read", "write")),  # records are kept until a date
    ("endpoint.py", "loop_time_s"),  # the clock of the event loop, which is monotonic
}


def test_waits_never_depend_on_the_wall_clock():
    """In judging/ the date is looked up only where a date is meant; timeouts and waits use
    monotonic clocks.
    """
    found = set()
    for path in JUDGING.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr in WALL_CLOCKS:
                    found.add((path.name, function.name))
                assert not (isinstance(node, ast.Name) and node.id in {"time_ns", "utcnow"})
    assert found == MAY_TELL_THE_DATE
