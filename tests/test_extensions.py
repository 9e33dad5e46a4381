"""Extensions are found by the entry points of installed packages."""

import pytest
from genrm_process import Call, Genrm
from installed_package import InstallPackage

from genrm_cli.errors import UsageError
from genrm_cli.extensions import Seam, extension_names, load_extension, load_extensions
from genrm_cli.rollouts.formats import Format
from genrm_cli.rollouts.rollout import UnreadableRecordError


def test_an_installed_extension_is_found_by_its_name(install_package: InstallPackage) -> None:
    """What a package registers is listed without an import, and loaded by its name."""
    install_package(
        "brief_answers", "LIMIT = 12", {Seam.FORMATS: {"brevity": "brief_answers:LIMIT"}}
    )
    assert "brevity" in extension_names(Seam.FORMATS)
    assert "brevity" not in extension_names(Seam.COMPONENTS)
    assert load_extension(Seam.FORMATS, "brevity", int) == 12
    assert load_extensions(Seam.FORMATS, int) == {"brevity": 12}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("", "AttributeError"),
        ("LIMIT = 'twelve'", "is a str; expected a int"),
    ],
)
def test_a_broken_extension_names_its_package(
    install_package: InstallPackage, source: str, problem: str
) -> None:
    """Whoever reads the error knows which package to repair, which of its entry points, and what is
    wrong.
    """
    install_package("brief_answers", source, {Seam.COMPONENTS: {"brevity": "brief_answers:LIMIT"}})
    with pytest.raises(UsageError, match="brief-answers") as raised:
        load_extension(Seam.COMPONENTS, "brevity", int)
    assert "brevity = brief_answers:LIMIT" in str(raised.value)
    assert problem in str(raised.value)


def test_a_name_belongs_to_one_package(install_package: InstallPackage) -> None:
    """Two packages that register one name are both named: neither is used in place of the other."""
    for module in ("brief_answers", "terse_answers"):
        install_package(module, "LIMIT = 12", {Seam.COMPONENTS: {"brevity": f"{module}:LIMIT"}})
    with pytest.raises(
        UsageError, match=r"two packages register 'brevity'.*brief-answers.*terse-answers"
    ):
        extension_names(Seam.COMPONENTS)


FORMAT = """
from msgspec.structs import replace
from genrm_cli.rollouts.formats import named_fields
TICKETS = named_fields("reply", "question", "ticket", name="tickets", example=dict())
def fail(record): {body}
TICKETS = replace(TICKETS, read=fail)
"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return record['gone']", "failed: KeyError: 'gone'"),
        ("raise SystemExit(3)", "failed: SystemExit: 3"),
        ("return ['a text']", "read no rollouts"),
        ("return None", "read no rollouts"),
    ],
)
def test_a_format_that_fails_is_no_bug_of_genrm(
    install_package: InstallPackage, genrm: Genrm, call: Call, body: str, problem: str
) -> None:
    """The run ends with 2 and names the package, whatever its code raises or returns."""
    entry = {Seam.FORMATS: {"tickets": "ticket_log:TICKETS"}}
    install_package("ticket_log", FORMAT.format(body=body), entry)
    genrm.write("in.jsonl", [{"ticket": 1, "question": "How?", "reply": "So."}])
    for command in ("score", "validate"):
        ended = call(command, "in.jsonl", "--offline").ended(2)
        assert problem in ended.err
        assert "tickets" in ended.err


def test_an_error_of_genrm_passes_through_an_extension(install_package: InstallPackage) -> None:
    """A format says with it that a line is bad, which ends no run."""
    body = "from genrm_cli.rollouts.rollout import UnreadableRecordError as E; raise E('no ticket')"
    entry = {Seam.FORMATS: {"tickets": "odd_log:TICKETS"}}
    install_package("odd_log", FORMAT.format(body=body), entry)
    with pytest.raises(UnreadableRecordError, match="no ticket"):
        load_extension(Seam.FORMATS, "tickets", Format).read({})


GAME = """
from genrm_cli.products.sessions.environment import Environment
class Game(Environment):
    version = "game_v1"
    scripted_policies = ("counts",)
    def parse_scenario(self, table, where): {parse}
    def reset(self, scenario, variant, seed): ...
    async def step(self, state, action, ask): {step}
    def components(self, state): return {{}}
"""


async def test_an_environment_that_fails_names_its_package(install_package: InstallPackage) -> None:
    """Its methods are those of its class, plain or async, whose errors say whose they are."""
    source = GAME.format(parse="raise KeyError('x')", step="raise SystemExit(3)")
    install_package("odd_games", source, {Seam.ENVIRONMENTS: {"game": "odd_games:Game"}})
    game = load_extension(Seam.ENVIRONMENTS, "game", type)()
    with pytest.raises(UsageError, match=r"odd-games 1\.0 failed: KeyError: 'x'"):
        game.parse_scenario({}, "a file")
    with pytest.raises(UsageError, match=r"odd-games 1\.0 failed: SystemExit: 3"):
        await game.step(None, "1", None)
    assert game.components(None) == {}
