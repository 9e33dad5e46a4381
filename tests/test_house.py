"""The rules of the house: what may import what, where outside libraries live, and what modules are
called.

The imports are read from the source, those inside functions and of type checkers included.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from genrm_cli import errors
from genrm_cli.commands import read_commands
from genrm_cli.extensions import Seam, extension_names
from genrm_cli.judging.lookup import PROFILES

ROOT = Path(__file__).parents[1]
PACKAGE = "genrm_cli"
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / PACKAGE).rglob("*.py"))
}


@cache
def nodes_by_module() -> dict[str, tuple[ast.AST, ...]]:
    """Return the syntax nodes of each module, parsed once: most processes of a test run never
    ask.
    """
    return {
        module: tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for module, path in FILES.items()
    }


# Its tables: what lies in which layer, what is pure, where libraries have their homes.
RULES = tomllib.loads(Path(__file__).with_name("house.toml").read_text(encoding="utf-8"))
PRODUCTS = RULES["products"]
LAYERS = [layer or PRODUCTS for layer in RULES["layers"]]
PURE = RULES["pure"]
BEYOND_CORE = {*PRODUCTS, "products", "cli", "__main__", "http_server", "settings", "version"}
CORE = [part for layer in LAYERS for part in layer if part not in BEYOND_CORE]
PUBLIC = PACKAGE  # its `__init__` names the public API, which it imports when it is used


class Import(NamedTuple):
    """One import: the module that has it, the module it names, the name taken from it, and its
    line.
    """

    importer: str
    module: str
    name: str | None
    line: int
    lazy: bool

    def __str__(self) -> str:
        return f"{FILES[self.importer].relative_to(ROOT)}:{self.line} imports {self.module}"


def iter_imports(module: str) -> Iterator[Import]:
    """Yield all imports of a module of ours; `from package import submodule` names the
    submodule.
    """
    tree, *_ = nodes = nodes_by_module()[module]
    assert isinstance(tree, ast.Module)
    top_level = set(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, None, node.lineno, node not in top_level)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} has a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                named = submodule if submodule in FILES else str(node.module)
                yield Import(module, named, alias.name, node.lineno, node not in top_level)


@cache
def imports() -> list[Import]:
    """Return the imports of all modules."""
    return [each for module in nodes_by_module() for each in iter_imports(module)]


@cache
def own_imports() -> list[Import]:
    """Return those of modules of ours, but for the names of the public API."""
    own = [each for each in imports() if each.module.partition(".")[0] == PACKAGE]
    return [each for each in own if each.importer != PUBLIC]


@cache
def outside_imports() -> list[Import]:
    """Return those of other modules."""
    return [each for each in imports() if each.module.partition(".")[0] != PACKAGE]


def within(module: str, homes: Iterable[str]) -> bool:
    """Whether a module of ours is one of these or lies in one of them."""
    return any(f"{module}.".startswith(f"{PACKAGE}.{home}.") for home in homes)


def places_of(
    is_meant: Callable[[ast.AST], object],
    homes: Iterable[str] = (),
    inside: Iterable[str] | None = None,
) -> list[str]:
    """Return where modules of some parts, but for their homes, have a node of a kind."""
    return [
        f"{module}:{getattr(node, 'lineno', 0)}"
        for module, nodes in nodes_by_module().items()
        if (inside is None or within(module, inside)) and not within(module, homes)
        for node in nodes
        if is_meant(node)
    ]


def part_of(module: str) -> str:
    """Return the first folder or file below the package, or the product; of the package itself
    others take the version only.
    """
    if "." not in module:
        return "version"
    names = module.split(".")[1:]
    return ".".join(names[:2] if names[0] == "products" and len(names) > 1 else names[:1])


def layer_of(module: str) -> int:
    """Return the number of a module's layer, 0 = the highest."""
    return next(number for number, parts in enumerate(LAYERS) if part_of(module) in parts)


@pytest.fixture(scope="module", autouse=True)
def parsed() -> None:
    """Parse the source once for all tests."""
    own_imports()


def test_the_source_was_found() -> None:
    """The tests below look at something."""
    assert len(nodes_by_module()) > 40
    assert len(own_imports()) > 100


def test_every_part_has_a_layer() -> None:
    """A new folder or file of the package is given its place first."""
    assert {part_of(module) for module in nodes_by_module()} <= {
        part for layer in LAYERS for part in layer
    }


def test_imports_point_one_way() -> None:
    """The command line imports products, they import jobs, jobs the core, the core its parts; never
    back.
    """
    wrong = [
        str(each)
        for each in own_imports()
        if part_of(each.importer) != part_of(each.module)
        and layer_of(each.importer) > layer_of(each.module)
    ]
    assert wrong == []


def test_products_do_not_know_each_other() -> None:
    """Nothing but the command line imports a product: without it, everything else would work."""
    wrong = [
        str(each)
        for each in own_imports()
        if part_of(each.module) in PRODUCTS
        and part_of(each.importer) not in (part_of(each.module), "cli")
    ]
    assert wrong == []


# Imports every module that is there, but for the command line; trainers need not be installed.
_IMPORT_THE_REST = """
import importlib, os, pathlib, sys
sys.path.insert(0, ".")
for library in sys.argv[2].split():
    try: importlib.import_module(library)
    except ImportError: pass
for product in sys.argv[1].split():
    folder = pathlib.Path("genrm_cli", *product.split("."))
    folder.rename("deleted")
    if (child := os.fork()) == 0:
        for path in sorted(pathlib.Path("genrm_cli").rglob("*.py")):
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            if name.startswith(("genrm_cli.cli", "genrm_cli.__main__")): continue
            try: importlib.import_module(name)
            except ModuleNotFoundError as error:
                if error.name.startswith("genrm_cli"): print(f"without {product}: {name}: {error}")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    pathlib.Path("deleted").rename(folder)
"""


@pytest.mark.slow
def test_the_rest_can_be_imported_without_a_product(tmp_path: Path) -> None:
    """In a copy, each product's folder is deleted, and all other modules are imported."""
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("*.pyc"))
    heavy = "boto3 httpx jinja2 msgspec numpy orjson prometheus_client pyreqwest starlette uvicorn"
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORT_THE_REST, " ".join(PRODUCTS), heavy],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_our_own_extensions_are_installed() -> None:
    """The entry points of pyproject.toml are those of the installed package. If this fails, install
    genrm again.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group, entries in project["entry-points"].items():
        assert entries.keys() <= set(extension_names(Seam(group))), group


def test_no_module_imports_itself_in_a_circle() -> None:
    """There is an order in which every module comes after all that it imports."""
    graph = {
        module: {each.module for each in own_imports() if each.importer == module}
        for module in nodes_by_module()
    }
    assert list(TopologicalSorter(graph).static_order())


def test_no_folder_imports_itself_in_a_circle() -> None:
    """There is an order in which every folder comes after all that it imports.

    A file right below the package counts as a folder of its own. A folder may use the files of
    those around it."""
    alone = {
        module
        for module, path in FILES.items()
        if path.name == "__init__.py" or path.parent.name == PACKAGE
    }
    folders = {module: module if module in alone else module.rpartition(".")[0] for module in FILES}
    graph: dict[str, set[str]] = {}
    for each in own_imports():
        importer = folders[each.importer]
        imported = folders.get(each.module, each.module)
        graph.setdefault(importer, set())
        if not f"{importer}.".startswith(f"{imported}."):
            graph[importer].add(imported)
    assert list(TopologicalSorter(graph).static_order())


def test_no_folder_holds_more_than_a_dozen_modules() -> None:
    """A folder that grows past that holds two things."""
    counts = Counter(path.parent for path in FILES.values() if path.name != "__init__.py")
    assert {
        str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > 12
    } == {}


def test_the_core_takes_a_plan_and_no_settings() -> None:
    """In `groups` three modules read the settings; the others know the tables of rewards alone."""
    readers = [
        str(each)
        for each in own_imports()
        if within(each.importer, ("groups",))
        and not within(each.importer, RULES["settings_readers"])
        and within(each.module, ("settings",))
        and not within(each.module, RULES["reward_tables"])
    ]
    assert readers == []


def test_the_core_knows_no_file_and_no_terminal() -> None:
    """No module of `groups` imports storage, or a library of files, databases, clocks and
    processes.

    Paths are those of the user's own functions and rubric files.
    """
    outside = "io shutil tempfile sqlite3 time datetime subprocess socket logging threading"
    wrong = [
        str(each)
        for each in outside_imports()
        if within(each.importer, ("groups",)) and each.module in outside.split()
    ]
    wrong += [
        str(each)
        for each in own_imports()
        if within(each.importer, ("groups",)) and within(each.module, ("storage",))
    ]
    assert wrong == []


def test_only_the_outermost_layers_start_an_event_loop() -> None:
    """`asyncio.run` and its like stand in the command line and in the synchronous public API."""

    def starts_a_loop(node: ast.AST) -> bool:
        if not isinstance(node, ast.Attribute):
            return False
        is_asyncio = "asyncio" in _names_of_call(node.value)
        return node.attr == "run_until_complete" or (
            is_asyncio and node.attr in ("run", "Runner", "new_event_loop")
        )

    assert places_of(starts_a_loop, RULES["event_loop_homes"]) == []


def test_late_imports_only_save_time() -> None:
    """Imports inside functions keep `--help` fast, boto3 out of local runs and extras optional."""
    late = [
        each
        for each in imports()
        if each.lazy and each.importer != PUBLIC
        # The command line is imported once Ctrl-C ends the process without a traceback.
        if not within(each.importer, ("cli", "__main__"))
    ]
    allowed = (f"{PACKAGE}.storage.s3", "importlib.metadata", "hashlib", "_typeshed")
    allowed += (
        "types_boto3_s3",
        "pyarrow",
        "urllib.request",
        "nemo_gym.judge",
        f"{PACKAGE}.texts.regex",
        f"{PACKAGE}.judging.http.over_",
    )
    allowed += (f"{PACKAGE}.rollouts.private_numbers",)
    wrong = [each for each in late if not each.module.startswith(allowed)]
    assert [str(each) for each in wrong] == []


def test_pure_modules_know_only_pure_modules() -> None:
    """What decides rewards imports nothing of ours that reads a clock, a file, the network or the
    settings, but for the tables of rewards.
    """
    known = (*PURE, *RULES["reward_tables"])
    assert [
        str(each)
        for each in own_imports()
        if within(each.importer, PURE) and not within(each.module, known)
    ] == []


def test_pure_modules_use_the_pure_library_only() -> None:
    """No clock, randomness, file, network, process or logging: the rest of the standard library and
    a few others.
    """
    wrong = []
    for each in outside_imports():
        root = each.module.partition(".")[0]
        seeded = (
            each.module == "random" and each.name == "Random"
        )  # takes its seed from whoever calls
        is_data = each.module == "importlib.resources"  # of the package, which never changes
        is_lock = each.module == "threading" and each.name == "Lock"  # changes no result
        if within(each.importer, PURE) and root not in RULES["pure_libraries"]:
            known = root in sys.stdlib_module_names and (
                root not in RULES["impure_library"].split() or seeded or is_data or is_lock
            )
            wrong += [] if known else [str(each)]
    assert wrong == []


def test_pure_modules_open_and_print_nothing() -> None:
    """No built-in function of theirs touches the world either."""

    def is_impure(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and (
            getattr(node.func, "id", None) in RULES["impure_calls"]
        )

    assert places_of(is_impure, inside=PURE) == []


def test_each_outside_library_has_one_home() -> None:
    """typer and rich in the command line, HTTP in one file, boto3 in storage, and so on; none
    without a home.
    """
    homes = RULES["library_homes"]
    homes = homes | {"numpy": PURE + homes["numpy"]}
    wrong = []
    for each in outside_imports():
        library = each.module.partition(".")[0]
        if library in homes:
            wrong += [] if within(each.importer, homes[library]) else [str(each)]
        elif library not in (*sys.stdlib_module_names, "msgspec"):  # all records are of it
            wrong.append(f"{each}, which has no home yet")
    assert wrong == []


def test_waits_never_depend_on_the_wall_clock() -> None:
    """In `judging` the date is looked up where a date is meant; waits use monotonic clocks."""
    clocks = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "ctime"}
    found = places_of(
        lambda node: getattr(node, "attr", None) in clocks, RULES["clock_homes"], ("judging",)
    )
    assert found == []


def test_a_record_is_a_struct() -> None:
    """A dataclass is only what a `Struct`, made in a fiftieth of the time, cannot be: settings and
    options, whose fields carry their declaration, hidden fields, and objects with identity.
    """
    wrong = []
    for module, nodes in nodes_by_module().items():
        for node in nodes:
            if not isinstance(node, ast.ClassDef):
                continue
            made = [name for each in node.decorator_list for name in _names_in(each)]
            fields = [each.value for each in node.body if isinstance(each, ast.AnnAssign)]
            calls = [each for each in fields if isinstance(each, ast.Call)]
            told = {key.arg for call in calls for key in call.keywords}
            declared = {name for call in calls for name in _names_in(call.func)} - {"field"}
            is_more = declared or told & {"init", "repr", "compare"} or "eq" in made
            if "dataclass" in made and not (is_more or within(module, RULES["dataclass_homes"])):
                wrong.append(f"{module}: {node.name}")
    assert wrong == []


def _names_in(node: ast.AST) -> list[str]:
    return [
        getattr(each, "id", None) or getattr(each, "arg", "")
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.keyword)
    ]


def test_a_struct_takes_no_field_of_dataclasses() -> None:
    """It would be its default, and no error."""
    wrong = []
    for module, nodes in nodes_by_module().items():
        imported = {
            name.name
            for each in nodes
            if isinstance(each, ast.ImportFrom) and each.module == "dataclasses"
            for name in each.names
        }
        if "field" not in imported:
            continue
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.decorator_list:
                calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
                names = [getattr(each.func, "id", "") for each in calls]
                wrong += [f"{module}: {node.name}"] if "field" in names else []
    assert wrong == []


def test_only_storage_knows_its_kinds() -> None:
    """Nothing else imports a kind of storage; they are reached through `Store`."""
    kinds = ("storage.s3", "storage.local.local_files", "storage.local.walk")
    wrong = [
        str(each)
        for each in own_imports()
        if within(each.module, kinds) and not within(each.importer, ("storage",))
    ]
    assert wrong == []


def test_the_environment_is_read_in_three_places() -> None:
    """Settings and command line look at the environment of the process, and HTTP for what OpenSSL
    reads there.
    """
    names = {"environ", "environb", "getenv", "putenv"}
    found = places_of(lambda node: _names_of_call(node) & names, RULES["environment_homes"])
    assert found == []


def test_one_module_prints() -> None:
    """All that reaches a terminal passes `cli.console` or its tables, which escape control
    characters.
    """
    printers = {"echo", "secho", "print_exc", "print_exception"}

    def prints(node: ast.AST) -> object:
        if isinstance(node, ast.Attribute) and node.attr == "write":
            return _names_of_call(node.value) & {"stdout", "stderr"}
        return getattr(node, "id", None) == "print" or getattr(node, "attr", None) in printers

    ours = (f"{PACKAGE}.cli.console", f"{PACKAGE}.cli.tables")
    rich = [
        str(each)
        for each in outside_imports()
        if each.module.startswith("rich") and each.importer not in ours
    ]
    assert places_of(prints, ("cli.console",)) + rich == []


@pytest.mark.parametrize(
    "name", ["utils", "util", "helpers", "helper", "common", "base", "manager", "misc"]
)
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    """A module is called after what it holds."""
    assert [module for module in nodes_by_module() if name in module.split(".")] == []


def test_no_two_files_of_tests_have_one_name() -> None:
    """A run of both would be an error; one of a folder hides it."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_two_classes_have_one_name() -> None:
    """A class is found by its name alone; a leading underscore makes no other name."""
    names = Counter(
        node.name.lstrip("_")
        for nodes in nodes_by_module().values()
        for node in nodes
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_judge_family_stands_in_its_table() -> None:
    """Each file of the folder is one profile of the catalog, under its own name."""
    folder = ROOT / PACKAGE / "judging" / "profiles" / "families"
    stems = [
        path.stem.replace("_", "-") for path in folder.iterdir() if path.suffix in (".py", ".toml")
    ]
    assert sorted(stem for stem in stems if stem != "--init--") == sorted(PROFILES)
    assert [profile.name for profile in PROFILES.values()] == list(PROFILES)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["score", "--help"]])
def test_help_is_quick_because_it_imports_little(arguments: list[str]) -> None:
    """Help and version come without numpy, the HTTP library and boto3."""
    code, imported = _imported_by(arguments)
    heavy = (
        "phonenumbers stdnum numpy boto3 botocore httpx hashlib pyreqwest zstandard orjson asyncio "
        "sqlite3"
    )
    assert code == 0
    assert set(heavy.split()) & imported == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "x.jsonl", "--ring-k", "x"],
        ["score", "x.jsonl", "--max-cost", "3"],
        ["serve", "--nope"],
        *(
            pytest.param([command, "--nope"], marks=pytest.mark.slow)
            for command in read_commands()
            if command != "serve"
        ),
    ],
)
def test_a_flag_is_refused_without_heavy_imports(arguments: list[str]) -> None:
    """A typing error is answered at once."""
    code, imported = _imported_by(arguments)
    assert code == 2
    assert {"numpy", "boto3", "httpx", "pyreqwest"} & imported == set()


def _imported_by(arguments: list[str]) -> tuple[int, set[str]]:
    """Run a command; return its exit code and the packages that it imported."""
    program = (
        "import os, sys; sys.argv[0] = 'genrm'\n"
        "def leave(code):\n"
        "    names = {name.partition('.')[0] for name in sys.modules}\n"
        "    print(*sorted(names), file=sys.stderr, flush=True)\n"
        "    exit_now(code)\n"
        "exit_now, os._exit = os._exit, leave\n"
        "from genrm_cli.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: leave(end.code or 0)\n"
        "leave(0)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, set(ended.stderr.splitlines()[-1].split())


def _names_of(node: ast.AST) -> list[str]:
    """Return the names that a node declares."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_no_name_of_the_core_is_that_of_a_product() -> None:
    """A stranger who deletes a product finds nothing of it in the core."""
    product_words = set(RULES["product_words"].split())
    assert [
        f"{module}: {name}"
        for module, nodes in nodes_by_module().items()
        if within(module, CORE)
        for name in {name for node in nodes for name in _names_of(node)}
        if product_words & set(re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", name).lower()))
    ] == []


def test_no_field_of_the_core_is_read_by_one_product_alone() -> None:
    """The figures of a product live in an object of its own."""
    readers: dict[str, set[str]] = {}
    declared = []
    for module, nodes in nodes_by_module().items():
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                readers.setdefault(node.attr, set()).add(part_of(module))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                readers.setdefault(node.value, set()).add(part_of(module))
            elif isinstance(node, ast.ClassDef) and not within(module, (*PRODUCTS, "cli")):
                fields = [name for each in node.body for name in _names_of_field(each)]
                declared += [(f"{module}.{node.name}.{name}", name) for name in fields]
    alone = {
        place.removeprefix(f"{PACKAGE}."): readers[name]
        for place, name in declared
        if len(readers.get(name, ())) == 1
        and readers[name] <= set(PRODUCTS)
        and not within(place, RULES["of_outputs"])
    }
    assert alone.keys() == RULES["read_by_one"].keys(), alone


def _names_of_field(node: ast.AST) -> list[str]:
    return _names_of(node) if isinstance(node, ast.AnnAssign) else []


def test_no_possessive_repeat_holds_a_lookahead() -> None:
    """Before Python 3.11.5, `re` goes on behind what the lookahead read: nothing matches."""
    lookahead = r"\(\?[=!](?:[^()]|\([^()]*\))*\)"
    repeat = re.compile(rf"\([^()]*{lookahead}[^()]*\)(?:[*+?]|\{{[^{{}}]*\}})\+")
    assert repeat.search(r"<!--(?:[^-]|-(?!->))*+-->")
    texts = {module: path.read_text(encoding="utf-8") for module, path in FILES.items()}
    assert [module for module, text in texts.items() if repeat.search(text)] == []


# What an error says about the next step: an order, what is expected, or the choices.
_REMEDY = re.compile(
    r"(?:^|[;:,.(] ?|\b(?:and|or|then|to|please) )(?:add|ask|call|check|choose|close|compare"
    r"|convert|copy|correct|decide|declare|define|delete|draw|export|find|give|install|keep|leave"
    r"|let|list|lower|make|measure|move|name|omit|pass|quote|raise|read|remove|rename|repair"
    r"|replace|report|return|run|save|score|see|set|shorten|split|start|train|try|uninstall|update"
    r"|upgrade|use|wait|write)\b|\$[a-z]|`genrm|pip install|expected|\bmust (?:be|have)\b"
    r"|requires|needs|not one of|it sets|Pages:|such as",
    re.IGNORECASE,
)
_ERRORS = {each.__name__ for each in errors.GenrmError.__subclasses__()} | {"MissingModelError"}
# Parts that bring a remedy with them: another error's words, choices, or a shared sentence.
_BRINGS = re.compile(
    r"error|problem|reasons|remedy|refused|told|message|parts|proposed|expected|choices|silent"
    r"|more|first|hint|extra|listed|resume_text|advise|did_you_mean|why_unmet|how_to_install|[A-Z_]{4,}|_.+",
)


def test_every_error_says_what_to_do_next() -> None:
    """By an order, by what is expected, or by the choices."""
    silent = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, nodes in nodes_by_module().items()
        for node in nodes
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        if _names_of_call(node.exc.func) & _ERRORS and not _says_what_to_do(node.exc)
    ]
    assert silent == []


def _says_what_to_do(call: ast.Call) -> bool:
    said = [node for part in call.args for node in ast.walk(part)]
    texts = [str(node.value) for node in said if isinstance(node, ast.Constant)]
    names = set().union(*map(_names_of_call, said))
    return _REMEDY.search(" ".join(texts)) is not None or any(map(_BRINGS.fullmatch, names))


def _names_of_call(node: ast.AST) -> set[str]:
    """Return the name that a node is: of a function, an attribute or a variable."""
    return {getattr(node, "id", ""), getattr(node, "attr", "")}
