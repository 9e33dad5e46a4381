"""Every figure that people read of one run, by name and value: summary, metrics, report, export.

Eight groups of four, both orders of a ring, of which no two figures are alike: prices of 1 and 7,
one flat group, one pair that flips, one refusal, one reply that was cut off, one copy, one
response that differs from another in case only, one rollout alone, one line that is no JSON."""

import json
import re

import pytest
from genrm_here import call_here
from judge_behaviour import find_responses, render_judgement
from small_server import answering_each, completion

from genrm_cli.cli.scoring.summary import show_summary
from genrm_cli.scored.account import RunAccount
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings import settings_from
from genrm_cli.typed_json import from_json

PRICES = ("--price-in", 1, "--price-out", 7)
GROUPS = 8
FLAT, FLIPPED, REFUSED, CUT, COPIED, SHOUTED = range(6)
# Scores of the judge; by group they differ in which response is the best, and how clearly.
QUALITIES = [(5, 4, 2, 1), (1, 3, 4, 5), (4, 5, 1, 2), (2, 1, 5, 3)]


def answer(body):
    """Judge by the table: the numbers in a response say its group and its place."""
    first, second = (
        tuple(map(int, re.match(r"(\d)\.(\d)", text).groups()))
        for text in find_responses(body["messages"])
    )
    group = first[0]
    places = {first[1], second[1]}
    finish = "stop"
    scores = [QUALITIES[group % 4][each[1]] for each in (first, second)]
    ranking = 3 if scores[0] >= scores[1] else 4
    if group == FLAT:
        scores = [3, 3]
        ranking = 3.5 if places == {0, 1} else 3
    if group == FLIPPED and places == {0, 1}:
        scores = [4, 2]
        ranking = 2
    content = render_judgement((*scores, ranking), 40)
    if group == REFUSED and (first[1], second[1]) == (0, 1):
        content = "I cannot help with that."
    if group == CUT and (first[1], second[1]) == (0, 2):
        content = content[:60]
        finish = "length"
    return completion(content, finish, prompt_tokens=9_000, completion_tokens=500)


def response(group, place):
    """Return a response; its length says little of its score."""
    if (group, place) == (COPIED, 3):
        return response(group, 1)
    if (group, place) == (SHOUTED, 2):
        return response(group, 0).upper()
    marks = "**b** " * (place == 2)
    return f"{group}.{place} {marks}" + "word " * (3 + (5 * place + 3 * group) % 7)


def lines():
    """Return the input."""
    return [
        {"prompt": f"Question {group}?", "completion": response(group, place)}
        for group in range(GROUPS)
        for place in range(4)
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Score once; return what it said, and how to run further commands there."""
    folder = tmp_path_factory.mktemp("figures")
    state = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    alone = {"prompt": "Alone?", "completion": "Yes."}
    written = [*map(json.dumps, [*lines(), alone]), '{"prompt": "Cut']
    (folder / "in.jsonl").write_text("\n".join(written))

    def call(*words):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return call_here(words, state)

    with answering_each(answer) as (url, _):
        judge = ("--base-url", f"{url}/v1", "--model", "m", "--profile", "nemotron", "--no-probe")
        done = call("score", "in.jsonl", *judge, "--both-orders", *PRICES)
    return folder, done, call


SUMMARY = {
    "rollouts": "33 in 9 groups: 32 scored, 1 unscored, 1 equal to another, 1 rejected line",
    "comparisons": "66: 64 verdicts, 2 failures; 67 calls (1 retry), 636,500 tokens, # s",
    "failures": "1 no_verdict (for example: none of score_1, score_2, ranking; ends with 'I cannot "
    "help with that.'); 1 truncated (for example: cut off by the token limit: no complete object "
    "with score_1, score_2, ranking)",
    "rewards": "mean 2.991, std 0.627, from 2.023 to 4.184; all equal in 1 group",
    "length": "correlates with the reward by +0.47 (+0.16 to +0.78) within groups",
    "reliability": "0.76 (0.33 to 1.00), unknown: it may be low or high; set --ring-k to 2, or "
    "score more groups together; mostly noise in 1 of 8 groups; swapping the responses flips "
    "13.8 % of pairs",
    "cost": "0.84",
}
WARNINGS = [
    "longer responses win (correlation +0.47 within groups)",
    "1 rollout unscored: only rollout in its group",
    "1 line rejected: `genrm validate` says which and why",
]


def test_the_summary_says_every_figure(run):
    """67 calls of 9,000 tokens in and 500 out cost .8375 at 1 and 7 a million; exchanged prices
    would make it 4.25.
    """
    _, done, _ = run
    done.ended(0)
    said = re.sub(r"[0-9.]+ s$", "# s", done.err, flags=re.MULTILINE)
    rows = dict(re.findall(r"^([a-z]+) +(.*)$", said, re.MULTILINE))
    assert {name: rows[name] for name in SUMMARY} == SUMMARY
    failing = re.findall(r"\[(\d)\]: (.*?)(?:;|$)", re.search("most fail +(.*)", said)[1])
    assert failing == [
        ("0", "1 of 5 requests, cut off"),
        ("2", "1 of 5 requests, cut off"),
        ("0", "1 of 5 requests, without a verdict"),
        ("1", "1 of 5 requests, without a verdict"),
    ]
    warnings = re.findall(r"warning: (.*?)[.:] ?(?:a policy.*)?$", said, re.MULTILINE)
    assert warnings == WARNINGS
    assert "1 file: 1 scored; 64 verdicts, 2 failures, 67 calls;" in said.splitlines()[-1]


METRICS = {
    "lines": 34,
    "rollouts": 33,
    "groups": 9,
    "group_sizes": {"1": 1, "4": 8},
    "scored": 32,
    "unscored_reasons": {"alone": 1},
    "unscored_share": 0.0,
    "copies": 1,
    "comparisons_planned": 66,
    "extra_comparisons": 4,
    "verdicts": 64,
    "failures_by_kind": {"no_verdict": 1, "truncated": 1},
    "failed_requests": {"count": 2, "of": 66},
    "calls": 67,
    "retries": 1,
    "prompt_tokens": 603_000,
    "completion_tokens": 33_500,
    "mean_individual_score": 2.9609375,
    "std_individual_score": 1.43832772,
    "tiebreak_usage_rate": 0.125,
    "first_place_win_rate": 0.612903226,
    "pairs_in_both_orders": 29,
    "flip_rate": 0.137931034,
    "tie_rate": 0.03125,
    "groups_without_spread": 1,
    "groups_noisy": 1,
    "reliability_interval": [0.334579914, 1.0],
    "rings_needed": {"setting": "ring_k", "expected": 3.5, "at_best": 1.0, "at_worst": None},
    "length_effect_interval": [0.160859697, 0.7706583],
}


def test_the_metrics_file_has_every_figure(run):
    """Of 62 planned comparisons two have no verdict, and four replace them. Of the flat group, one
    pair ties in both orders; its 3 others and the reversed one are the 4 of 29 that flip.
    """
    folder, _, _ = run
    found = json.loads((folder / "in.metrics.json").read_bytes())
    assert {name: found[name] for name in METRICS} == METRICS


# Value, count and, of a share, of how many.
REPORT = {
    "rewards": (2.99144203, 32),
    "spread": (0.453521331, 8),
    "flat": (1 / 8, 1, 8),
    "reliability": (0.76203141, 8),
    "noisy": (1 / 8, 1, 8),
    "length_chars": (32.0303030, 33),
    "length_effect": (0.465758999, 7),
    "markup_effect": (-0.0329956205, 6),
    "failed": (2 / 66, 2, 66),
    "ties": (2 / 64, 2, 64),
    "first_place": (38 / 62, 38, 62),
    "flips": (4 / 29, 4, 29),
    "repeated": (2 / 33, 2, 33),
}
REASONS = [
    ("care", "The judge was not probed: nothing shows that it prefers a right answer to nonsense."),
    ("care", "All rewards are equal in 1 of 8 groups: nothing to learn there."),
    ("care", "1 response is equal to another of the group."),
    (
        "care",
        "Reward and length correlate by +0.47 (+0.16 to +0.78) within groups: longer responses "
        "win.",
    ),
    (
        "unknown",
        "Mean reliability 0.76 (0.33 to 1.00): differences between rewards may be mostly real or "
        "mostly noise; set --ring-k to 2, or score more groups together.",
    ),
    (
        "unknown",
        "The response shown first wins 38 of 62 verdicts (61.3 %, 48.8 to 72.5 %); 50 % is fair.",
    ),
    ("unknown", "4 of 29 pairs (13.8 %, 5.4 to 30.6 %) flip when the order is swapped."),
    ("fine", "1 of 33 rollouts (3.0 %, 0.5 to 15.4 %) has no reward."),
    ("fine", "2 of 66 comparisons (3.0 %, 0.8 to 10.4 %) have no verdict."),
]


def test_the_report_has_every_figure(run):
    """33 rollouts at .8375 cost 25.38 a thousand; the groups that stand out are listed by how
    much.
    """
    _, _, call = run
    made = call("report", "in.scored.jsonl", "-o", "r.html", "--json", *PRICES).ended(0)
    [found] = json.loads(made.out)["runs"]
    for name, expected in REPORT.items():
        shown = [found[name][part] for part in ("value", "count", "of") if part in found[name]]
        assert shown == pytest.approx(list(expected)), name
    low, high = found["reliability"]["low"], found["reliability"]["high"]
    assert [low, high] == pytest.approx([0.334579914, 1.0])
    assert (found["groups"], found["rollouts"], found["scored"]) == (9, 33, 32)
    assert (found["unscored"], found["not_asked"]) == ({"alone": 1}, 0)
    assert (found["probe"], found["verdicts"]) == ("skipped", 64)
    assert found["failures"] == {"no_verdict": 1, "truncated": 1}
    account = found["account"]
    assert (account["comparisons"], account["answered"], account["replaced"]) == (66, 64, 4)
    cost = found["cost"]
    del cost["wall_time_s"]
    assert cost == {
        "calls": 67,
        "prompt_tokens": 603_000,
        "completion_tokens": 33_500,
        "journal_hits": 0,
        "cost": 0.8375,
        "cost_of_1000": pytest.approx(25.3787879),
    }
    assert [(each["weight"], each["text"]) for each in found["reasons"]] == REASONS
    listed = {name: [value for _, value in of] for name, of in found["look_here"].items()}
    assert listed["lowest reliability"][:3] == pytest.approx([0.0, 0.736780826, 0.782705081])
    assert listed["strongest length effect"][:2] == pytest.approx([0.990493007, 0.917488147])
    assert listed["most failures"] == listed["most repeated responses"] == [1, 1]


MANIFEST = {
    "rollouts": 33,
    "left_out": {"alone": 1},
    "groups": 9,
    "exported_groups": 8,
    "incomplete_groups": 0,
    "rows": {"train": 30},
    "dropped": {"tie": 4, "orders_disagree": 1},
    "longer_chosen_share": 0.766667,
    "warnings": [
        "in.scored.jsonl: train on it: with care. The judge was not probed: nothing shows that it "
        "prefers a right answer to nonsense. All rewards are equal in 1 of 8 groups: nothing to "
        "learn there. 1 response is equal to another of the group. Reward and length "
        "correlate by +0.47 (+0.16 to +0.78) within groups: longer responses win. Mean reliability "
        "0.76 (0.33 to 1.00): differences between rewards may be mostly real or mostly noise; set "
        "--ring-k to 2, or score more groups together."
    ],
}
DISTRIBUTIONS = {
    ("scores", "chosen"): (30, 3.300507, 0.570622, 2.189738, 2.862632, 3.408995, 3.69901, 4.183906),
    ("scores", "rejected"): (
        *(30, 2.561111, 0.541199),
        *(2.022547, 2.116887, 2.303004, 3.064724, 3.871275),
    ),
    ("lengths_chars", "chosen"): (30, 38.533333, 9.46831, 19, 30.25, 39, 47.75, 55),
    ("lengths_chars", "rejected"): (30, 30.266667, 9.608792, 19, 24, 29, 35, 55),
    ("margins",): (30, 0.739396, 0.437948, 0.09227, 0.408854, 0.655062, 1.045762, 1.669641),
}


def test_the_manifest_has_every_figure(run):
    """Of 35 pairs that were compared, the 4 of the flat group tie and the reversed one is dropped;
    all others agree with the rewards in either order.
    """
    folder, _, call = run
    to = ("--to", "trl-dpo", "--pairs", "compared", "-o", "rows.jsonl")
    said = call("export", "in.scored.jsonl", *to).ended(0).err
    found = json.loads((folder / "rows.manifest.json").read_bytes())
    assert {name: found[name] for name in MANIFEST} == MANIFEST
    for path, expected in DISTRIBUTIONS.items():
        of = found
        for name in path:
            of = of[name]
        assert list(of) == ["count", "mean", "std", "min", "q25", "median", "q75", "max"]
        assert list(of.values()) == pytest.approx(list(expected)), path
    assert "rows: 30 train; from 33 rollouts in 9 groups" in said
    assert "longer answer chosen in 76.7 % of the pairs of unequal length" in said
    few = call("export", "in.scored.jsonl", *to, "--force", "--max-pairs-per-prompt", 1)
    assert "rows: 7 train" in few.ended(0).err


def test_the_texts_that_fail_most_come_first(run, capsys):
    """Of three texts the one with five failures is first; noisy groups are no flat ones."""
    folder, _, _ = run
    written = json.loads((folder / "in.metrics.json").read_bytes())
    failed = {"a [0]": 2, "b [1]": 5, "c [2]": 3}
    written["failing_texts"] = {
        name: {"failed": count, "of": 6, "cause": "cut off"} for name, count in failed.items()
    }
    written |= {"groups_noisy": 3, "single": 2}
    totals = from_json(RunRecord, written)
    show_summary(totals, settings_from())
    said = capsys.readouterr().err
    assert re.findall(r"([abc]) \[\d\]: (\d) of 6", said) == [("b", "5"), ("c", "3"), ("a", "2")]
    assert "mostly noise in 3 of 8 groups" in said
    assert RunAccount.of(totals).scored == 34
