"""JSON is read into classes by any number of threads at once."""

from processes import run_program

# A process of its own: the crash that this guards against is one of the interpreter.
MANY_READ_A_NEW_CLASS = """
import dataclasses, sys, threading
from genrm_cli.typed_json import from_json, parse_json

sys.setswitchinterval(1e-6)

def nested(depth):
    inner = None
    for level in range(depth):
        fields = [(f"a{number}", int, 0) for number in range(10)]
        if inner is not None:
            fields.append(("inner", inner | None, None))
        inner = dataclasses.make_dataclass(f"Level{level}", fields)
    return inner

for _ in range(5):
    form = nested(30)
    all_there = threading.Barrier(8)

    def read():
        all_there.wait()
        assert parse_json(form, b'{"a1": 1}') == from_json(form, {"a1": 1})

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_read_a_class_for_the_first_time_together_do_not_crash():
    """Eight threads meet at a class that no one has read, five times."""
    assert run_program(MANY_READ_A_NEW_CLASS).stderr == ""
