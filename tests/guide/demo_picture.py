"""The picture of the README: what `genrm demo` prints, as SVG; `make guide` writes it."""

import io
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.text import Text

PATH = Path(__file__).resolve().parents[2] / "genrm_cli" / "guide" / "demo.svg"
_WIDTH = 122  # of the longest line
_BOLD = re.compile(r"^(?:index|===|All groups|Next).*", re.MULTILINE)


def render_picture(printed):
    """Return the terminal with the command and what it printed."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    text = Text(f"$ genrm demo\n{printed.rstrip()}")
    text.highlight_regex(r"^\$ .*", "bold green")
    text.highlight_regex(_BOLD, "bold")
    console.print(text)
    return console.export_svg(title="genrm demo", unique_id="genrm-demo")


def texts_of(picture):
    """Return the words that a picture shows, in any version of Rich."""
    found = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    return " ".join(" ".join(unescape(each).replace("\xa0", " ") for each in found).split())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "genrm_cli", "demo"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    PATH.write_text(render_picture(ended.stdout), encoding="utf-8")
