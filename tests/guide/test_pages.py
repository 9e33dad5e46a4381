"""The guide and the README say what the code does."""

import inspect
import re
from urllib.parse import urldefrag

import pytest
from architecture_picture import render_picture, shown_picture
from pages import GUIDE, PAGES, README, ROOT, TEXTS
from settings_page import render_settings_page
from typer.main import get_command

from genrm_cli import errors
from genrm_cli.cli.app import app
from genrm_cli.cli.setup.guide import page_names
from genrm_cli.commands import read_commands
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.products.export.formats import FORMATS as EXPORT_FORMATS
from genrm_cli.rollouts.formats import FORMATS
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.reward_settings import PRESETS
from genrm_cli.settings.sources.settings_file import read_settings_file
from genrm_cli.verdicts import FailureKind

# Of the programs that the pages name beside genrm: uv, vLLM, Slurm, trainers and our benchmarks.
OTHERS = """
--algo --eval --array --cpus-per-task --custom-config-path --custom-rm-path --cycles --dependency
--dynamic-sampling-filter-path --env --field --from --gres --group-rm --job-name --labels --looks
--mem --parsable --prompts --remote --requeue --reward --rm-type --rm-url --rounds --runs
--additional-suffix --tensor-parallel-size --time --train --wheel --wrap
"""


def flags_of_commands():
    """Return every option of every command."""
    root = get_command(app)
    commands = [root, *(root.get_command(None, name) for name in read_commands())]
    options = [each for command in commands for each in command.params]
    return {flag for each in options for flag in (*each.opts, *each.secondary_opts)} | {"--help"}


def test_the_index_lists_every_page():
    """A page that the index does not list cannot be found, nor printed."""
    assert sorted([*page_names(), "index"]) == sorted(PAGES)


def test_the_readme_links_every_page():
    """The README is what most people read first."""
    linked = set(re.findall(r"\]\(genrm_cli/guide/([a-z0-9-]+)\.md", README))
    assert linked == {name for name in PAGES if name != "index"}


def test_the_settings_page_is_current():
    """If this fails, run `make guide`."""
    assert PAGES["settings"] == render_settings_page()


@pytest.mark.slow
def test_the_pages_of_contributors_are_current():
    """The picture is made of the imports (if this fails, run `make guide`), every folder has its
    row, and the files that are named exist.
    """
    assert shown_picture() == render_picture()
    folders = {path.parent.name for path in GUIDE.parent.glob("*/__init__.py")}
    assert folders <= set(re.findall(r"`([a-z_]+)`", PAGES["contributing"]))
    for path in re.findall(r"`([\w./-]+(?:\.py|/))`", PAGES["contributing"]):
        assert (GUIDE.parent / path).exists() or (ROOT / path).exists(), path


def test_every_link_leads_somewhere():
    """Links to files name files, and links to headings name headings."""
    for name in TEXTS:
        folder = ROOT if name == "README" else GUIDE
        links = [link for link in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]) if "://" not in link]
        for link in links:
            path, heading = urldefrag(link)
            target = folder / path if path else folder / f"{name}.md"
            assert target.is_file(), link
            if heading:
                lines = target.read_text(encoding="utf-8").splitlines()
                anchors = [_anchor(line) for line in lines if line.startswith("#")]
                assert heading in anchors, link


def _anchor(heading):
    words = re.sub(r"[^a-z0-9 _-]", "", heading.lstrip("# ").lower())
    return words.replace(" ", "-")


def test_no_page_names_a_flag_that_does_not_exist():
    """Whatever a page calls a flag is one."""
    known = flags_of_commands() | set(OTHERS.split())
    for name, text in TEXTS.items():
        assert set(re.findall(r"--[a-z][a-z0-9-]+", text)) <= known, name


def test_the_exit_codes_are_those_of_the_errors():
    """Every error's exit code stands in the guide's table."""
    classes = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.GenrmError)
    ]
    codes = {cls.exit_code for cls in classes}
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGES["running"], re.MULTILINE)}
    assert codes | {0, 130} == listed


def test_every_kind_format_profile_and_preset_is_explained():
    """Each name that users meet stands on the page of its subject."""
    cases = [
        ("output", FailureKind),
        ("input-formats", FORMATS),
        ("profiles", PROFILES),
        ("rewards", PRESETS),
        ("export", EXPORT_FORMATS),
    ]
    for page, words in cases:
        assert [word for word in words if f"`{word}`" not in PAGES[page]] == []


def test_the_settings_files_of_the_guide_are_read(tmp_path):
    """What the guide shows of a settings file is accepted as it stands."""
    cases = [
        ("components", "[components.win_rate]"),
        ("judges", "[[judge]]"),
        ("rewards", 'preset = "nemotron-3-super"'),
    ]
    for page, begins in cases:
        (block,) = [
            block
            for block in re.findall(r"```toml\n(.*?)```", PAGES[page], re.DOTALL)
            if block.startswith(begins)
        ]
        (tmp_path / "genrm.toml").write_text(block)
        settings, _ = resolve_settings(
            {}, {}, read_settings_file(str(tmp_path / "genrm.toml"), tmp_path)
        )
        assert (
            len(settings.rewards.components) == 9
            or len(judges_of(settings)) == 3
            or settings.rewards.shaping.group_answer_length_penalty_coeff == 0.35
        )
