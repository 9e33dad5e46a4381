"""The column "checked with" in the guide's table of trainers is written by the run of their tests:

    make test-loaders

A version that was not run, or whose tests failed, is not claimed.
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
}
_NEEDED_BY = pytest.StashKey[dict[str, set[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the table."""
    parser.addoption("--write-trainers", action="store_true", help="write the table of trainers")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note which packages each test needs."""
    config.stash[_NEEDED_BY] = {
        item.nodeid: {name for mark in item.iter_markers("loader") for name in mark.args}
        for item in items
    }


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the versions that were run into the table."""
    if not config.getoption("--write-trainers"):
        return

    def needed(*outcomes: str) -> set[str]:
        reports = [each for name in outcomes for each in terminalreporter.stats.get(name, [])]
        of = config.stash[_NEEDED_BY]
        return {name for report in reports for name in of.get(report.nodeid, ())}

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
