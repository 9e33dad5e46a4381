TASK = [{"role": "user", "content": "Name a river."}]


def chat(reply, **fields):
    """Make a line of messages."""
    return {
        "messages": [*TASK, {"role": "assistant", "content": reply}],
        "prompt_id": "river",
        **fields,
    }


def test_what_is_shown_is_what_the_judge_is_sent(genrm, call, judge_server):
    """The messages of `show` are, byte for byte, those of a request that `score`
    makes.
    """
    genrm.rollouts(1, 2)
    judge = (*judge_server.flags, "--profile", "nemotron-plain")
    shown = call("show in.jsonl --model m --profile nemotron-plain").out.decode()
    assert judge_server.stats()["requests"] == 0
    call("score in.jsonl --no-probe", *judge).ended(0)
    sent = [request["body"]["messages"] for request in judge_server.stats()["recent"]]
    _, _, content = shown.partition("--- message of role user\n")
    assert [
        {
            "role": "user",
            "content": content.removesuffix("\n"),
        }
    ] in sent


def test_a_judge_without_a_name_is_shown_as_it_is_asked(genrm, call):
    """Lists and NeMo Gym's roles are shown without a model, too; only pairs of a judge that nothing
    describes stand in for its own.
    """
    genrm.rollouts(1, 3)
    stand_in = "no --model or --profile given"
    for options, profile, is_stand_in in (
        ("", "nemotron-plain", True),
        ("--judging listwise", "listwise", False),
        ("--compat nemo-gym", "nemotron+nemo-gym-3", False),
    ):
        shown = call("show in.jsonl", *options.split()).ended(0)
        assert f", profile {profile}" in shown.out.decode().splitlines()[0]
        assert (stand_in in shown.err) is is_stand_in


def test_nothing_to_show_is_an_error(genrm, call):
    """Where nothing can be shown, the exit code is 3 and the error says why."""
    cases = [
        ([chat("The Niger.")], ("--as-judge",), "no request is planned for any group"),
        (
            [chat("The Niger.")],
            ("--group", "x"),
            "no request is planned for the group x",
        ),
        (
            [{"colour": 1}],
            (),
            "the input holds no rollouts: line 1: unknown format with the keys colour",
        ),
    ]
    for lines, options, message in cases:
        genrm.write("in.jsonl", lines)
        finished = call("show in.jsonl", *options).ended(3)
        assert finished.out == b""
        assert message in finished.err


def test_an_output_is_known_by_the_run_that_wrote_it(genrm, call):
    """Scored lines under another name than *.scored.jsonl are shown with their rewards, and
    rollouts are not.
    """
    genrm.rollouts(1, 3)
    call("score in.jsonl --offline -o rewards.jsonl").ended(0)
    assert b"reward  rank" in call("show rewards.jsonl").out
    assert b"reward  rank" not in call("show in.jsonl").out
