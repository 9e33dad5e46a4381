import json

import pytest

CIRCULAR = ("--strategy", "circular")
REFERENCE_WAY = (
    "--profile",
    "nemotron",
    *CIRCULAR,
    "--estimator",
    "simple_tiebreaker",
)
KILL = "SKILL is a verb meaning to kill."
WELL = "Skill refers to the ability to perform a task well."
# The request of the change that brought `genrm_compare` to NeMo Gym; its messages have no role.
REFERENCE_REQUEST = {
    "conversation_history": [{"role": "user", "content": "What is SKILL?"}],
    "response_objs": [
        {
            "output": [
                {
                    "type": "message",
                    "content": [{"type": "output_text", "text": text}],
                }
            ]
        }
        for text in (KILL, WELL)
    ],
}
REFERENCE_REPLY = {
    "rewards": [1.025, 4.475],
    "comparison_results": [
        {
            "response_i": 0,
            "response_j": 1,
            "judge_idx": 0,
            "score_1": 1.0,
            "score_2": 5.0,
            "ranking": 6.0,
        },
        {
            "response_i": 1,
            "response_j": 0,
            "judge_idx": 0,
            "score_1": 4.0,
            "score_2": 1.0,
            "ranking": 1.0,
        },
    ],
    "metrics": {
        "mean_individual_score": 2.75,
        "std_individual_score": 1.7853571071357126,
        "tiebreak_usage_rate": 0.0,
    },
}
LENGTH = "[shaping]\ngroup_answer_length_penalty_coeff = 0.05\n"


def reply(score_1, score_2, ranking):
    """Script one verdict."""
    numbers = {
        "score_1": score_1,
        "score_2": score_2,
        "ranking": ranking,
    }
    return {"content": f"```json\n{json.dumps(numbers)}\n```"}


def judge(server, *more):
    """Name a judge that is asked one thing after the other."""
    return (
        *server.flags,
        "--no-probe",
        "--concurrency",
        1,
        *more,
    )


@pytest.mark.parametrize(
    "way", [REFERENCE_WAY, ("--compat", "nemo-gym")], ids=["by hand", "compat"]
)
def test_the_reference_request_gets_the_reference_reply(call, genrm, judge_server, way):
    """The published request and verdicts give the published reply, to the last digit, and nothing
    but it.
    """
    judge_server.behave(script=[reply(1, 5, 6), reply(4, 1, 1)])
    (genrm.folder / "length.toml").write_text(LENGTH)
    request = json.dumps(REFERENCE_REQUEST).encode()
    finished = call(
        "compare - --json --config length.toml", *judge(judge_server, *way), stdin=request
    ).ended(0)
    assert finished.err == ""
    assert json.loads(finished.out) == REFERENCE_REPLY
    assert finished.out.count(b"\n") == 1
    shown = [request["body"]["messages"] for request in judge_server.stats()["recent"]]
    assert [[message["content"] for message in messages] for messages in shown] == [
        ["What is SKILL?", KILL, WELL],
        ["What is SKILL?", WELL, KILL],
    ]


def test_a_person_gets_a_table(call):
    """Without --json stdout holds a row for each response and each comparison."""
    finished = call("compare --offline -p", "What is SKILL?", KILL, WELL).ended(0)
    out = finished.out.decode()
    for text in ("reward", "advantage", "ranking", KILL, WELL):
        assert text in out
    assert len([line for line in out.splitlines() if line[:1].isdigit()]) == 2 + 2


def test_texts_come_from_files_and_stdin_too(genrm, call, judge_server):
    """@FILE and - are read as the help says, for prompt and responses alike."""
    (genrm.folder / "prompt.txt").write_text("Wie geht's, Jürgen?")
    (genrm.folder / "one.txt").write_text("[bold]not markup[/bold]")
    arguments = (
        "--prompt",
        "@prompt.txt",
        "@one.txt",
        "-",
        "handle",
        *judge(judge_server, *CIRCULAR, "--profile", "nemotron"),
    )
    finished = call("compare", *arguments, stdin="Schön!".encode()).ended(0)
    shown = [request["body"]["messages"] for request in judge_server.stats()["recent"]]
    contents = [[message["content"] for message in messages] for messages in shown]
    assert contents[0] == ["Wie geht's, Jürgen?", "[bold]not markup[/bold]", "Schön!"]
    assert contents[1][1:] == ["Schön!", "handle"]
    assert "[bold]not markup[/bold]" in finished.out.decode()


@pytest.mark.slow
def test_texts_are_utf_8_in_every_locale(genrm, judge_server):
    """Bytes of an argument are read as UTF-8, also where the C locale decodes none but ASCII."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ("compare", "-p", "q?", "è one", "à two", *judge_server.flags, "--no-probe")
    genrm.run(*words, **ascii_only).ended(0)
    shown = str(judge_server.stats()["recent"])
    assert "è one" in shown
    assert "à two" in shown


def test_two_to_sixty_four_responses_are_compared(call):
    """One response and 65 are refused with their number and the limits."""
    for count, code in [(1, 3), (2, 0), (64, 0), (65, 3)]:
        finished = call(
            "compare -p Why? --json --offline", *[f"Because of {n}." for n in range(count)]
        ).ended(code)
        if code:
            assert "given; expected 2 to 64" in finished.err
            assert json.loads(finished.out)["exit_code"] == code
        else:
            assert len(json.loads(finished.out)["rewards"]) == count


def test_what_cannot_be_compared_is_said(call):
    """Wrong combinations end with 2, unreadable input with 3, each in one line that helps."""
    cases = [
        (("a", "b"), b"", 2, "--prompt"),
        (("-p", "Why?", "-", "-"), b"", 2, "once"),
        (
            ("-p", "-", "-", "answer"),
            b"Why?",
            2,
            "stdin can be read only once",
        ),
        (
            ("-p", "Why?", "-"),
            b"{}",
            2,
            "omit --prompt",
        ),
        (("-",), b"", 3, "compare request"),
        (("-",), b"[1]", 3, "compare request"),
        (
            ("-",),
            b'{"conversation_history": [], "response_objs": []}',
            3,
            "empty",
        ),
        (
            ("-",),
            b'{"conversation_history": [{"role": "user"}], "response_objs": [1, 2]}',
            3,
            "compare request",
        ),
        (
            ("-p", "Why?", "@missing.txt", "b"),
            b"",
            3,
            "missing.txt",
        ),
    ]
    for arguments, stdin, code, says in cases:
        finished = call("compare --offline", *arguments, stdin=stdin).ended(code)
        assert says in finished.err
        assert len(finished.err.splitlines()) == 1


def test_a_failed_comparison_is_no_number(call, judge_server):
    """A response without a verdict has the reward null, the failed comparison is left out, and the
    code is 6.
    """
    judge_server.behave(fault={"content": "no idea"})
    finished = call("compare -p Why? a b", *judge(judge_server, "--json")).ended(6)
    assert json.loads(finished.out) == {
        "rewards": [None, None],
        "comparison_results": [],
        "metrics": {},
    }
    assert "failed" in finished.err


def test_compat_gives_the_references_defaults(call, judge_server):
    """--compat nemo-gym turns failures into 3, 3, 3.5, as the reference does."""
    judge_server.behave(fault={"content": "no idea"})
    arguments = judge(judge_server, "--json", "--compat", "nemo-gym")
    finished = call("compare -p Why? a b", *arguments).ended(0)
    printed = json.loads(finished.out)
    assert printed["rewards"] == [3.0, 3.0]
    assert [(r["score_1"], r["score_2"], r["ranking"]) for r in printed["comparison_results"]] == [
        (3, 3, 3.5)
    ] * 2
    assert printed["metrics"]["tiebreak_usage_rate"] == 1.0


COMPAT = ["--json", "--compat", "nemo-gym"]


def compare_as_gym(call, server, request, *more):
    """Run `compare -` as NeMo Gym would answer a request."""
    stdin = json.dumps(request).encode()
    return call("compare -", *judge(server, *COMPAT, *more), stdin=stdin)


def test_compat_answers_for_one_response_or_none(call, judge_server):
    """The reply of Gym, without asking the judge, not even by a probe."""
    for responses, rewards in [([], []), ([{}], [3.0])]:
        stdin = json.dumps(
            {
                "conversation_history": [],
                "response_objs": responses,
            }
        ).encode()
        finished = call("compare -", *judge_server.flags, *COMPAT, stdin=stdin).ended(0)
        assert finished.err == ""
        assert json.loads(finished.out) == {
            "rewards": rewards,
            "comparison_results": None,
            "metrics": None,
        }
        assert judge_server.stats()["requests"] == 0


def test_compat_refuses_a_response_that_is_no_object(call, judge_server):
    """As Gym does with HTTP 422; the message names the response."""
    for response in ["text", None, 5, []]:
        finished = compare_as_gym(
            call, judge_server, REFERENCE_REQUEST | {"response_objs": [{}, response]}
        )
        assert finished.code == 3
        assert json.loads(finished.out)["exit_code"] == finished.code
        assert "response_objs[1]" in finished.err
        assert "422" in finished.err


def test_compat_refuses_what_is_no_text(call, judge_server):
    """The values of a message and the principle are texts in Gym, which answers with HTTP 422;
    nothing is asked.
    """
    cases = [
        (
            {
                "conversation_history": [
                    {
                        "role": "user",
                        "content": [{"type": "input_text", "text": "q"}],
                    }
                ]
            },
            "[0].content",
        ),
        (
            {
                "conversation_history": [
                    {"role": "user", "content": "q"},
                    {"role": "user", "content": None},
                ]
            },
            "[1].content",
        ),
        ({"conversation_history": [{"role": None, "content": "q"}]}, "[0].role"),
        ({"conversation_history": [{"role": "user", "content": 5}]}, "[0].content"),
        ({"principle": ["Be short."]}, "principle"),
    ]
    for request_part, named in cases:
        finished = compare_as_gym(call, judge_server, REFERENCE_REQUEST | request_part)
        assert finished.code == 3
        assert json.loads(finished.out)["exit_code"] == finished.code
        assert judge_server.stats()["requests"] == 0
        assert f"{named} is no text, which NeMo Gym refuses (HTTP 422)" in finished.err


@pytest.mark.parametrize(
    "variable", ["GENRM_CONCLUDE", "GENRM_DRY_RUN", "GENRM_TOGETHER", "GENRM_ONLY_FAILED"]
)
def test_a_variable_for_other_commands_is_not_seen(call, variable):
    """What a command does not use changes nothing: a run of the shell next door may need it."""
    given = ("compare", "--prompt", "q", "a b", "c", "--offline", "--json")
    assert call(*given, **{variable: "true"}).out == call(*given).out
