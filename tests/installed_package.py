"""The fixture `install_package`: small packages with entry points, installed for this process and
its children.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

InstallPackage = Callable[[str, str, Mapping[str, Mapping[str, str]]], Path]
"""Takes the name of a module, its source, and its entry points by group and name; returns the
folder it lies in.
"""


@pytest.fixture
def install_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPackage]:
    """Install packages of one module each, as pip would: the module, and metadata with its entry
    points.
    """
    modules = []
    # A name that no other test has: what is found on a search path is cached by the path.
    installed = Path(tempfile.mkdtemp(prefix="installed-", dir=tmp_path))

    def install(module: str, source: str, entry_points: Mapping[str, Mapping[str, str]]) -> Path:
        modules.append(module)
        folder = installed / module
        metadata = folder / f"{module}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        name = module.replace("_", "-")
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        groups = (
            "\n".join([f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())])
            for group, entries in entry_points.items()
        )
        (metadata / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv(
            "PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        )
        return folder

    yield install
    for module in modules:
        sys.modules.pop(module, None)
