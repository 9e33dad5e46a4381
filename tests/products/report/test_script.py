"""The page's one script: what it may not do, and its own unit tests."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "genrm_cli" / "products" / "report" / "page" / "report.js"
SOURCE = SCRIPT.read_text(encoding="utf-8")
LEAST_NODE = 18
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "DOMParser",
    "createContextualFragment",
    "eval(",
    "new Function",
    "setTimeout(",
    "fetch(",
    "XMLHttpRequest",
    "WebSocket",
    "import(",
    "localStorage",
    "document.cookie",
    "postMessage",
    "srcdoc",
    "setAttributeNS",
    "javascript:",
    "console.",
    "debugger",
    "var ",
)


@pytest.fixture(scope="module")
def node():
    """Find Node.js; skip where it is missing or old."""
    found = shutil.which("node")
    if found is None:
        pytest.skip(f"needs Node.js {LEAST_NODE} or later")
    version = subprocess.run(
        [found, "--version"], capture_output=True, text=True, timeout=300, check=True
    ).stdout
    if int(version.lstrip("v").partition(".")[0]) < LEAST_NODE:
        pytest.skip(f"needs Node.js {LEAST_NODE} or later; found {version.strip()}")
    return found


def test_the_script_makes_no_markup_of_text_and_asks_nobody():
    """Foreign text enters by textContent only; nothing is evaluated, fetched, stored or logged."""
    for word in FORBIDDEN:
        assert word not in SOURCE


def test_the_script_is_strict_and_compares_exactly():
    """Strict mode is on, and no comparison converts its operands."""
    assert '"use strict";' in SOURCE.splitlines()[:3]
    assert re.findall(r"[^=!]==[^=]|!=[^=]", SOURCE) == []


def test_the_script_defines_nothing_that_it_does_not_use():
    """Every function and constant at the top level is named elsewhere, too."""
    names = re.findall(r"^(?:async )?(?:function\*? |const |let )([\w$]+)", SOURCE, re.MULTILINE)
    used = re.findall(r"[\w$]+", SOURCE)
    assert len(names) > 20
    assert [name for name in names if used.count(name) < 2] == []


def test_what_the_script_computes(node):
    """The unit tests beside this file pass: sorting, shading, evidence, Markdown, links."""
    tests = sorted(Path(__file__).parent.glob("*.test.mjs"))
    ran = subprocess.run(
        [node, "--test", *tests], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^# pass [1-9]|^ℹ pass [1-9]", ran.stdout, re.MULTILINE)
