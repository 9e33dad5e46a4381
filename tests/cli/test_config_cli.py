import json

from genrm_cli.settings.table import all_settings

KEY = "sk-local-0123456789abcdef"


def test_a_table_for_a_person_and_no_keys(call):
    """Each setting is a row; keys are in neither form, only the name of their variable."""
    environment = {
        "GENRM_API_KEY": KEY,
        "OPENAI_API_KEY": KEY,
        "MINE": KEY,
    }
    finished = call("config --api-key-env MINE", **environment).ended(0)
    table = finished.out.decode()
    assert all(setting.key in table for setting in all_settings())
    assert "MINE" in table
    assert KEY not in table
    assert KEY not in call("config --json", **environment).out.decode()


def test_a_misspelt_variable_is_pointed_out(call):
    """A GENRM_ variable that is not a setting gives a warning, which --quiet suppresses."""
    finished = call("config", GENRM_CONCURENCY="8").ended(0)
    assert "GENRM_CONCURENCY" in finished.err
    assert call("config --quiet", GENRM_CONCURENCY="8").err == ""


def test_a_settings_file_with_a_mistake_ends_with_2(genrm, call):
    """The file, what is wrong and what was expected are named."""
    cases = [
        ("concurency = 8", "Did you mean concurrency?"),
        ("strategy = ", "TOML"),
    ]
    for text, says in cases:
        (genrm.folder / "genrm.toml").write_text(text)
        finished = call("config --config genrm.toml").ended(2)
        assert "genrm.toml" in finished.err
        assert says in finished.err


def test_settings_from_a_file_and_the_environment_reach_a_run(genrm, call):
    """A run needs no flags: genrm.toml names the judge, GENRM_CONFIG another file, a variable the
    output.
    """
    genrm.rollouts()
    (genrm.folder / "genrm.toml").write_text('judge = "lexical"\nquiet = true\n')
    call("trust .").ended(0)
    assert call("score in.jsonl", GENRM_OUTPUT="out.jsonl") == (0, b"", "")
    assert "out.metrics.json" in genrm.names()
    (genrm.folder / "other.toml").write_text('judge = "lexical"\nstrategy = "all_pair"\n')
    refused = call("score in.jsonl", GENRM_CONFIG="other.toml").ended(2)
    assert "Did you mean all_pairs?" in refused.err


def test_changed_shows_only_what_is_not_a_default(call):
    """`--changed` lists the settings that somebody set, with their sources."""
    settings = json.loads(call("config --changed --ring-k 2 --json", GENRM_SEED="7").out)
    assert {name: each["source"] for name, each in settings.items()} == {
        "ring_k": "flag",
        "seed": "environment GENRM_SEED",
        "json": "flag",
    }


def test_the_endpoint_of_openais_library_is_the_default(call):
    """OPENAI_BASE_URL counts where no flag, variable or file names a judge."""
    url = "http://judge:8000/v1"

    def source(*arguments, **environment):
        settings = json.loads(
            call("config --json", *arguments, OPENAI_BASE_URL=url, **environment).out
        )
        return settings["base_url"]

    assert source() == {
        "value": [url],
        "source": "environment OPENAI_BASE_URL",
    }
    assert source(GENRM_BASE_URL="http://other/v1")["source"] == "environment GENRM_BASE_URL"
    assert source("--offline")["value"] == []


def test_the_shell_completes_values(call):
    """Choices are completed in every shell."""
    for shell in ["bash", "zsh", "fish"]:
        words = "score --strategy r"
        environment = {
            "_GENRM_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": f"genrm {words}",
            "COMP_WORDS": f"genrm {words}",
            "COMP_CWORD": str(len(words.split())),
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        ended = call(**environment)
        assert "ring" in ended.out.decode()
