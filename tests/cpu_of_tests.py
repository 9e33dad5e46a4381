"""No fast test should take more than .3 s of CPU, with its processes; one that takes 2.4 s fails.

What tests share is not counted: fixtures of a wider scope, and a library that a test is the first
to import. Where a fixed calculation takes longer than it should, the limit grows as much.
`--cpu-above SECONDS` lists the tests that take more, and the sum of all."""

import resource
import sys
import time
from dataclasses import dataclass
from statistics import median

import pytest

_LIMIT_S = 0.3
# From eight times the limit on, a test fails: the start of a process is half a second, and up to
# nine tenths where eight others run beside it on each core; in a fresh clone, Hypothesis reads the
# whole source when the first test draws, for 1.3 s. What is between is listed.
_SLACK = 8
_REFERENCE_S = 0.0032  # of `_slowness`, on the machine where the limit was set
_LIBRARY = 20  # so many modules that are new after a test are a library, not its own imports
_NAME = "cpu_s"
_DEAR = ("slow", "weekly", "real_stores", "real_judge", "browser")


@dataclass(slots=True)
class _Begun:
    """What was there before a test: the CPU, less that of fixtures that it shares, and modules."""

    cpu_s: float
    modules: int


_BEGUN = pytest.StashKey[_Begun]()
_running: list[_Begun] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    what = "list the tests that take more seconds of CPU, with their processes"
    parser.addoption("--cpu-above", type=float, metavar="SECONDS", help=what)


def _cpu_s() -> float:
    """Return the CPU of this process, and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _slowness() -> float:
    """Return how many times as long as elsewhere this machine computes; at least 1."""
    times = []
    for _ in range(9):
        began_s = time.thread_time()
        sum(number * number % 7 for number in range(60_000))
        times.append(time.thread_time() - began_s)
    return max(1.0, median(times) / _REFERENCE_S)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> object:
    """Begin to count, before any fixture."""
    item.stash[_BEGUN] = _Begun(_cpu_s(), len(sys.modules))
    _running[:] = [item.stash[_BEGUN]]
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> object:
    """Leave out what other tests use as well; a fixture's own fixtures are there before it."""
    began_s = _cpu_s()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            for begun in _running:
                begun.cpu_s += _cpu_s() - began_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Note the CPU in the report of a test, which workers send to the terminal, and fail a fast
    test that takes too much.
    """
    report: pytest.TestReport = yield
    if call.when != "call":
        return report
    begun = item.stash[_BEGUN]
    spent_s = _cpu_s() - begun.cpu_s
    report.user_properties.append((_NAME, spent_s))
    is_fast = not any(map(item.get_closest_marker, _DEAR))
    is_own = len(sys.modules) - begun.modules < _LIBRARY and is_fast
    if report.passed and is_own and spent_s > _SLACK * _LIMIT_S:
        limit_s = _SLACK * _LIMIT_S * _slowness()
        if spent_s > limit_s:
            report.outcome = "failed"
            report.longrepr = (
                f"takes {spent_s:.2f} s of CPU, more than {limit_s:.2f} s; a fast test should take "
                f"{_LIMIT_S} s at most: make it cheaper, or mark it slow"
            )
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List the dearest first."""
    least_s = config.option.cpu_above
    if least_s is None:
        return
    reports = [each for of in terminalreporter.stats.values() for each in of]
    found = [
        (value, report.nodeid)
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == _NAME
    ]
    total_s = sum(seconds for seconds, _ in found)
    above = sorted(each for each in found if each[0] > least_s)[::-1]
    terminalreporter.write_line(
        f"{len(above)} of {len(found)} tests take more than {least_s:g} s of CPU: "
        f"{sum(seconds for seconds, _ in above):.1f} s of {total_s:.1f} s"
    )
    for seconds, name in above:
        terminalreporter.write_line(f"{seconds:6.2f} s  {name}")
