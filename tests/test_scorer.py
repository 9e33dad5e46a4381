"""The public Python API, against a real judge process."""

import asyncio
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from genrm_process import PACKAGE_ROOT, Genrm, make_rollouts, read_lines
from processes import run_program, start_process

import genrm_cli as genrm
from genrm_cli.metrics.figures import rounded
from genrm_cli.verdicts import Reason

PROMPT = "What is 2 + 2?"
RESPONSES = ["4", "It is four.", "It is four, as two and two make four."]


def settings_for(server, **more):
    """Return the settings of a scorer that asks a judge server, without the probe."""
    return {"base_url": server.base_url, "model": "m", "probe": False, **more}


def chat_calls(server):
    """Count the requests that the judge server was asked."""
    return len(server.stats()["recent"])


def make_groups(count=6, size=4):
    """Make the groups of `make_rollouts`."""
    rollouts = make_rollouts(count, size)
    for start in range(0, len(rollouts), size):
        responses = [rollout["completion"] for rollout in rollouts[start : start + size]]
        yield genrm.Group.of(rollouts[start]["prompt"], responses)


def run(work):
    """Run a coroutine and check that it leaves no task behind."""

    async def alone():
        try:
            return await work
        finally:
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(alone())


def test_import_loads_no_library():
    """`import genrm_cli` loads neither a library nor anything of the package but its front."""
    program = (
        "import sys; before = set(sys.modules); import genrm_cli; print(*set(sys.modules) - before)"
    )
    ended = run_program(program, env={"PYTHONPATH": str(PACKAGE_ROOT)})
    loaded = set(ended.stdout.split())
    assert "genrm_cli" in loaded
    assert not [name for name in loaded if name.startswith("genrm_cli.")]
    heavy = "numpy httpx pyreqwest asyncio orjson typing sqlite3 zstandard"
    assert not loaded & set(heavy.split())


def test_the_package_lists_exactly_the_promised_names():
    """`dir` and `__all__` agree, and each name can be imported."""
    promised = {
        *(
            "__version__",
            "score",
            "rank",
            "merge",
            "consistency_rewards",
            "complementarity_rewards",
        ),
        *("rank_rewards", "scale_by_diversity", "Scorer", "Group", "GroupRewards", "Ranking"),
        *("Calibration", "ComparisonRecord", "GenrmError", "InputError", "JudgeError"),
        *("StorageError", "UsageError"),
    }
    assert set(dir(genrm)) == set(genrm.__all__) == promised
    assert all(getattr(genrm, name) for name in promised)


def test_a_name_that_is_not_promised_is_an_attribute_error():
    """A typo fails as in any module."""
    with pytest.raises(AttributeError, match=r"^module 'genrm_cli' has no attribute 'Scorrer'$"):
        _ = genrm.Scorrer


@pytest.mark.slow
def test_strict_type_checks_pass_for_users(tmp_path):
    """`mypy --strict` accepts a program that uses the API, and finds a misspelt name."""
    program = tmp_path / "program.py"
    program.write_text(
        "import genrm_cli as genrm\n"
        "async def main() -> list[float | None]:\n"
        "    async with genrm.Scorer(judge='lexical') as scorer:\n"
        "        result = await scorer.score('p', ['a', 'b'])\n"
        "        calibration: genrm.Calibration = scorer.calibration\n"
        "    return genrm.score('p', ['a'], calibration=calibration).rewards + result.advantages\n"
        "genrm.Scorrer\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program]
    ended = subprocess.run(
        command,
        env={"MYPYPATH": str(PACKAGE_ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout.splitlines()[0].startswith(
        f'{program}:7: error: Module has no attribute "Scorrer"'
    )
    assert "Found 1 error in 1 file" in ended.stdout


async def test_a_group_is_scored(judge_server):
    """A result has one entry for each response, and one comparison for each request."""
    async with genrm.Scorer(**settings_for(judge_server)) as scorer:
        result = await scorer.score([{"role": "user", "content": PROMPT}], RESPONSES)
    rewards = result.rewards
    assert rewards == sorted(rewards)
    assert rewards[0] < rewards[2]
    assert len(result.comparisons) == chat_calls(judge_server) == 3
    assert result.failures == []
    assert result.reasons == [None] * 3
    assert sum(result.advantages) == pytest.approx(0)


@pytest.mark.parametrize(
    "estimator", ["adaptive", pytest.param("simple_tiebreaker", marks=pytest.mark.slow)]
)
def test_many_groups_get_the_rewards_of_the_command(call, judge_server, estimator):
    """`score_groups` calibrates on all groups and so gives the rewards and advantages of `genrm
    score`.
    """
    folder = Path.cwd()  # where `call` runs
    Genrm(folder).write("rollouts.jsonl", make_rollouts(24, 4))
    judge_server.behave(verdict="hash")
    flags = (*judge_server.flags, "--estimator", estimator, "--no-journal", "--no-probe")
    call("score rollouts.jsonl", *flags).ended(0)
    lines = read_lines(folder / "rollouts.scored.jsonl")

    async def score():
        async with genrm.Scorer(**settings_for(judge_server, estimator=estimator)) as scorer:
            return await scorer.score_groups(make_groups(24))

    results = asyncio.run(score())
    rewards = [reward for result in results for reward in result.rewards]
    assert rewards == pytest.approx([line["reward"] for line in lines], abs=1e-12)
    errors = [error for result in results for error in result.standard_errors]
    assert errors == pytest.approx([line["genrm"]["standard_error"] for line in lines], abs=1e-12)
    advantages = [advantage for result in results for advantage in result.advantages]
    assert advantages == pytest.approx([line["genrm"]["advantage"] for line in lines], abs=1e-9)


async def test_a_calibration_is_taken_out_and_passed_in(judge_server):
    """Groups scored one by one with the calibration of all give the rewards of the groups scored
    together.
    """
    judge_server.behave(verdict="hash")
    async with genrm.Scorer(**settings_for(judge_server, ring_k=2)) as scorer:
        together = await scorer.score_groups(make_groups(24))
        calibration = pickle.loads(pickle.dumps(scorer.calibration))
        alone = [await scorer.score_group(group) for group in make_groups(3)]
    async with genrm.Scorer(
        **settings_for(judge_server, ring_k=2), calibration=calibration
    ) as scorer:
        later = [await scorer.score_group(group) for group in make_groups(3)]
        uncalibrated = await scorer.score_group(
            next(make_groups()), calibration=genrm.Calibration()
        )
    assert [result.rewards for result in later] == [result.rewards for result in together[:3]]
    errors = [result.standard_errors for result in together[:3]]
    assert [result.standard_errors for result in later] == errors
    assert None not in later[0].standard_errors
    assert [result.standard_errors for result in alone] == [[None] * 4] * 3
    assert uncalibrated.standard_errors == alone[0].standard_errors
    assert calibration.groups == 24


def test_small_groups_are_results():
    """No response, one, and failed ones give what `genrm score` gives them."""
    cases = [
        ([], []),
        (["4"], [None]),
        ([None], [None]),
        (["4", None], [None, None]),
        (["", " "], [None, None]),
        (["4", "", "It is four."], [1.83, None, 1.85]),
    ]
    for responses, rewards in cases:
        result = genrm.score(PROMPT, responses, judge="lexical", estimator="simple_tiebreaker")
        assert result.rewards == pytest.approx(rewards)
        unscored = [reward is None for reward in rewards]
        assert [score.status == "unscored" for score in result.scores] == unscored
        assert [reason is not None for reason in result.reasons] == unscored


def test_tables_of_a_settings_file_are_dictionaries():
    """Components and their total are given as in a settings file."""
    tables = {
        "components": {"win_rate": {}},
        "total": {"weights": {"genrm": 1.0, "win_rate": 0.5}},
    }
    result = genrm.score(PROMPT, ["4", "It is four."], judge="lexical", **tables)
    genrm_values, win_rates = (result.columns[name].values for name in ("genrm", "win_rate"))
    assert result.rewards == [
        rounded(base + 0.5 * rate) for base, rate in zip(genrm_values, win_rates, strict=True)
    ]


def test_failures_are_data(judge_server):
    """Unreadable replies leave rewards None, with a reason and the kind of each failure."""
    judge_server.behave(fault={"content": "Both are nice."})
    result = genrm.score(PROMPT, RESPONSES, **settings_for(judge_server, max_extra=0))
    assert result.rewards == result.advantages == result.standard_errors == [None] * 3
    assert set(result.reasons) == {Reason.INCOMPLETE}
    assert {each.failure.kind.value for each in result.failures if each.failure} == {"no_verdict"}
    assert len(result.failures) == 3


def test_what_a_server_says_is_quoted(judge_server):
    """Names of settings in an error are keywords; flags in the words of a server stay as they
    are.
    """
    said = "start vllm with --seed 1 and --model x, or drop --repeats"
    judge_server.behave(fault={"status": 400, "body": said})
    with pytest.raises(genrm.JudgeError) as raised:
        genrm.score(PROMPT, RESPONSES, **settings_for(judge_server, probe=True))
    assert said in str(raised.value)
    assert "Check model; if the server" in str(raised.value)


def test_a_limit_leaves_rewards_none(judge_server):
    """What the budget does not allow has a reason, never a number."""
    result = genrm.score(PROMPT, RESPONSES, **settings_for(judge_server, max_calls=0))
    assert result.rewards == [None] * 3
    assert all(result.reasons)


def test_a_journal_answers_the_second_call(judge_server, tmp_path):
    """With a journal nothing is asked twice."""
    journal = tmp_path / "verdicts.sqlite"
    first = genrm.score(PROMPT, RESPONSES, journal=journal, **settings_for(judge_server))
    calls = chat_calls(judge_server)
    second = genrm.score(PROMPT, RESPONSES, journal=str(journal), **settings_for(judge_server))
    assert first.rewards == second.rewards
    assert chat_calls(judge_server) == calls == 3


async def test_a_call_that_is_cancelled_leaves_equal_requests_to_others(judge_server):
    """The request that waited for it takes over, and its group lacks nothing."""
    judge_server.behave(fault={"hang": True})
    async with genrm.Scorer(**settings_for(judge_server)) as scorer:
        leaves, stays = (asyncio.ensure_future(scorer.score(PROMPT, RESPONSES)) for _ in range(2))
        await asyncio.to_thread(judge_server.wait_until, lambda stats: stats["in_flight"] == 3)
        judge_server.behave()
        leaves.cancel()
        assert None not in (await stays).rewards


async def test_a_reward_function_keeps_one_scorer_open(judge_server):
    """`open` probes the judge once, however often and from however many tasks it is called; `close`
    ends it.
    """
    scorer = genrm.Scorer(base_url=judge_server.base_url, model="m")
    await asyncio.gather(scorer.open(), scorer.open())
    probes = chat_calls(judge_server)
    await scorer.open()
    assert None not in (await scorer.score(PROMPT, RESPONSES)).rewards
    assert chat_calls(judge_server) == probes + 3
    await scorer.close()
    assert not scorer.is_open


def test_an_api_key_is_sent_and_never_shown(judge_server):
    """`api_key` goes to the judge; an error does not hold it."""
    judge_server.behave(require_key="right-key")
    settings = settings_for(judge_server, probe=True)
    assert None not in genrm.score(PROMPT, RESPONSES, api_key="right-key", **settings).rewards
    with pytest.raises(genrm.JudgeError) as raised:
        genrm.score(PROMPT, RESPONSES, api_key="wrong-key", **settings)
    assert "wrong-key" not in str(raised.value)


def test_a_wrong_setting_is_named_by_its_keyword():
    """The message names the keyword and no flag."""
    cases = [
        (
            {"judge": "lexical", "estimater": "adaptive"},
            "Scorer: unknown setting 'estimater'. Did you mean estimator?",
        ),
        (
            {"judge": "lexical", "output": "x"},
            "Scorer: the setting 'output' has no effect here",
        ),
        ({"judge": "lexical", "temperature": "hot"}, "Scorer: temperature: 'hot' is not"),
        ({"judge": "lexical", "journal": "s3://bucket/rl"}, "Scorer: journal is an S3 location"),
        ({}, "no judge given. Pass base_url and model for a real judge, or judge='lexical'"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "base_url requires model"),
    ]
    for settings, message in cases:
        with pytest.raises(genrm.UsageError) as raised:
            genrm.Scorer(**settings)
        assert str(raised.value).startswith(message)
        assert "--" not in str(raised.value)


def test_unreadable_texts_are_input_errors():
    """The message says which response cannot be read, and what was expected."""
    cases = [
        (PROMPT, "4", "the responses are 'str'; expected a list of responses."),
        (PROMPT, None, "the responses are 'NoneType'; expected a list of responses."),
        (PROMPT, ["4", 4], "response 1 is 'int': "),
        (
            {"content": PROMPT},
            ["4"],
            "the prompt is an object, expected a string or a list of messages.",
        ),
    ]
    for prompt, responses, message in cases:
        with pytest.raises(genrm.InputError) as raised:
            genrm.score(prompt, responses, judge="lexical")
        assert str(raised.value).startswith(message)


async def test_a_judge_that_goes_down_is_a_warning_and_then_a_judge_error(caplog):
    """Without the probe, requests wait for `give_up_after`, then the error is raised once, not as a
    group.
    """
    nowhere = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
    async with genrm.Scorer(**nowhere, probe=False, give_up_after=0.01) as scorer:
        with pytest.raises(genrm.JudgeError):
            await scorer.score_groups(make_groups())
    assert "the judge is down" in caplog.text


async def test_a_scorer_must_be_open():
    """A scorer that is not open yet, or closed, says how to open it; a closed one can be opened
    again.
    """
    scorer = genrm.Scorer(judge="lexical")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="is not open; use it inside `async with"):
            await scorer.score(PROMPT, RESPONSES)
        async with scorer:
            assert None not in (await scorer.score(PROMPT, RESPONSES)).rewards
            with pytest.raises(RuntimeError, match="already open"):
                await scorer.__aenter__()


async def test_a_scorer_belongs_to_its_event_loop():
    """Another loop is refused at once: connections and locks of one loop would hang in another."""
    async with genrm.Scorer(judge="lexical") as scorer:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await asyncio.to_thread(asyncio.run, scorer.score(PROMPT, RESPONSES))


async def test_an_error_of_the_iterator_is_raised_as_it_is():
    """What the caller's own generator raises comes back unwrapped."""

    def broken():
        yield from make_groups(1)
        raise KeyError("mine")

    async with genrm.Scorer(judge="lexical") as scorer:
        with pytest.raises(KeyError, match="mine"):
            await scorer.score_groups(broken())


async def test_groups_are_taken_lazily(judge_server):
    """No more groups are taken from the iterator than the calls in flight allow."""
    judge_server.behave(fault={"hang": True})
    taken = []

    def groups():
        for group in make_groups(20):
            taken.append(group)
            yield group

    async with genrm.Scorer(**settings_for(judge_server, concurrency=10)) as scorer:
        scoring = asyncio.ensure_future(scorer.score_groups(groups()))
        await asyncio.to_thread(judge_server.wait_until, lambda stats: stats["in_flight"] == 10)
        assert len(taken) == 3
        scoring.cancel()
        await asyncio.wait({scoring})


async def test_a_cancelled_call_leaves_nothing_running(judge_server):
    """A timeout around `score` cancels its requests; the scorer stays usable."""
    judge_server.behave(fault={"hang": True})
    async with genrm.Scorer(**settings_for(judge_server)) as scorer:
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scorer.score(PROMPT, RESPONSES), 0.2)
        assert asyncio.all_tasks() <= before
        judge_server.behave()
        assert None not in (await scorer.score(PROMPT, RESPONSES)).rewards


async def test_score_works_inside_a_running_loop():
    """The synchronous call works in a notebook, where a loop runs already, twice in a row; errors
    come back too.
    """
    first, second = (genrm.score(PROMPT, RESPONSES, judge="lexical") for _ in range(2))
    assert first.rewards == second.rewards
    with pytest.raises(genrm.UsageError):
        genrm.score(PROMPT, RESPONSES)


@pytest.mark.parametrize("inside_a_loop", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_interrupt_ends_the_call(judge_server, inside_a_loop):
    """Ctrl-C raises KeyboardInterrupt at once and leaves no thread and no request behind."""
    judge_server.behave(fault={"hang": True})
    call = f"genrm.score('p', ['a', 'b'], **{settings_for(judge_server)!r})"
    # A notebook's kernel leaves the usual handler of SIGINT in place while a cell runs.
    inside = (
        "async def cell():\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"    {call}\n"
        "asyncio.run(cell())"
    )
    program = "import asyncio, signal\nimport genrm_cli as genrm\n" + (
        inside if inside_a_loop else call
    )
    process = start_process(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(PACKAGE_ROOT)},
        stderr=subprocess.PIPE,
    )
    judge_server.wait_until(lambda stats: stats["in_flight"] >= 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.splitlines()[-1] == b"KeyboardInterrupt"
    judge_server.wait_until(lambda stats: stats["in_flight"] == 0)
