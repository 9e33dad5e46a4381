"""The picture of the guide's page `contributing`, made from the imports; `make guide` writes it."""

import re
from pathlib import Path

from test_house import FILES, PACKAGE, ROOT, own_imports, part_of

PAGE = ROOT / PACKAGE / "guide" / "contributing.md"
_PICTURE = re.compile(r"(?<=^```mermaid\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def render_picture() -> str:
    """Return a Mermaid graph of the folders: an arrow for each import that others do not imply."""
    folders = sorted({path.parent.name for path in FILES.values() if is_folder(path.parent)})
    imported: dict[str, set[str]] = {folder: set() for folder in folders}
    for each in own_imports():
        # All products are one room.
        importer = part_of(each.importer).partition(".")[0]
        other = part_of(each.module).partition(".")[0]
        if importer != other and importer in imported and other in imported:
            imported[importer].add(other)

    def reached(folder: str) -> set[str]:
        return imported[folder].union(*map(reached, imported[folder]))

    lines = ["graph TD"]
    for folder in folders:
        implied = set().union(*map(reached, imported[folder]))
        lines += [f"    {folder} --> {other}" for other in sorted(imported[folder] - implied)]
    alone = set(folders).difference(*imported.values())
    lines += [f"    {folder}" for folder in sorted(alone) if not imported[folder]]
    return "\n".join(lines) + "\n"


def is_folder(path: Path) -> bool:
    """Say whether a path is a folder right below the package."""
    return path.parent == ROOT / PACKAGE


def shown_picture() -> str:
    """Return the picture that the page shows."""
    found = _PICTURE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return found[0]


if __name__ == "__main__":
    PAGE.write_text(
        _PICTURE.sub(lambda _: render_picture(), PAGE.read_text(encoding="utf-8")),
        encoding="utf-8",
    )
