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
PANEL = """
[[judge]]
model = "one"
base_url = "{url}"
[[judge]]
model = "two"
base_url = "{url}"
"""
WEIGHTS = {"yes": "fine", "with care": "care", "no": "no", "unknown": "unknown"}
BUSY = {"status": 429, "headers": {"retry-after": "0"}}


def numbers_in(text):
    """Return what a line says about comparisons: answered, failed, not asked."""
    counts = dict.fromkeys(("verdict", "reused", "failure", "not asked"), 0)
    for count, name in re.findall(r"([\d,]+) (verdict|reused|failure|not asked)", text):
        counts[name] = int(count.replace(",", ""))
    return counts["verdict"] + counts["reused"], counts["failure"], counts["not asked"]


@pytest.fixture
def account_of(genrm, call, judge_server):
    """Score, and return what each output says."""

    def run(*flags, groups=24, size=6, **behaviour):
        judge_server.behave(**{"verdict": "hash", **behaviour})
        genrm.rollouts(groups, size)
        done = call("score in.jsonl --json --no-probe --max-unscored 1", *flags)
        [result] = json.loads(done.out)["results"]
        metrics = result["metrics"]
        report = call("report in.scored.jsonl -o r.html --force --json").ended(0)
        [figures] = json.loads(report.out)["runs"]
        page = genrm.text("r.html")
        rows = ("export", "in.scored.jsonl", "--to", "groups", "-o", "rows.jsonl", "--force")
        exported = call(*rows).err
        assert result["account"] == figures["account"]
        return done.err, metrics, figures, page, exported

    return run


def holds_one_account(said, genrm):
    """Check that every output names the same numbers and the same word."""
    err, metrics, figures, page, exported = said
    account = figures["account"]
    summary = re.search(r"comparisons +([\d,]+): (.*?);", err.replace("\n" + " " * 14, " "))
    last = re.search(r"genrm: (?:done|failed): (.*)", err)
    answered, failed, not_asked = numbers_in(summary[2])
    assert numbers_in(last[1]) == (answered, failed, not_asked)
    assert (account["answered"], account["not_asked"]) == (answered, not_asked)
    assert sum(account["failed"].values()) == failed
    assert metrics["verdicts"] + metrics["journal_hits"] == answered
    assert metrics["failures"] == failed + not_asked
    assert account["comparisons"] == int(summary[1].replace(",", ""))
    assert account["comparisons"] == answered + failed + not_asked
    records = genrm.lines("in.comparisons.jsonl")
    causes = [each["failure"] for each in records if each["failure"] is not None]
    without = [cause for cause in causes if cause["kind"] != "not_asked"]
    assert (len(without), figures["failed"]["count"]) == (failed, failed)
    lines = genrm.lines("in.scored.jsonl")
    assert account["scored"] == sum(line["reward"] is not None for line in lines)
    assert sum(account["unscored"].values()) == metrics["unscored"]
    word = re.search(rf"{account['figure']} +(?:0|1)?.*?(high|fair|low|unknown)", err)
    assert word[1] == account["word"]
    assert account["interval"] == metrics["reliability_interval"]
    assert bool(account["because"]) == (account["train"] != "yes")
    because = " ".join(account["because"])
    assert (metrics["train"], " ".join(metrics["because"])) == (account["train"], because)
    assert f"; train on it: {account['train']}; 2" in last[1]
    if account["scored"] > 0 and because:
        assert f"in.scored.jsonl: train on it: {account['train']}. {because}" in exported
    tracked = tracked_run("in", from_json(RunRecord, metrics), Settings())
    assert tracked.params["train_on_it"] == account["train"]
    assert tracked.params.get("because", "") == because
    assert tracked.scalars["verdicts"] == metrics["verdicts"]
    if account["reliability"] is not None:
        assert f"Mean {account['figure']} {account['found']}" in page
        assert tracked.scalars["reliability/mean"] == account["reliability"]
        assert account["found"] in " ".join(err.split())
    assert [each for each in account["because"] if html.escape(each, quote=False) not in page] == []
    summary = " ".join(err.split())
    assert all(each in summary for each in account["failing"])
    assert all(html.escape(each, quote=False) in page for each in account["failing"])
    requests = metrics["failed_requests"]
    has_many = requests["count"] > 0 and 100 * requests["count"] >= requests["of"]
    assert bool(account["failing"]) == has_many
    assert f"train on it {'. '.join([account['train'], *account['because'][:1]])}"[:-1] in summary
    assert f'<div class="answer {WEIGHTS[account["train"]]}">' in page
    return account


def test_failures_have_one_count_everywhere(account_of, genrm, judge_server):
    """Refusals are failures in each of them."""
    said = account_of(*judge_server.flags, fault=REFUSED, fault_share=0.1)
    assert holds_one_account(said, genrm)["failed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--ring-k", 2), "low"),
        (("--judging", "listwise", "--repeats", 3), None),
        (("--config", "panel.toml", "--ring-k", 2), None),
        (("--max-calls", 60), None),
        (("--goal", "best"), "unknown"),
    ],
)
def test_other_runs_have_one_account_too(account_of, genrm, judge_server, flags, word):
    """A judge at random, lists, a panel, a run that its calls ended, and pairs that verdicts
    chose.
    """
    (genrm.folder / "panel.toml").write_text(PANEL.format(url=judge_server.base_url))
    judge = () if "--config" in flags else judge_server.flags
    account = holds_one_account(account_of(*judge, *flags), genrm)
    assert word in (None, account["word"])
    assert account["figure"] == ("repeatability" if "--judging" in flags else "reliability")
    assert (account["not_asked"] > 0) == ("--max-calls" in flags)


def test_a_resumed_run_has_one_account(account_of, genrm, call, judge_server):
    """Verdicts of an earlier run are reused, and count as answered."""
    genrm.rollouts(24, 6)
    judge_server.behave(verdict="hash")
    call("score in.jsonl --no-probe --limit 5", *judge_server.flags).ended(0)
    said = account_of(*judge_server.flags)
    assert holds_one_account(said, genrm)["answered"] == said[1]["journal_hits"] + 19 * 6


LISTS = ("--judging", "listwise", "--repeats", 2)
MIXED = [
    ("refused lists", LISTS, {"fault": REFUSED, "fault_share": 0.1}),
    ("clean", (), {}),
    ("cut off", (), {"fault": CUT_OFF, "fault_share": 0.15}),
    ("busy", (), {"fault": BUSY, "fault_share": 0.1, "fault_times": 1}),
    ("cut lists", LISTS, {"fault": CUT_OFF, "fault_share": 0.15}),
    ("one order of lists", LISTS[:2], {}),
    ("refused panel", ("--config", "panel.toml"), {"fault": REFUSED, "fault_share": 0.1}),
    ("all refused", (), {"fault": REFUSED}),
    ("half refused", (), {"fault": REFUSED, "fault_share": 0.5}),
    ("cut and partial", ("--max-calls", 90), {"fault": CUT_OFF, "fault_share": 0.15}),
    ("both orders", ("--both-orders",), {"verdict": "by_length"}),
    ("noisy", ("--ring-k", 3), {"verdict": "noisy:0.6"}),
    ("Gym's numbers", ("--compat", "nemo-gym"), {"fault": REFUSED, "fault_share": 0.1}),
    ("few small groups", (), {"groups": 3, "size": 3}),
    ("Gym's estimator", ("--estimator", "simple_tiebreaker", "--ring-k", 2), {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "behaviour"), [run[1:] for run in MIXED], ids=[run[0] for run in MIXED]
)
def test_runs_of_all_kinds_have_one_account(account_of, genrm, judge_server, flags, behaviour):
    """What fails, and how it is asked, in combination."""
    (genrm.folder / "panel.toml").write_text(PANEL.format(url=judge_server.base_url))
    judge = () if "--config" in flags else judge_server.flags
    account = holds_one_account(account_of(*judge, *flags, **behaviour), genrm)
    assert bool(account["failed"]) == ("content" in behaviour.get("fault", {}))
    assert account["train"] in WEIGHTS
    assert (account["train"] == "yes") == (account["because"] == [])


def test_who_fails_most_is_masked_on_the_page(genrm, call, judge_server):
    """A group's key may be private: the report masks it among the failures as in its lists."""
    rollouts = [{**each, "task": "ann@example.org"} for each in make_rollouts(groups=1, size=4)]
    genrm.write("in.jsonl", rollouts)
    judge_server.behave(fault=REFUSED)
    flags = ("--group-by", "task", "--no-probe", "--max-unscored", 1)
    scored = call("score in.jsonl", *judge_server.flags, *flags)
    assert "ann@example.org" in scored.err.partition("most fail")[2]
    masked = ("report", "in.scored.jsonl", "-o", "r.html", "--redact-pattern", "email", "--json")
    report = call(*masked).ended(0)
    [run] = json.loads(report.out)["runs"]
    assert run["account"]["failing"]
    assert b"ann@example.org" not in report.out
    assert b"ann@example.org" not in (genrm.folder / "r.html").read_bytes()
