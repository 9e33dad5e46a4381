"""Extensions are found by the entry points of installed packages."""

import pytest
from installed_package import InstallPackage

from genrm_cli.errors import UsageError
from genrm_cli.extensions import Seam, extension_names, load_extension, load_extensions


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
