"""Where a function of the user's is found."""

import sys
from pathlib import Path

from genrm_cli.rewards.components.python import find_function


def test_a_module_of_the_working_folder_shadows_nothing(tmp_path, monkeypatch):
    """A file named like a module of the standard library is not imported in its place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "function_beside_colorsys.py").write_text(
        "import colorsys\ndef f(group): return colorsys.__file__"
    )
    found = find_function("function_beside_colorsys:f")
    assert Path(found([])).parent != tmp_path
