"""Summary, last line, --json, metrics, report, export and trackers say the same of one run."""

import html
import json
import re

import pytest
from genrm_process import make_rollouts

from genrm_cli.products.tracking.log_run import tracked_run
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings import Settings
from genrm_cli.typed_json import from_json

REFUSED = {"content": "I'm sorry, but I can't help with that."}
CUT_OFF = {"content": None, "finish_reason": "length"}
BUSY = {"status": 429, "headers": {"retry-after": "0"}}
WEIGHTS = {"yes": "fine", "with care": "care", "no": "no", "unknown": "unknown"}


def numbers_in(text):
    """Return what a line says about comparisons: answered, failed, not asked."""
    counts = dict.fromkeys(("verdict", "reused", "failure", "not asked"), 0)
    for count, name in re.findall(r"([\d,]+) (verdict|reused|failure|not asked)", text):
        counts[name] = int(count.replace(",", ""))
    return counts["verdict"] + counts["reused"], counts["failure"], counts["not asked"]


@pytest.fixture
def account_of(genrm, call, judge_server):
    """Score, check that every output names the same numbers and the same word, and return them."""

    def run(words="", groups=24, size=6, **behaviour):
        judge_server.behave(**{"verdict": "hash", **behaviour})
        genrm.rollouts(groups, size)
        url = judge_server.base_url
        judges = (f'[[judge]]\nmodel = "{name}"\nbase_url = "{url}"\n' for name in ("one", "two"))
        (genrm.folder / "panel.toml").write_text("".join(judges))
        judge = () if "--config" in words else judge_server.flags
        done = call(f"score in.jsonl --json --no-probe --max-unscored 1 {words}", *judge)
        report = call("report in.scored.jsonl -o r.html --force --json").ended(0)
        rows = call("export in.scored.jsonl --to groups -o rows.jsonl --force")
        [result] = json.loads(done.out)["results"]
        [figures] = json.loads(report.out)["runs"]
        account = figures["account"]
        metrics = result["metrics"]
        assert result["account"] == account
        check_counts(genrm, done.err, account, metrics, figures["failed"]["count"])
        check_words(done.err, account, metrics, genrm.text("r.html"), rows.err)
        return account, metrics

    return run


def check_counts(genrm, err, account, metrics, failed_in_report):
    """Check the numbers of comparisons and rollouts."""
    summary = re.search(r"comparisons +([\d,]+): (.*?);", err.replace("\n" + " " * 14, " "))
    last = re.search(r"genrm: (?:done|failed): (.*)", err)
    counts = (account["answered"], sum(account["failed"].values()), account["not_asked"])
    assert numbers_in(summary[2]) == numbers_in(last[1]) == counts
    answered, failed, not_asked = counts
    assert metrics["verdicts"] + metrics["journal_hits"] == answered
    assert metrics["failures"] == failed + not_asked
    assert account["comparisons"] == int(summary[1].replace(",", "")) == sum(counts)
    records = genrm.lines("in.comparisons.jsonl")
    kinds = [each["failure"]["kind"] for each in records if each["failure"] is not None]
    assert sum(kind != "not_asked" for kind in kinds) == failed_in_report == failed
    assert account["scored"] == sum(line["reward"] is not None for line in genrm.lines())
    assert sum(account["unscored"].values()) == metrics["unscored"]
    requests = metrics["failed_requests"]
    has_many = requests["count"] > 0 and 100 * requests["count"] >= requests["of"]
    assert bool(account["failing"]) == has_many


def check_words(err, account, metrics, page, exported):
    """Check the word on the reliability, the answer to "train on it?", and the reasons."""
    said = " ".join(err.split())
    word = re.search(rf"{account['figure']} +(?:0|1)?.*?(high|fair|low|unknown)", err)
    assert word[1] == account["word"]
    assert account["interval"] == metrics["reliability_interval"]
    train = account["train"]
    because = " ".join(account["because"])
    assert bool(because) == (train != "yes")
    assert (metrics["train"], " ".join(metrics["because"])) == (train, because)
    assert f"; train on it: {train}; 2" in err
    assert f"train on it {'. '.join([train, *account['because'][:1]])}"[:-1] in said
    assert f'<div class="answer {WEIGHTS[train]}">' in page
    if account["scored"] > 0 and because:
        assert f"in.scored.jsonl: train on it: {train}. {because}" in exported
    tracked = tracked_run("in", from_json(RunRecord, metrics), Settings())
    assert (tracked.params["train_on_it"], tracked.params.get("because", "")) == (train, because)
    assert tracked.scalars["verdicts"] == metrics["verdicts"]
    if account["reliability"] is not None:
        assert f"Mean {account['figure']} {account['found']}" in page
        assert tracked.scalars["reliability/mean"] == account["reliability"]
        assert account["found"] in said
    assert all(each in said for each in account["failing"])
    told = [*account["because"], *account["failing"]]
    assert [each for each in told if html.escape(each, quote=False) not in page] == []


LISTS = "--judging listwise"
SOME_REFUSED = {"fault": REFUSED, "fault_share": 0.1}
SOME_CUT = {"fault": CUT_OFF, "fault_share": 0.15}
RUNS = [
    ("", SOME_REFUSED | {"groups": 12}),
    ("--max-calls 9", {"groups": 3, "size": 4}),
    (f"{LISTS} --repeats 2", SOME_REFUSED),
    ("", {}),
    ("", SOME_CUT),
    ("", {"fault": BUSY, "fault_share": 0.1, "fault_times": 1}),
    (f"{LISTS} --repeats 2", SOME_CUT),
    (f"{LISTS} --repeats 3", {}),
    (LISTS, {}),
    ("--config panel.toml", SOME_REFUSED),
    ("--config panel.toml --ring-k 2", {}),
    ("", {"fault": REFUSED}),
    ("", {"fault": REFUSED, "fault_share": 0.5}),
    ("--max-calls 60", {}),
    ("--max-calls 90", SOME_CUT),
    ("--both-orders", {"verdict": "by_length"}),
    ("--ring-k 3", {"verdict": "noisy:0.6"}),
    ("--compat nemo-gym", SOME_REFUSED),
    ("", {"groups": 3, "size": 3}),
    ("--estimator simple_tiebreaker --ring-k 2", {}),
]


@pytest.mark.parametrize(
    ("words", "more"),
    [*RUNS[:2], *(pytest.param(*run, marks=pytest.mark.slow) for run in RUNS[2:])],
    ids=str,
)
def test_runs_of_all_kinds_have_one_account(account_of, words, more):
    """What fails, and how it is asked, in combination."""
    account, _ = account_of(words, **more)
    assert bool(account["failed"]) == ("content" in more.get("fault", {}))
    assert account["figure"] == ("repeatability" if LISTS in words else "reliability")
    assert (account["not_asked"] > 0) == ("--max-calls" in words)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "word"), [("--ring-k 2", "low"), ("--goal best", "unknown")])
def test_a_judge_at_random_has_one_word(account_of, words, word):
    """Where verdicts chose the pairs, nobody knows the reliability."""
    assert account_of(words)[0]["word"] == word


def test_a_resumed_run_has_one_account(account_of, genrm, call_judged, judge_server):
    """Verdicts of an earlier run are reused, and count as answered."""
    genrm.rollouts(9, 6)
    judge_server.behave(verdict="hash")
    call_judged("score in.jsonl --no-probe --limit 5").ended(0)
    account, metrics = account_of(groups=9)
    assert account["answered"] == metrics["journal_hits"] + 4 * 6


def test_who_fails_most_is_masked_on_the_page(genrm, call, call_judged, judge_server):
    """A group's key may be private: the report masks it among the failures as in its lists."""
    key = "ann@example.org"
    genrm.write("in.jsonl", [{**each, "task": key} for each in make_rollouts(groups=1, size=4)])
    judge_server.behave(fault=REFUSED)
    score = "score in.jsonl --group-by task --no-probe --max-unscored 1"
    assert key in call_judged(score).err.partition("most fail")[2]
    report = call("report in.scored.jsonl -o r.html --redact-pattern email --json").ended(0)
    [run] = json.loads(report.out)["runs"]
    assert run["account"]["failing"]
    assert key not in report.out.decode() + genrm.text("r.html")
