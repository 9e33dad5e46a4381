"""`make mutants`: break the places of places.toml one at a time, and list those that no test holds.

Each is broken in a copy of the package, where the fast tests that its module names run until one
fails. Arguments choose the modules whose path contains one of them."""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PLACES_PATH = Path(__file__).with_name("places.toml")
COPIED = ("genrm_cli", "tests", "sample_data", "pyproject.toml", "README.md", "Makefile")
# A place that makes a loop endless is held by the timeout of the test.
PYTEST = ("-m", "pytest", "-x", "-n", "0", "-q", "-p", "no:randomly", "--tb", "line")


class Place(NamedTuple):
    """One place: a text that its module holds once, and what breaks it."""

    module: str
    tests: tuple[str, ...]
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.module}: {self.was} -> {self.becomes or '(nothing)'}"


def read_places(chosen: list[str]) -> list[Place]:
    """Return the places of the chosen modules; of all without a choice."""
    found = []
    for module in tomllib.loads(PLACES_PATH.read_text(encoding="utf-8"))["module"]:
        if not chosen or any(name in module["path"] for name in chosen):
            tests = tuple(module["tests"])
            found += [Place(module["path"], tests, *texts) for texts in module["places"]]
    return found


def wrong_with(place: Place) -> str | None:
    """Return why a place cannot be broken: its text moved, or nothing could be imported then."""
    path = ROOT / "genrm_cli" / place.module
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    count = text.count(place.was)
    if count != 1:
        return f"{place.module} holds {place.was!r} {count} times, expected once"
    try:
        compile(text.replace(place.was, place.becomes), place.module, "exec")
    except SyntaxError as error:
        return f"{place}: {error.msg}"
    return None


def passes(folder: Path, tests: tuple[str, ...]) -> bool:
    """Run tests in the copy, and return whether all pass."""
    paths = [f"tests/{name}" for name in tests]
    done = subprocess.run([sys.executable, *PYTEST, *paths], cwd=folder, capture_output=True)
    if done.returncode not in (0, 1):  # what no test could import, no test holds
        sys.exit(done.stdout.decode() + done.stderr.decode())
    return done.returncode == 0


def survives(folder: Path, place: Place) -> bool:
    """Break a place in the copy, and return whether its tests pass all the same."""
    path = folder / "genrm_cli" / place.module
    before = path.read_text(encoding="utf-8")
    compiled = Path(cache_from_source(str(path)))
    path.write_text(before.replace(place.was, place.becomes), encoding="utf-8")
    # Compiled files are told apart by size and second, which both texts may share.
    compiled.unlink(missing_ok=True)
    try:
        return passes(folder, place.tests)
    finally:
        path.write_text(before, encoding="utf-8")
        compiled.unlink(missing_ok=True)


def main(chosen: list[str]) -> int:
    """Break the chosen places; 1 if a test is missing, 2 if the table is wrong."""
    places = read_places(chosen)
    wrong = [found for place in places if (found := wrong_with(place))]
    if wrong or not places:
        what = wrong or [f"No module's path contains {' or '.join(chosen)}."]
        print("\n".join([*what, f"Correct {PLACES_PATH.relative_to(ROOT)}."]), file=sys.stderr)
        return 2
    survivors = []
    with tempfile.TemporaryDirectory(prefix="genrm-mutants-") as name:
        folder = Path(name)
        for each in COPIED:
            copy = shutil.copytree if (ROOT / each).is_dir() else shutil.copy2
            copy(ROOT / each, folder / each)
        for tests in dict.fromkeys(place.tests for place in places):
            if not passes(folder, tests):
                print(f"fails before anything is broken: {' '.join(tests)}", file=sys.stderr)
                return 2
        for number, place in enumerate(places, start=1):
            is_missed = survives(folder, place)
            outcome = "SURVIVES" if is_missed else "held"
            print(f"{number}/{len(places)} {outcome} {place}", flush=True)
            if is_missed:
                survivors.append(place)
    print(f"\n{len(survivors)} of {len(places)} survive", *survivors, sep="\n  ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
