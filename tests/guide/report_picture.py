"""The page of `genrm report` in the README: that of `genrm demo`, in Chromium.

`make report-picture` writes it. The picture holds a digest of the words that it shows, so that a
test without a browser tells when it is out of date.
"""

import hashlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from html import unescape
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "genrm_cli" / "guide" / "report.png"
MOST_BYTES = 200_000
_SIZE = {"width": 1080, "height": 790}  # the answer, and the first row of charts
_KEY = b"tEXtwords\0"
_SIGNATURE_AND_HEADER = 33  # bytes of a PNG, after which other chunks may follow
_VARYING = re.compile(r"scored [^,]+, judge|settings [0-9a-f]{12}")


def digest_of(page):
    """Return the digest of the words of a page down to its charts, without time and settings."""
    shown = page[page.index("<header>") : page.index("Rewards in numbers")]
    words = _VARYING.sub("", " ".join(unescape(re.sub(r"<[^>]*>", " ", shown)).split()))
    return hashlib.sha256(words.encode()).hexdigest().encode()


def digest_in(picture):
    """Return the digest that a picture holds."""
    return picture.partition(_KEY)[2][:64]


def render_picture(uri):
    """Return the picture of a page as Chromium shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=_SIZE, color_scheme="light")
        page.goto(uri)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page.screenshot()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "genrm_cli", "demo"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        report = Path(folder) / "genrm-demo" / "report.html"
        picture = render_picture(report.as_uri())
        text = _KEY + digest_of(report.read_text(encoding="utf-8"))
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    PATH.write_bytes(picture[:_SIGNATURE_AND_HEADER] + chunk + picture[_SIGNATURE_AND_HEADER:])
