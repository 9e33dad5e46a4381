"""`--cpu-above SECONDS` lists the tests that take more CPU, and the sum of all.

The CPU of a test's processes is its own. A fixture that tests share counts for the first of them.
A busy machine inflates the figures, so nothing fails by them."""

import os

import pytest

_BEGAN = pytest.StashKey[float]()
_NAME = "cpu_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    what = "list the tests that take more seconds of CPU, with their processes"
    parser.addoption("--cpu-above", type=float, metavar="SECONDS", help=what)


def _cpu_s() -> float:
    """Return the CPU of this process, and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> object:
    """Begin to count, before any fixture."""
    item.stash[_BEGAN] = _cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Note the CPU in the last report of a test, which workers send to the terminal."""
    report: pytest.TestReport = yield
    if call.when == "teardown":
        report.user_properties.append((_NAME, _cpu_s() - item.stash[_BEGAN]))
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
        if isinstance(report, pytest.TestReport)
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
