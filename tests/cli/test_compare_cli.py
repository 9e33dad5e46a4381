import json

import pytest

KILL = "SKILL is a verb meaning to kill."
WELL = "Skill refers to the ability to perform a task well."


def as_gym(text):
    """Return a response as NeMo Gym sends it."""
    return {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}


# The request of the change that brought `genrm_compare` to NeMo Gym; its messages have no role.
REQUEST = {
    "conversation_history": [{"role": "user", "content": "What is SKILL?"}],
    "response_objs": [as_gym(KILL), as_gym(WELL)],
}
VERDICTS = [
    {"score_1": 1.0, "score_2": 5.0, "ranking": 6.0},
    {"score_1": 4.0, "score_2": 1.0, "ranking": 1.0},
]
REPLY = {
    "rewards": [1.025, 4.475],
    "comparison_results": [
        {"response_i": i, "response_j": 1 - i, "judge_idx": 0, **verdict}
        for i, verdict in enumerate(VERDICTS)
    ],
    "metrics": {
        "mean_individual_score": 2.75,
        "std_individual_score": 1.7853571071357126,
        "tiebreak_usage_rate": 0.0,
    },
}
COMPAT = "--json --compat nemo-gym"
UNREADABLE = {"content": "no idea"}


@pytest.fixture
def compare(call, judge_server):
    """Give a test the command, with a judge that is asked one thing after the other."""

    def run(words, *texts, code=0, **more):
        flags = ("--no-probe", "--concurrency", 1, *judge_server.flags)
        return call(f"compare {words}", *texts, *flags, **more).ended(code)

    return run


def shown_to(server):
    """Return the texts of each request."""
    bodies = [request["body"] for request in server.stats()["recent"]]
    return [[message["content"] for message in body["messages"]] for body in bodies]


@pytest.mark.parametrize(
    "way",
    [
        "--profile nemotron --strategy circular --estimator simple_tiebreaker",
        "--compat nemo-gym",
    ],
)
def test_the_reference_request_gets_the_reference_reply(compare, genrm, judge_server, way):
    """The published request and verdicts give the published reply, to the last digit, and nothing
    but it.
    """
    script = [{"content": f"```json\n{json.dumps(each)}\n```"} for each in VERDICTS]
    judge_server.behave(script=script)
    length = "[shaping]\ngroup_answer_length_penalty_coeff = 0.05\n"
    (genrm.folder / "length.toml").write_text(length)
    request = json.dumps(REQUEST).encode()
    finished = compare(f"- --json --config length.toml {way}", stdin=request)
    assert finished.err == ""
    assert json.loads(finished.out) == REPLY
    assert finished.out.count(b"\n") == 1
    question = "What is SKILL?"
    assert shown_to(judge_server) == [[question, KILL, WELL], [question, WELL, KILL]]


def test_a_person_gets_a_table(call):
    """Without --json stdout holds a row for each response and each comparison."""
    out = call("compare --offline -p", "What is SKILL?", KILL, WELL).ended(0).out.decode()
    for text in ("reward", "advantage", "ranking", KILL, WELL):
        assert text in out
    assert len([line for line in out.splitlines() if line[:1].isdigit()]) == 2 + 2


def test_texts_come_from_files_and_stdin_too(genrm, compare, judge_server):
    """@FILE and - are read as the help says, for prompt and responses alike."""
    prompt = "Wie geht's, Jürgen?"
    first = "[bold]not markup[/bold]"
    (genrm.folder / "prompt.txt").write_text(prompt)
    (genrm.folder / "one.txt").write_text(first)
    words = "--prompt @prompt.txt @one.txt - handle --strategy circular --profile nemotron"
    finished = compare(words, stdin="Schön!".encode())
    shown = shown_to(judge_server)
    assert shown[:2] == [[prompt, first, "Schön!"], [prompt, "Schön!", "handle"]]
    assert first in finished.out.decode()


@pytest.mark.slow
def test_texts_are_utf_8_in_every_locale(genrm, judge_server):
    """Bytes of an argument are read as UTF-8, also where the C locale decodes none but ASCII."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ("compare --no-probe -p q?", "è one", "à two", *judge_server.flags)
    genrm.run(*words, **ascii_only).ended(0)
    shown = str(shown_to(judge_server))
    assert "è one" in shown
    assert "à two" in shown


@pytest.mark.parametrize(("count", "code"), [(1, 3), (2, 0), (64, 0), (65, 3)])
def test_two_to_sixty_four_responses_are_compared(call, count, code):
    """One response and 65 are refused with their number and the limits."""
    texts = [f"Because of {n}." for n in range(count)]
    finished = call("compare -p Why? --json --offline", *texts).ended(code)
    printed = json.loads(finished.out)
    if code:
        assert "given; expected 2 to 64" in finished.err
        assert printed["exit_code"] == code
    else:
        assert len(printed["rewards"]) == count


def test_a_failed_comparison_is_no_number(compare, judge_server):
    """A response without a verdict has the reward null, the failed comparison is left out, and the
    code is 6.
    """
    judge_server.behave(fault=UNREADABLE)
    finished = compare("-p Why? a b --json", code=6)
    nothing = {"rewards": [None, None], "comparison_results": [], "metrics": {}}
    assert json.loads(finished.out) == nothing
    assert "failed" in finished.err


@pytest.mark.parametrize(("responses", "rewards"), [([], []), ([{}], [3.0])])
def test_compat_answers_for_one_response_or_none(call_judged, judge_server, responses, rewards):
    """The reply of Gym, without asking the judge, not even by a probe."""
    stdin = json.dumps({"conversation_history": [], "response_objs": responses}).encode()
    finished = call_judged(f"compare - {COMPAT}", stdin=stdin).ended(0)
    assert finished.err == ""
    nothing = dict.fromkeys(("comparison_results", "metrics"))
    assert json.loads(finished.out) == {"rewards": rewards, **nothing}
    assert judge_server.stats()["requests"] == 0


IS_NO_TEXT = "{} is no text, which NeMo Gym refuses (HTTP 422)"


def asked(*contents, role="user"):
    """Return a request with messages of these contents."""
    history = [{"role": role, "content": content} for content in contents]
    return {"conversation_history": history}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        *(({"response_objs": [{}, each]}, "response_objs[1]") for each in ("text", None, 5, [])),
        (asked([{"type": "input_text", "text": "q"}]), IS_NO_TEXT.format("[0].content")),
        (asked("q", None), IS_NO_TEXT.format("[1].content")),
        (asked("q", role=None), IS_NO_TEXT.format("[0].role")),
        (asked(5), IS_NO_TEXT.format("[0].content")),
        ({"principle": ["Be short."]}, IS_NO_TEXT.format("principle")),
    ],
)
def test_compat_refuses_what_gym_refuses(compare, judge_server, changed, says):
    """A response that is no object, and values of a message and a principle that are no texts;
    nothing is asked.
    """
    stdin = json.dumps(REQUEST | changed).encode()
    finished = compare(f"- {COMPAT}", stdin=stdin, code=3)
    assert json.loads(finished.out)["exit_code"] == 3
    assert says in finished.err
    assert "422" in finished.err
    assert judge_server.stats()["requests"] == 0
