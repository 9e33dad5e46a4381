"""The README and the pages of the guide, as the tests read them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = ROOT / "genrm_cli" / "guide"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(GUIDE.glob("*.md"))}
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = {"README": README, **PAGES}
