"""`genrm init`: a settings file from what an endpoint serves."""

import os
import re
import shlex
import tomllib

import pytest
from genrm_process import COMMAND
from processes import start_process

from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile


def test_the_file_that_it_writes_is_used_at_once(genrm, call, judge_server):
    """With the only model of an endpoint, `genrm score` needs no more flags: the folder is
    trusted.
    """
    finished = call("init --base-url", judge_server.base_url).ended(0)
    assert finished.err == ""
    url = judge_server.base_url
    assert finished.out.decode().startswith(
        f"models at {url}: local-judge\ngenrm.toml: local-judge at {url}\nnext: genrm "
    )
    genrm.rollouts()
    call("score in.jsonl").ended(0)
    assert judge_server.stats()["requests"] > 0


def test_its_last_line_is_the_command_to_paste(genrm, call, judge_server):
    """Also for a name that the shell would take apart."""
    genrm.rollouts(2, 3, name="my in.jsonl")
    finished = call("init", "my in.jsonl", "--base-url", judge_server.base_url).ended(0)
    last = finished.out.decode().splitlines()[-1]
    assert last == "next: genrm score 'my in.jsonl' --quick"
    call(*shlex.split(last)[2:]).ended(0)
    assert (genrm.folder / "my in.scored.jsonl").exists()


def test_llamacpp_names_a_path_and_has_nothing_to_list_while_it_loads(genrm, call, judge_server):
    """The error says to try again; then the path is the model, and the run uses it."""
    model = "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    judge_server.behave(is_llamacpp=True, models=[model], loading=1)
    refused = call("init --base-url", judge_server.base_url).ended(4)
    assert "HTTP 503: Loading model. It is loading its model, or is overloaded:" in refused.err
    call("init --base-url", judge_server.base_url).ended(0)
    genrm.rollouts(1, 2)
    said = call("score in.jsonl").ended(0).err
    assert f"judge: {model}, profile" in said
    assert "name another model" not in said


def test_every_line_of_the_file_is_a_setting(genrm, call, judge_server):
    """The settings in comments are valid once their mark is removed."""
    call("init --api-key-env MY_KEY --base-url", judge_server.base_url, MY_KEY="k")
    text = genrm.text("genrm.toml")
    values = tomllib.loads(re.sub(r"(?m)^# (?=\w+ = )", "", text))
    settings, _ = resolve_settings({}, {}, SettingsFile("genrm.toml", values))
    assert settings.judge.api_key_env == "MY_KEY"
    assert settings.pairing.ring_k == 2.0
    assert settings.limits.max_cost == 20.0


def test_an_existing_file_stays_unless_forced(genrm, call, judge_server):
    """A settings file is overwritten with --force only."""
    (genrm.folder / "genrm.toml").write_text("ring_k = 3\n")
    finished = call("init --base-url", judge_server.base_url).ended(2)
    assert genrm.text("genrm.toml") == "ring_k = 3\n"
    assert "--force" in finished.err
    call("init --force --base-url", judge_server.base_url).ended(0)
    assert "ring_k = 3" not in genrm.text("genrm.toml")


def test_several_models_need_a_choice(genrm, call, judge_server):
    """The error lists the models; --model chooses one, and a name not listed is a warning."""
    judge_server.behave(models=["b", "a"])
    finished = call("init", OPENAI_BASE_URL=judge_server.base_url).ended(2)
    assert genrm.names() == set()
    assert "choose one with --model: a, b." in finished.err
    chosen = call("init --model c", OPENAI_BASE_URL=judge_server.base_url).ended(0)
    assert "does not list the model 'c'; it lists a, b" in chosen.err


def test_on_a_terminal_it_asks_for_what_is_not_given(genrm, judge_server):
    """Endpoint, one of several models, a file, its prices: a wrong answer is asked again."""
    judge_server.behave(models=["b", "a"])
    genrm.rollouts(1, 2)
    ours, its = os.openpty()
    answers = (judge_server.base_url, "7", "2", "in.jsonl", "1", "")
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    child = start_process(
        [*COMMAND, "init"],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=genrm.folder,
        env=genrm.environment(TERM="dumb"),
    )
    os.close(its)
    said = b""
    try:
        while block := os.read(ours, 65_536):
            said += block
    except OSError:  # the other end is closed
        os.close(ours)
    assert child.wait(60) == 0, said
    assert said.count(b"model (1 to 2, or its name)? ") == 2
    written = tomllib.loads(genrm.text("genrm.toml"))
    assert written["model"] == "b"
    assert written["price_in"] == 1.0
    assert "price_out" not in written
    assert b"2 comparisons: 2 calls to make" in said


def test_an_endpoint_without_a_list_needs_a_model(genrm, call, judge_server):
    """A wrong address is a judge error that says what to check; with --model it is a warning."""
    wrong = judge_server.base_url.removesuffix("/v1")
    finished = call("init --base-url", wrong).ended(4)
    assert genrm.names() == set()
    assert "HTTP 404: Not Found. Check --base-url (it usually ends in /v1)" in finished.err
    call("init --model m --base-url", wrong).ended(0)


def test_a_sample_is_read_as_it_passes_a_trial_or_as_the_user_says(genrm, call, judge_server):
    """The settings that it writes read the sample: proposed if they are sure, asked for if not."""
    answers = ("It is one thing.", "It is another thing.")
    lines = [{"ask": "What is the thing?", "said": {"reply": answer}} for answer in answers]
    genrm.write("sure.jsonl", lines)
    command = ("init", "sure.jsonl", "--base-url", judge_server.base_url, "--force")
    shown = call(*command, "--price-in", "1", "--price-out", "2").ended(0).out.decode()
    assert "prompt: ask; response: said.reply" in shown
    assert "2 calls to make" in shown
    assert "cost about 0.01" in shown
    call("validate sure.jsonl").ended(0)
    lines = [
        {
            "prompt": "Why?",
            "completion": answer,
            "background": "It was a dark night.",
            "zot": f"Nobody liked this, {len(answer)} say.",
        }
        for answer in answers
    ]
    genrm.write("unsure.jsonl", lines)
    command = ("init", "unsure.jsonl", *command[2:])
    call(*command, stdin=b"prompt\nignore\n").ended(0)
    text = genrm.text("genrm.toml")
    assert 'prompt_field = "prompt,background"\n' in text
    assert 'ignore_fields = "zot"\n' in text
    reading = call("validate unsure.jsonl").ended(0)
    assert b"prompt: prompt; context: background; response: completion" in reading.out
    refused = call(*command).ended(3)
    assert "cannot be read yet" in refused.err
    flags = ["--prompt-field", "prompt,background", "--response-field", "completion"]
    call(*command, *flags, "--ignore-fields", "zot").ended(0)
    assert 'prompt_field = "prompt,background"\n' in genrm.text("genrm.toml")


@pytest.fixture
def init_open(genrm, call, judge_server):
    """Answer the questions about a file that no format recognises."""
    lines = [
        {
            "question_text": "Why is the thing so?",
            "out": answer,
            "notes": "It is so because of that.",
        }
        for answer in ("It is one thing.", "It is another thing.")
    ]
    genrm.write("open.jsonl", lines)

    def answered(answers):
        told = "".join(f"{answer}\n" for answer in answers).encode()
        return call("init open.jsonl --base-url", judge_server.base_url, stdin=told)

    return answered


def test_fields_of_a_file_that_no_format_recognises(genrm, init_open):
    """Roles, or beginnings that are one role only, read it."""
    init_open(["p", "res", "ref"]).ended(0)
    written = tomllib.loads(genrm.text("genrm.toml"))
    assert (written["prompt_field"], written["response_field"]) == ("question_text", "out")
    assert written["reference_field"] == "notes"


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        (["prompt", "", "reference"], 3, "no field is said to be the response"),
        (["prompt", "re"], 2, "out: 're' is not one of prompt, response, reference or ignore"),
        (["zzz"], 2, "question_text: 'zzz' is not one of"),
    ],
)
def test_answers_that_do_not_read_a_file(genrm, init_open, answers, code, said):
    """They are errors that say what is wrong; no settings file is written."""
    finished = init_open(answers).ended(code)
    assert said in finished.err
    assert genrm.names() == {"open.jsonl"}


def test_errors_about_the_model_name_those_that_are_served(genrm, call, judge_server):
    """Both where no model is named and where the server does not know it."""
    genrm.rollouts(1, 2)
    judge_server.behave(models=["good", "better"], fault={"status": 404})
    missing = call("score in.jsonl --base-url", judge_server.base_url).ended(2)
    assert f"{judge_server.base_url} serves better, good." in missing.err
    wrong = call("score in.jsonl --model goood --base-url", judge_server.base_url).ended(4)
    assert "It serves better, good." in wrong.err
