"""`genrm init`: a settings file from what an endpoint serves."""

import os
import re
import shlex
import tomllib

import pytest
from genrm_process import COMMAND
from processes import start_process
from terminals import iter_received

from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile

ANSWERS = ("It is one thing.", "It is another thing.")


@pytest.fixture
def init(call, judge_server):
    """Give a test the command, for the judge."""

    def run(words="", code=0, **more):
        return call(f"init --base-url {judge_server.base_url}", *words.split(), **more).ended(code)

    return run


@pytest.fixture
def written(genrm):
    """Return the settings file."""
    return lambda: tomllib.loads(genrm.text("genrm.toml"))


def test_the_file_that_it_writes_is_used_at_once(genrm, call, init, judge_server):
    """With the only model of an endpoint, `genrm score` needs no more flags: the folder is
    trusted.
    """
    finished = init()
    assert finished.err == ""
    url = judge_server.base_url
    said = f"models at {url}: local-judge\ngenrm.toml: local-judge at {url}\nnext: genrm "
    assert finished.out.decode().startswith(said)
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
    assert "my in.scored.jsonl" in genrm.names()


def test_llamacpp_names_a_path_and_has_nothing_to_list_while_it_loads(
    genrm, call, init, judge_server
):
    """The error says to try again; then the path is the model, and the run uses it."""
    model = "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    judge_server.behave(is_llamacpp=True, models=[model], loading=1)
    refused = init(code=4)
    assert "HTTP 503: Loading model. It is loading its model, or is overloaded:" in refused.err
    init()
    genrm.rollouts(1, 2)
    said = call("score in.jsonl").ended(0).err
    assert f"judge: {model}, profile" in said
    assert "name another model" not in said


def test_every_line_of_the_file_is_a_setting(genrm, init):
    """The settings in comments are valid once their mark is removed."""
    init("--api-key-env MY_KEY", MY_KEY="k")
    values = tomllib.loads(re.sub(r"(?m)^# (?=\w+ = )", "", genrm.text("genrm.toml")))
    settings, _ = resolve_settings({}, {}, SettingsFile("genrm.toml", values))
    assert settings.judge.api_key_env == "MY_KEY"
    assert settings.pairing.ring_k == 2.0
    assert settings.limits.max_cost == 20.0


def test_an_existing_file_stays_unless_forced(genrm, init):
    """A settings file is overwritten with --force only."""
    mine = "ring_k = 3\n"
    (genrm.folder / "genrm.toml").write_text(mine)
    assert "--force" in init(code=2).err
    assert genrm.text("genrm.toml") == mine
    init("--force")
    assert mine not in genrm.text("genrm.toml")


def test_several_models_need_a_choice(genrm, call, judge_server):
    """The error lists the models; --model chooses one, and a name not listed is a warning."""
    judge_server.behave(models=["b", "a"])
    url = {"OPENAI_BASE_URL": judge_server.base_url}
    assert "choose one with --model: a, b." in call("init", **url).ended(2).err
    assert genrm.names() == set()
    chosen = call("init --model c", **url).ended(0)
    assert "does not list the model 'c'; it lists a, b" in chosen.err


@pytest.mark.slow
def test_on_a_terminal_it_asks_for_what_is_not_given(genrm, judge_server, written):
    """Endpoint, one of several models, a file, its prices: a wrong answer is asked again."""
    judge_server.behave(models=["b", "a"])
    genrm.rollouts(1, 2)
    ours, its = os.openpty()
    answers = (judge_server.base_url, "7", "2", "in.jsonl", "1", "")
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    child = start_process(
        [*COMMAND, "init"],
        stdin=its, stdout=its, stderr=its,
        cwd=genrm.folder, env=genrm.environment(TERM="dumb"),
    )  # fmt: skip
    os.close(its)
    said = b"".join(iter_received(ours))
    assert child.wait(60) == 0, said
    assert said.count(b"model (1 to 2, or its name)? ") == 2
    settings = written()
    assert (settings["model"], settings["price_in"]) == ("b", 1.0)
    assert "price_out" not in settings
    assert b"2 comparisons: 2 calls to make" in said


def test_an_endpoint_without_a_list_needs_a_model(genrm, call, judge_server):
    """A wrong address is a judge error that says what to check; with --model it is a warning."""
    wrong = judge_server.base_url.removesuffix("/v1")
    refused = call(f"init --base-url {wrong}").ended(4)
    assert genrm.names() == set()
    assert "HTTP 404: Not Found. Check --base-url (it usually ends in /v1)" in refused.err
    call(f"init --base-url {wrong} --model m").ended(0)


def test_a_sample_that_passes_a_trial_is_read_as_proposed(genrm, call, init):
    """The settings that it writes read the sample, and its cost is told."""
    lines = [{"ask": "What is the thing?", "said": {"reply": answer}} for answer in ANSWERS]
    genrm.write("sure.jsonl", lines)
    shown = init("sure.jsonl --price-in 1 --price-out 2").out.decode()
    for text in ("prompt: ask; response: said.reply", "2 calls to make", "cost about 0.01"):
        assert text in shown
    call("validate sure.jsonl").ended(0)


def test_a_sample_that_is_unsure_is_read_as_the_user_says(genrm, call, init, written):
    """By answers or flags; without either it cannot be read."""
    lines = [
        {
            "prompt": "Why?",
            "completion": answer,
            "background": "It was a dark night.",
            "zot": f"Nobody liked this, {len(answer)} say.",
        }
        for answer in ANSWERS
    ]
    genrm.write("unsure.jsonl", lines)
    init("unsure.jsonl", stdin=b"prompt\nignore\n")
    assert (written()["prompt_field"], written()["ignore_fields"]) == ("prompt,background", "zot")
    reading = call("validate unsure.jsonl").ended(0)
    assert b"prompt: prompt; context: background; response: completion" in reading.out
    assert "cannot be read yet" in init("unsure.jsonl --force", code=3).err
    fields = "--prompt-field prompt,background --response-field completion --ignore-fields zot"
    init(f"unsure.jsonl --force {fields}")
    assert written()["prompt_field"] == "prompt,background"


@pytest.fixture
def answer_open(genrm, init):
    """Answer the questions about a file that no format recognises."""
    known = {"question_text": "Why is the thing so?", "notes": "It is so because of that."}
    genrm.write("open.jsonl", [{**known, "out": answer} for answer in ANSWERS])

    def answered(*answers, code=0):
        told = "".join(f"{answer}\n" for answer in answers)
        return init("open.jsonl", code, stdin=told.encode())

    return answered


def test_fields_of_a_file_that_no_format_recognises(answer_open, written):
    """Roles, or beginnings that are one role only, read it."""
    answer_open("p", "ref", "res")
    fields = {"prompt_field": "question_text", "response_field": "out", "reference_field": "notes"}
    assert written() | fields == written()


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        (("prompt", "reference", ""), 3, "no field is said to be the response"),
        (("prompt", "re"), 2, "notes: 're' is not one of prompt, response, reference or ignore"),
        (("zzz",), 2, "question_text: 'zzz' is not one of"),
    ],
)
def test_answers_that_do_not_read_a_file(genrm, answer_open, answers, code, said):
    """They are errors that say what is wrong; no settings file is written."""
    assert said in answer_open(*answers, code=code).err
    assert genrm.names() == {"open.jsonl"}


def test_errors_about_the_model_name_those_that_are_served(genrm, call, judge_server):
    """Both where no model is named and where the server does not know it."""
    genrm.rollouts(1, 2)
    judge_server.behave(models=["good", "better"], fault={"status": 404})
    score = f"score in.jsonl --base-url {judge_server.base_url}"
    assert f"{judge_server.base_url} serves better, good." in call(score).ended(2).err
    assert "It serves better, good." in call(f"{score} --model goood").ended(4).err
