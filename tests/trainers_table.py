"""The column "checked with" in the guide's table of trainers is written by the run of their tests:

    make test-loaders

A version that was not run, or whose tests failed, is not claimed. A run of a part of the tests
writes nothing.
"""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "genrm_cli" / "guide" / "trainers.md"
# Distributions in the table, by the module that tests name.
CLAIMED = {
    "trl": "trl",
    "verl": "verl",
    "openrlhf": "openrlhf",
    "nemo_gym": "nemo-gym",
    "verifiers": "verifiers",
    "skyrl": "skyrl",
    "art": "openpipe-art",
}
FOLDERS = [
    PAGE.parents[2] / "tests" / "products" / product / "loaders"
    for product in ("export", "serve/adapters")
]
_OUTCOMES = ("passed", "failed", "error", "skipped")
_PARTIAL = "--write-trainers takes all tests of trainers"
_NEEDED_BY = pytest.StashKey[dict[str, set[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the table."""
    parser.addoption("--write-trainers", action="store_true", help="write the table of trainers")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse to write what a part of the tests says."""
    if not config.getoption("--write-trainers"):
        return
    missing = {file for folder in FOLDERS for file in folder.glob("test_*.py")}
    left_out = [*sorted(map(str, missing - {item.path for item in items}))]
    left_out += [argument for argument in config.args if "::" in argument]
    if left_out:
        raise pytest.UsageError(f"{_PARTIAL}: not only, or not without, {left_out[0]}")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Refuse to write what a part of the tests says."""
    left_out = [item for item in items if _needed_by(item)]
    if left_out and left_out[0].config.getoption("--write-trainers"):
        raise pytest.UsageError(f"{_PARTIAL}: not without {left_out[0].nodeid}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which packages each test needs."""
    session.config.stash[_NEEDED_BY] = {item.nodeid: _needed_by(item) for item in session.items}


def _needed_by(item: pytest.Item) -> set[str]:
    return {name for mark in item.iter_markers("loader") for name in mark.args}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the versions that were run into the table, if the run came to its end."""
    stats = terminalreporter.stats
    needed_by = config.stash.get(_NEEDED_BY, {})
    ended = {report.nodeid for name in _OUTCOMES for report in stats.get(name, [])}
    if not config.getoption("--write-trainers") or not needed_by or needed_by.keys() - ended:
        return

    def needed(*outcomes: str) -> set[str]:
        reports = [each for name in outcomes for each in stats.get(name, [])]
        return {name for report in reports for name in needed_by.get(report.nodeid, ())}

    passed = needed("passed")
    failed = needed("failed", "error")
    page = PAGE.read_text()
    for module, name in CLAIMED.items():
        claim = "not run"
        if module in passed:
            claim = f"{version(name)}, FAILS" if module in failed else version(name)
        page, count = re.subn(rf"\| {name} [^:|]+: ", f"| {name} {claim}: ", page)
        if count != 1:
            raise pytest.UsageError(f"{PAGE}: {count} rows claim {name}, expected one")
    PAGE.write_text(page)
