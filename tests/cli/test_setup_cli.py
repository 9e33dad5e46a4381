"""`genrm config`, `trust`, `journal` and `guide`; and an untrusted folder: no command sends a key,
runs code, reads a file or writes one because of its settings file.
"""

import json

import pytest

from genrm_cli.cli.setup.guide import page_names, read_page
from genrm_cli.settings.table import all_settings

KEY = "sk-local-0123456789abcdef"


def test_a_table_for_a_person_and_no_keys(call):
    """Each setting is a row; keys are in neither form, only the name of their variable."""
    keys = dict.fromkeys(("GENRM_API_KEY", "OPENAI_API_KEY", "MINE"), KEY)
    table = call("config --api-key-env MINE", **keys).ended(0).out.decode()
    assert [setting.key for setting in all_settings() if setting.key not in table] == []
    assert "MINE" in table
    assert KEY not in table + call("config --json", **keys).out.decode()


def test_a_misspelt_variable_is_pointed_out(call):
    """A GENRM_ variable that is not a setting gives a warning, which --quiet suppresses."""
    assert "GENRM_CONCURENCY" in call("config", GENRM_CONCURENCY="8").ended(0).err
    assert call("config --quiet", GENRM_CONCURENCY="8").err == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("concurency = 8", "Did you mean concurrency?"),
        ("strategy = ", "TOML"),
        ('strategy = "all_pair"', "Did you mean all_pairs?"),
    ],
)
def test_a_settings_file_with_a_mistake_ends_with_2(genrm, call, text, says):
    """The file, what is wrong and what was expected are named."""
    (genrm.folder / "other.toml").write_text(text)
    said = call("config", GENRM_CONFIG="other.toml").ended(2).err
    assert "other.toml" in said
    assert says in said


def test_settings_from_a_file_and_the_environment_reach_a_run(genrm, call):
    """A run needs no flags: genrm.toml names the judge, a variable the output."""
    genrm.rollouts()
    (genrm.folder / "genrm.toml").write_text('judge = "lexical"\nquiet = true\n')
    call("trust .").ended(0)
    assert call("score in.jsonl", GENRM_OUTPUT="out.jsonl") == (0, b"", "")
    assert "out.metrics.json" in genrm.names()


def test_changed_shows_only_what_is_not_a_default(call):
    """`--changed` lists the settings that somebody set, with their sources."""
    settings = json.loads(call("config --changed --ring-k 2 --json", GENRM_SEED="7").out)
    sources = {name: each["source"] for name, each in settings.items()}
    assert sources == {"ring_k": "flag", "seed": "environment GENRM_SEED", "json": "flag"}


@pytest.mark.parametrize(
    ("words", "more", "source"),
    [
        ("", {}, "environment OPENAI_BASE_URL"),
        ("", {"GENRM_BASE_URL": "http://other/v1"}, "environment GENRM_BASE_URL"),
        ("--offline", {}, "default"),
    ],
)
def test_the_endpoint_of_openais_library_is_the_default(call, words, more, source):
    """OPENAI_BASE_URL counts where no flag, variable or file names a judge."""
    url = "http://judge:8000/v1"
    found = json.loads(call(f"config --json {words}", OPENAI_BASE_URL=url, **more).out)
    assert found["base_url"]["source"] == source


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_values(call, shell):
    """Choices are completed in every shell."""
    words = "genrm score --strategy r"
    environment = {
        "_GENRM_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "COMP_WORDS": words,
        "COMP_CWORD": "3",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert b"ring" in call(**environment).out


HOSTILE = """
model = "m"
api_key_env = "AWS_SECRET_ACCESS_KEY"
log_json = "events"
output = "mine.py"
force = true
principle = "@/etc/passwd"
[components.x]
python = "mine:f"
"""


@pytest.mark.parametrize(
    "words",
    [
        "score in.jsonl",
        "score in.jsonl --dry-run",
        "validate in.jsonl",
        "compare -p Q? one two",
        "show in.jsonl --as-judge",
        "eval pairs.jsonl",
        "config",
    ],
)
def test_a_hostile_folder_gets_nothing(genrm, call, judge_server, words):
    """Every command ends with 2 and names file, setting and remedies; nothing is sent, run or
    written.
    """
    genrm.rollouts(1, 2)
    genrm.write("pairs.jsonl", [{"prompt": "Q?", "chosen": "good", "rejected": "bad"}])
    code = "open('owned', 'w')\ndef f(group): return [1.0] * len(group)\n"
    (genrm.folder / "mine.py").write_text(code)
    settings = f'base_url = "{judge_server.base_url}"{HOSTILE}'
    (genrm.folder / "genrm.toml").write_text(settings)
    before = genrm.names()
    finished = call(words, GENRM_API_KEY=KEY, AWS_SECRET_ACCESS_KEY="another").ended(2)
    assert finished.out == b""
    for word in "base_url", "api_key_env", "components", "--config genrm.toml", "genrm trust .":
        assert word in finished.err
    assert judge_server.stats()["requests"] == 0
    assert genrm.names() == before


def test_a_trusted_folder_works_until_its_settings_change(genrm, call, judge_server):
    """`genrm trust .` says what it allows; --remove ends it."""
    genrm.rollouts(1, 2)
    file = genrm.folder / "genrm.toml"
    file.write_text(f"base_url = '{judge_server.base_url}'\nmodel = 'm'\n")
    call("score in.jsonl").ended(2)
    said = f"{file} is trusted and sets base_url, model\n"
    assert call("trust .").ended(0).out.decode() == said
    call("score in.jsonl").ended(0)
    file.write_text(file.read_text().replace("127.0.0.1", "localhost"))
    assert "genrm.toml has changed since you trusted it" in call("score in.jsonl --force").err
    call("trust --remove .").ended(0)
    call("trust --remove .").ended(2)


def test_a_journal_is_printed_one_entry_a_line(genrm, call, call_judged, judge_server):
    """Every verdict with its reply and every failure is a JSON line; nothing else is on stdout."""
    judge_server.behave(script=[{}] * 3, fault={"content": "Hm."})
    genrm.rollouts(1, 4)
    call_judged("score in.jsonl --no-probe --max-extra 0 --concurrency 1")
    printed = call("journal in.journal.sqlite").ended(0).out.splitlines()
    entries = [json.loads(line) for line in printed]
    assert all("ranking" in entry["reply"] for entry in entries[:3])
    assert entries[3]["body"]["failure"]["kind"] == "no_verdict"


def test_the_guide_is_printed_as_plain_markdown(call):
    """A page can be redirected into a file; without a name, the index names all pages."""
    index = call("guide").out.decode()
    for name in page_names():
        assert call("guide", name).ended(0).out.decode() == read_page(name)
        assert f"[{name}]" in index
