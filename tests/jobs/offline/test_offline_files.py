"""Judging without calls: requests in files, and replies that somebody else wrote."""

import json
import random
import re
import signal
from collections.abc import Callable

import pytest
from answered_requests import Json, answer_file, openai_line, vllm_line
from batch_server import serving
from genrm_process import PACKAGE_ROOT, make_rollouts, read_lines

from genrm_cli.judging.journal import Journal

PLAIN = "--model m --profile nemotron-plain"
SCORE = f"score in.jsonl {PLAIN}"
FAILING = f"{SCORE} --max-extra 0 --max-unscored 1"
PANEL = (
    '[[judge]]\nmodel = "org/one"\nprofile = "nemotron-plain"\n[[judge]]\nmodel = '
    '"two"\nprofile = "json"\n'
)
CARE = '[components.care]\nkind = "rubric"\nset = "helpfulness"\nmodel = "two"\n'
# Options, settings, and the rounds of requests that they take.
CASES = {
    "one round": (PLAIN, "", 1),
    "both orders and repeats": (f"{PLAIN} --both-orders --repeats 2 --keep-replies", "", 1),
    "two turns": ("--model m --profile brrm", "", 2),
    "a goal": (f"{PLAIN} --goal pair --ring-k 2", "", 3),
    "a panel": ("", PANEL, 1),
    "graders": (f"{PLAIN} --component rubric:helpfulness --component genrm", "", 1),
    "a grader of its own": (f"{PLAIN} --component genrm", CARE, 1),
    "rubrics of rows": (f"{PLAIN} --rubric-field rubrics --component rubric:row", "", 1),
    "lists": ("--model m --profile rewardanything", "", 1),
    "clusters": (PLAIN, '[diversity]\nmethod = "llm"\n', 1),
    "a set": (f"{PLAIN} more.jsonl --together --goal best", "", 3),
}


@pytest.fixture
def run(call):
    """Run a command line."""
    return lambda line, *words: call(*line.split(), *words)


def write_replies(genrm, judge, name="requests.jsonl", line=vllm_line):
    """Answer a file of requests, in another order; return the option that names the file of
    replies.
    """
    requests = genrm.folder / name
    lines = answer_file(requests, judge.base_url, line)
    random.Random(1).shuffle(lines)
    name = name.replace("requests", "replies")
    genrm.write(name, lines)
    return ["--replies-from", name]


def rounds_of(run, genrm, judge, given):
    """Write requests and answer them until the outputs are there; return the number of rounds and
    the last run.
    """
    replies: list[str] = []
    for number in range(1, 12):
        finished = run(f"{given} --requests-to requests-{number}.jsonl", *replies).ended(0)
        files = sorted(genrm.folder.glob(f"requests-{number}*.jsonl"))
        if not files:
            return number - 1, finished
        line = openai_line if number % 2 else vllm_line
        replies = [each for file in files for each in write_replies(genrm, judge, file.name, line)]
    raise AssertionError("no end of rounds")


def outputs_of(genrm):
    """Return scored lines, comparisons without what only a call has, and replies by key; remove
    what the run left.
    """
    scored = b"".join(path.read_bytes() for path in sorted(genrm.folder.glob("*.scored.jsonl")))
    (comparisons,) = genrm.folder.glob("*.comparisons.jsonl")
    replies: dict[str, str] = {}
    for path in genrm.folder.glob("*.journal.sqlite"):
        with Journal(str(path), read_only=True) as journal:
            entries = (
                each
                for each in journal.iter_entries()
                if each["reply"] is not None and "chatturn" not in each["body"]
            )
            replies |= {each["key"]: each["reply"] for each in entries}
    found = scored, [{**line, "latency_s": 0} for line in read_lines(comparisons)], replies
    remove_outputs(genrm)
    return found


def remove_outputs(genrm):
    """Remove outputs and journals."""
    for kind in ("scored", "comparisons", "metrics", "journal"):
        for path in genrm.folder.glob(f"*.{kind}.*"):
            path.unlink()


_FAST = ("two turns", "a goal", "a panel", "a grader of its own")


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.slow] * (c not in _FAST)) for c in CASES]
)
def test_files_give_the_outputs_of_calls(run, genrm, judge_server, case):
    """Scored lines, comparisons and the journal's replies are those of a live run, which took no
    more requests.
    """
    options, settings, rounds = CASES[case]
    judge_server.behave(verdict="hash")
    rubrics = [
        {"criterion": "Is right.", "points": 5},
        {"criterion": "Is rude.", "points": -2},
    ]
    rollouts = [line | {"rubrics": rubrics} for line in make_rollouts(groups=3, size=4)]
    genrm.write("in.jsonl", rollouts)
    genrm.write(
        "more.jsonl", [line | {"completion": f"{line['completion']} more"} for line in rollouts]
    )
    (genrm.folder / "genrm.toml").write_text(settings)
    given = f"score in.jsonl {options} -q --config genrm.toml"
    taken, _ = rounds_of(run, genrm, judge_server, given)
    answered = judge_server.stats()["requests"]
    offline = outputs_of(genrm)
    assert b'"status":"scored"' in offline[0]
    run(f"{given} --base-url {judge_server.base_url} --no-probe").ended(0)
    assert taken == rounds
    assert outputs_of(genrm) == offline
    assert judge_server.stats()["requests"] == 2 * answered


@pytest.mark.parametrize("line", [vllm_line, openai_line])
def test_failures_in_files_are_those_of_calls(run, genrm, judge_server, line):
    """Unreadable replies, refusals and server errors have the kinds and the words of a call;
    outputs are equal.
    """
    faults = [
        {"content": "no verdict"},
        {"content": "", "finish_reason": "length"},
        {"status": 400},
        {"status": 500},
    ]
    judge_server.behave(verdict="hash", fault=faults, fault_share=0.1)
    genrm.write("in.jsonl", make_rollouts(groups=12, size=4))
    run(f"{FAILING} -q --requests-to requests.jsonl").ended(0)
    run(FAILING, *write_replies(genrm, judge_server, line=line)).ended(0)
    kinds = genrm.metrics()["failures_by_kind"]
    offline = outputs_of(genrm)
    assert set(kinds) == {"no_verdict", "truncated", "refused", "http"}
    judge_server.behave(verdict="hash", fault=faults, fault_share=0.1)
    live = f"--base-url {judge_server.base_url} --no-probe --retries 0"
    run(f"{FAILING} {live}").ended(0)
    assert outputs_of(genrm) == offline


def test_unreadable_replies_are_replaced(run, genrm, judge_server):
    """The next file has other requests in their place; its replies complete the outputs."""
    judge_server.behave(verdict="hash", fault={"content": "no verdict"}, fault_share=0.3)
    genrm.write("in.jsonl", make_rollouts(groups=4, size=4))
    run(f"{SCORE} --requests-to requests.jsonl").ended(0)
    replies = write_replies(genrm, judge_server)
    unread = [
        line["custom_id"]
        for line in read_lines(genrm.folder / "replies.jsonl")
        if line["response"]["body"]["choices"][0]["message"]["content"] == "no verdict"
    ]
    run(f"{SCORE} --requests-to requests-2.jsonl", *replies).ended(0)
    further = {line["custom_id"] for line in read_lines(genrm.folder / "requests-2.jsonl")}
    assert further.isdisjoint(unread)
    assert len(further) == len(unread) > 0
    assert not (genrm.folder / "in.scored.jsonl").exists()
    judge_server.behave(verdict="hash")
    more = write_replies(genrm, judge_server, "requests-2.jsonl")
    run(SCORE, *replies, *more).ended(0)
    assert genrm.metrics()["failures"] == len(unread)
    assert genrm.metrics()["unscored"] == 0


def test_refused_requests_are_not_asked_again(run, genrm, judge_server):
    """A server that answers 400 would do so again: the rest of the groups is scored, and no file is
    left to answer.
    """
    judge_server.behave(verdict="hash", fault={"status": 400}, fault_share=0.1)
    genrm.write("in.jsonl", make_rollouts(groups=12, size=4))
    taken, _ = rounds_of(run, genrm, judge_server, FAILING)
    assert taken == 1
    assert genrm.metrics()["failures_by_kind"].keys() == {"refused"}


def test_refused_fields_are_changed_in_later_requests(run, genrm, judge_server):
    """Each round of a reasoning model's refusals changes a field of all requests, as in a live
    run.
    """
    judge_server.behave(verdict="hash", is_reasoning_model=True)
    genrm.write("in.jsonl", make_rollouts())
    taken, last = rounds_of(run, genrm, judge_server, SCORE)
    refused = sorted({refusal.group() for refusal in re.finditer(r"m does not take \w+", last.err)})
    assert taken == 4
    assert refused == [f"m does not take {name}" for name in ("max_tokens", "temperature", "top_p")]
    fields = [line["body"].keys() for line in read_lines(genrm.folder / "requests-4.jsonl")]
    assert [set(each) for each in fields] == [{"model", "max_completion_tokens", "messages"}] * 8
    offline = outputs_of(genrm)
    run(f"{SCORE} --base-url {judge_server.base_url} --no-probe").ended(0)
    assert outputs_of(genrm) == offline


def test_refusals_of_answered_requests_change_nothing(run, genrm, judge_server):
    """A file of refusals ends no run whose verdicts in two turns are in the journal."""
    genrm.write("in.jsonl", make_rollouts())
    given = "score in.jsonl --model m --profile brrm"
    run(f"{given} --requests-to requests.jsonl").ended(0)
    judge_server.behave(is_reasoning_model=True)
    replies = write_replies(genrm, judge_server)
    judge_server.behave(is_reasoning_model=False)
    run(f"{given} --base-url {judge_server.base_url} --no-probe").ended(0)
    before = read_lines(genrm.folder / "in.scored.jsonl")
    run(f"{given} --force", *replies).ended(0)
    assert read_lines(genrm.folder / "in.scored.jsonl") == before


KILLER = """
import itertools, os, signal, sys, threading

at, calls, is_begun = int(os.environ.get("KILL_AT", 0)), itertools.count(1), []

def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith("in.jsonl"):
        is_begun.append(True)

def count(frame, event, argument):
    if event == "call" and is_begun and next(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
sys.setprofile(count)
threading.setprofile(count)
exit_at_once = os._exit
os._exit = lambda code: (print(f"calls {next(calls)}", file=sys.stderr, flush=True), exit_at_once(code))
"""  # noqa: E501


@pytest.mark.slow
def test_kills_ask_nothing_twice_and_lose_nothing(genrm, judge_server, soak_rng, tmp_path):
    """Killed at calls of chance and run again, each command leaves what it leaves without a
    kill.
    """
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(KILLER)
    judge_server.behave(verdict="hash")
    genrm.write("in.jsonl", make_rollouts(groups=6, size=4))

    def run(round_, kill_at=0):
        """Run a round; return its exit code and its calls."""
        replies = f"--replies-from replies-{round_ - 1}*.jsonl" if round_ > 1 else ""
        given = f"{SCORE} --goal pair --force {replies}"
        process = genrm.start(
            *f"{given} --requests-to requests-{round_}.jsonl".split(),
            PYTHONPATH=f"{hook}:{PACKAGE_ROOT}",
            KILL_AT=str(kill_at),
        )
        _, err = process.communicate(timeout=60)
        return process.returncode, 0 if process.returncode else int(err.rsplit(b"calls ", 1)[1])

    def go_through(calls, kills):
        """Run all rounds, each killed a few times; return the outputs, the ids of the requests, and
        the kills.
        """
        killed = round_ = 0
        ids: list[str] = []
        while True:
            round_ += 1
            for _ in range(kills):
                code, _ = run(round_, soak_rng.randint(1, calls[round_ - 1]))
                killed += code == -signal.SIGKILL
                if not code:
                    break
            else:
                code, count = run(round_)
                calls.append(count)
            assert code == 0
            files = sorted(genrm.folder.glob(f"requests-{round_}*.jsonl"))
            if not files:
                return outputs_of(genrm), sorted(ids), killed
            for path in files:
                ids += [line["custom_id"] for line in read_lines(path)]
                write_replies(genrm, judge_server, path.name)
                path.unlink()

    calls: list[int] = []
    calm = go_through(calls, 0)[:2]
    assert len(calls) == 3
    assert len(set(calm[1])) == len(calm[1])
    kills = 0
    while kills < 4:
        for path in genrm.folder.glob("replies-*"):
            path.unlink()
        *found, killed = go_through(calls, 4)
        assert tuple(found) == calm
        kills += killed
    assert genrm.names() == {"in.jsonl", *(path.name for path in genrm.folder.glob("replies-*"))}


def _torn(lines):
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)[:-40]


def _rendered(*lines):
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


REFUSED: dict[str, tuple[Callable[[list[Json]], bytes], str, int]] = {
    "foreign": (
        lambda lines: _rendered(*lines, {**lines[0], "custom_id": "0" * 64}),
        "answers no request",
        0,
    ),
    "tampered": (
        lambda lines: _rendered({**lines[0], "custom_id": "f" * 64}, *lines[1:]),
        "answers no request",
        1,
    ),
    "torn": (_torn, "cut off or damaged", 1),
    "not ours": (
        lambda lines: _rendered(*lines[1:], {**lines[0], "custom_id": "request-1"}),
        "custom_id",
        1,
    ),
    "not JSON": (lambda lines: _rendered(*lines) + b"[1]\n", "instead of an object", 0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_lines_that_are_no_reply_are_refused(run, genrm, judge_server, case):
    """Each is named with its line and the reason; the other replies count, and nothing else
    does.
    """
    genrm.write("in.jsonl", make_rollouts())
    run(f"{SCORE} --requests-to requests.jsonl").ended(0)
    write_replies(genrm, judge_server)
    spoil, reason, missing = REFUSED[case]
    path = genrm.folder / "replies.jsonl"
    path.write_bytes(spoil(read_lines(path)))
    finished = run(f"{SCORE} --replies-from replies.jsonl").ended(6 if missing else 0)
    assert "reply refused (replies.jsonl:" in finished.err
    assert reason in finished.err
    assert genrm.metrics()["verdicts"] == 8 - missing
    assert genrm.metrics()["failures_by_kind"] == ({"not_asked": missing} if missing else {})


@pytest.mark.parametrize("other", ["requests", "in", "replies-other", "missing"])
def test_a_file_without_a_reply_of_this_run_is_refused(run, genrm, judge_server, other):
    """Requests, rollouts and replies to another model's requests end the run before it writes
    anything.
    """
    genrm.write("in.jsonl", make_rollouts())
    run(f"{SCORE} --requests-to requests.jsonl").ended(0)
    run("score in.jsonl --model n --requests-to requests-other.jsonl").ended(0)
    write_replies(genrm, judge_server, "requests-other.jsonl")
    finished = run(f"{SCORE} --replies-from {other}.jsonl").ended(3)
    assert f"{other}.jsonl" in finished.err
    assert not (genrm.folder / "in.scored.jsonl").exists()


def test_replies_to_a_part_of_the_requests_are_taken(run, genrm, judge_server):
    """An input without any reply waits beside one that has all; the next file has its requests, and
    no other.
    """
    for name in "ab":
        lines = [line | {"prompt": f"{name} {line['prompt']}"} for line in make_rollouts()]
        genrm.write(f"{name}.jsonl", lines)
    for inputs in ("a.jsonl b.jsonl", "b.jsonl a.jsonl"):
        given = f"score {inputs} {PLAIN} --force"
        run(f"{given} --requests-to requests.jsonl").ended(0)
        lines = read_lines(genrm.folder / "requests.jsonl")
        genrm.write("requests.jsonl", lines[:8])
        rest = lines[8:]
        replies = write_replies(genrm, judge_server)
        run(f"{given} --requests-to more.jsonl", *replies).ended(0)
        more = read_lines(genrm.folder / "more.jsonl")
        assert [line["custom_id"] for line in more] == [line["custom_id"] for line in rest]
        assert {name for name in "ab" if f"{name}.scored.jsonl" in genrm.names()} == {inputs[0]}
        remove_outputs(genrm)
        lines = read_lines(genrm.folder / replies[1])
        genrm.write("foreign.jsonl", [{**line, "custom_id": "0" * 64} for line in lines])
        run(f"{given} --replies-from foreign.jsonl --requests-to none.jsonl").ended(3)
        assert "none.jsonl" not in genrm.names()


@pytest.mark.parametrize(
    "options",
    [
        "--requests-to x.jsonl --no-journal",
        "--requests-to x.jsonl --conclude",
        "--requests-to s3://bucket/elsewhere.jsonl",
        "--replies-from x.jsonl --requests-to ./x.jsonl",
    ],
)
def test_settings_that_contradict_files_are_refused(run, genrm, options):
    """They are refused before anything is read or written."""
    genrm.write("in.jsonl", make_rollouts())
    run(f"{SCORE} {options}").ended(2)
    assert genrm.names() == {"in.jsonl"}


def test_shards_and_sets_of_files_take_replies(run, genrm, judge_server):
    """Each shard has requests of its own, and together they give the outputs of one run over a set
    of files.
    """
    judge_server.behave(verdict="hash")
    rollouts = make_rollouts(groups=6)
    genrm.write("a.jsonl", rollouts[::2])
    genrm.write("b.jsonl", rollouts[1::2])
    given = f"score a.jsonl b.jsonl --together {PLAIN}"
    for number in range(2):
        shard = f"{given} --shard {number}/2"
        run(f"{shard} --requests-to requests-{number}.jsonl").ended(0)
        run(shard, *write_replies(genrm, judge_server, f"requests-{number}.jsonl")).ended(0)
    run(f"{given} --conclude").ended(0)
    sharded = [(genrm.folder / f"{name}.scored.jsonl").read_bytes() for name in "ab"]
    assert judge_server.stats()["requests"] == 24
    run(f"{given} --force --base-url {judge_server.base_url} --no-probe --no-journal").ended(0)
    assert [(genrm.folder / f"{name}.scored.jsonl").read_bytes() for name in "ab"] == sharded


def test_requests_and_replies_may_lie_on_s3(run, genrm, judge_server, s3_bucket):
    """Both files are objects; the next command names where the replies go."""
    genrm.write("in.jsonl", make_rollouts())
    folder = f"s3://{s3_bucket.name}/rl"
    written = run(f"{SCORE} --requests-to {folder}/requests.jsonl").ended(0)
    assert f"--replies-from {folder}/replies.jsonl" in written.err
    path = genrm.folder / "requests.jsonl"
    s3_bucket.client.download_file(s3_bucket.name, "rl/requests.jsonl", str(path))
    write_replies(genrm, judge_server)
    s3_bucket.client.upload_file(
        str(genrm.folder / "replies.jsonl"), s3_bucket.name, "rl/replies.jsonl"
    )
    run(f"{SCORE} --replies-from {folder}/replies*").ended(0)
    assert genrm.metrics()["verdicts"] == 8
    s3_bucket.client.delete_object(Bucket=s3_bucket.name, Key="rl/replies.jsonl")
    remove_outputs(genrm)
    with serving(looks=0) as server:
        for _ in range(2):  # on another machine, perhaps: the state lies beside the requests
            run(f"batch {folder}/requests*.jsonl --base-url {server.url} --wait 0").ended(0)
        assert set(server.asked.values()) == {1}
    run(f"{SCORE} --replies-from {folder}/replies*").ended(0)


def test_a_judge_is_measured_by_files(run, genrm, judge_server):
    """`genrm eval` writes requests and no result, and then the result of a live run."""
    pairs = [{"prompt": f"{n}?", "chosen": "yes, it is", "rejected": "no"} for n in range(4)]
    genrm.write("pairs.jsonl", pairs)
    given = f"eval pairs.jsonl {PLAIN}"
    run(f"{given} -o off.json --requests-to requests.jsonl").ended(0)
    assert "off.json" not in genrm.names()
    run(f"{given} -o off.json", *write_replies(genrm, judge_server)).ended(0)
    run(f"{given} -o live.json --base-url {judge_server.base_url} --no-probe").ended(0)
    live = json.loads((genrm.folder / "live.json").read_bytes())
    found = json.loads((genrm.folder / "off.json").read_bytes())
    for name in ("calls", "prompt_tokens"):
        assert found[name] == live[name]
    assert found["figures"] | {"latency_median_s": 0} == live["figures"] | {"latency_median_s": 0}
