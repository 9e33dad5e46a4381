"""A judge's replies as training data for another judge: who is kept, how it is balanced, and what
the rows hold.
"""

import json
import re
from collections import Counter
from typing import Any

import pytest
from genrm_process import read_lines
from judged_lines import by_name, says, score_replies

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.products.export.balance import balanced_ties
from genrm_cli.products.export.judged import _has_scores

Json = dict[str, Any]
GROUPS = [["a1", "b1", "c1"], ["a2", "b2"], ["a3", "aa3", "b3"], ["a4", "b4", "c4"]]


def export(call, folder, to, *options):
    """Export `x.scored.jsonl`; return rows, manifest and messages."""
    flags = ("x.scored.jsonl", "--to", to, "-o", "o.jsonl", "--force", *options)
    done = call("export", *flags).ended(0)
    manifest = json.loads((folder / "o.manifest.json").read_text())
    return read_lines(folder / "o.jsonl"), manifest, done.err


def test_only_pairs_whose_orders_agree_are_kept_and_neither_position_wins_more(call, genrm):
    """A biased opinion, a missing reply and surplus ties are left out and counted; the rest has
    both orders.
    """

    def reply(first, second):
        if "b2" in (first, second):
            return says(4, 2, 2)  # whatever is shown first
        return None if (first, second) == ("b4", "a4") else by_name(first, second)

    score_replies(call, genrm.folder, [*GROUPS, ["d5", "dd5", "ddd5", "dddd5", "ddddd5"]], reply)
    rows, manifest, err = export(call, genrm.folder, "judge-sft")
    pairs = Counter(frozenset((row["first_id"], row["second_id"])) for row in rows)
    assert set(pairs.values()) == {2}
    by_outcome = Counter(row["preferred"] for row in rows)
    # Three, two and two decided pairs; eleven ties, of which as many as fit.
    assert by_outcome == {"first": 7, "second": 7, "tie": 6}
    dropped = {"balance_ties": 16, "orders_disagree": 2, "one_order": 1, "no_verdict": 1}
    assert manifest["dropped"] == dropped
    assert "7 × first, 7 × second, 6 × tie" in err
    assert any("licence" in warning for warning in manifest["warnings"])
    for row in rows:
        if row["preferred"] != "tie":
            verdict = json.loads(row["messages"][-1]["content"])
            assert (verdict["score_1"] > verdict["score_2"]) == (row["preferred"] == "first")
    assert export(call, genrm.folder, "judge-sft")[0] == rows
    assert export(call, genrm.folder, "judge-sft", "--seed", "7")[0] != rows


def test_a_row_is_a_request_as_it_was_sent_and_the_reply_to_it(call, genrm):
    """The key names the request; its messages and the reply are in the row word for word."""
    principle = ("--principle", "Prefer the alphabet.")
    score_replies(call, genrm.folder, GROUPS, by_name, *principle, "--repeats", "2")
    rows, _, _ = export(call, genrm.folder, "judge-sft", *principle, "--keep", "step")
    requests = read_lines(genrm.folder / "q.jsonl")
    asked = {line["custom_id"]: line["body"]["messages"] for line in requests}
    # Nine decided pairs, and a tie in both repeats.
    assert len({row["journal_key"] for row in rows}) == len(rows) == 4 * 9 + 4
    for row in rows:
        *request, reply = row["messages"]
        assert request == asked[row["journal_key"]]
        assert reply["role"] == "assistant"
        assert json.loads(reply["content"]).keys() == {"score_1", "score_2", "ranking"}
        assert "Prefer the alphabet." in request[0]["content"]
        assert row["step_2"] == row["step_1"]


@pytest.mark.parametrize("to", ["judge-sft", "genrm-rl"])
def test_no_prompt_is_on_both_sides_of_a_split(call, genrm, to):
    """The requests of training and validation share no question."""
    score_replies(call, genrm.folder, [[f"a{n}", f"b{n}"] for n in range(8)] + [["c3", "d3"]])
    train, manifest, _ = export(call, genrm.folder, to, "--split", "0.25")
    held = read_lines(genrm.folder / "o.validation.jsonl")
    assert manifest["rows"] == {"train": len(train), "validation": len(held)}
    sides = [set(re.findall(r"Question \d", json.dumps(rows))) for rows in (train, held)]
    assert list(map(len, sides)) == [7, 2]
    assert not sides[0] & sides[1]


def test_requests_in_roles_of_their_own_are_put_as_one_message(call, genrm):
    """Other chat templates lack the roles `response_1` and `response_2`; the reply fits the request
    in words.
    """
    score_replies(call, genrm.folder, [["a", "b"]], by_name, "--profile", "nemotron")
    rows, _, _ = export(call, genrm.folder, "judge-sft")
    roles = [[message["role"] for message in row["messages"]] for row in rows]
    assert roles == [["user", "assistant"]] * 2
    assert '"ranking": <1 to 6>' in rows[0]["messages"][0]["content"]


def test_labels_are_the_mean_of_both_orders(call, genrm):
    """Columns and types are NVIDIA's; both orders get the same scores and opposite rankings; ties
    have no ranking.
    """

    def reply(first, second):
        if first[0] == second[0]:
            return says(3, 3, 3.5)
        return says(5, 2, 1) if first < second else says(3, 4, 5)

    score_replies(call, genrm.folder, [["a", "b", "aa"]], reply, "--repeats", "2")
    rows, manifest, _ = export(call, genrm.folder, "genrm-rl")
    labels = Counter((row["score_1"], row["score_2"], row["ranking"]) for row in rows)
    assert labels == {(5, 3, 2): 2, (3, 5, 5): 2}  # (5 + 4) / 2, (2 + 3) / 2, (1 + 2) / 2
    assert manifest["unfit"] == {"the format has no ranking for a tie": 2}
    columns = "messages uuid num_responses score_1 score_2 ranking license used_in"
    assert {" ".join(row) for row in rows} == {columns}
    assert len({row["uuid"] for row in rows}) == len(rows)
    assert [[message["role"] for message in each] for each in rows[0]["messages"]] == [["user"]]


def test_a_judge_that_gives_no_scores_gives_no_labels_for_them(call, genrm):
    """A label such as [[A>B]] becomes a ranking; the scores are null, and the request asks for
    NVIDIA's form.
    """

    def label(first, second):
        return "[[A>>B]]" if first < second else "[[B>>A]]"

    score_replies(call, genrm.folder, [["a", "b"]], label, "--profile", "arena-hard")
    rows, _, _ = export(call, genrm.folder, "genrm-rl")
    labels = [(row["score_1"], row["score_2"], row["ranking"]) for row in rows]
    assert labels == [(None, None, 1), (None, None, 6)]
    assert all('"ranking": <1 to 6>' in row["messages"][0][0]["content"] for row in rows)
    rows, _, _ = export(call, genrm.folder, "judge-sft")
    assert [row["messages"][-1]["content"] for row in rows] == ["[[A>>B]]", "[[B>>A]]"]


def test_scores_are_labels_only_of_profiles_that_read_them_unchanged():
    """Those of other profiles are mapped from another scale, or stand for a label."""
    found = {name for name in PROFILES if _has_scores(PROFILES[name])}
    assert found == {"json"} | {f"nemotron{each}" for each in ("", "-boxed", "-plain", "-ultra")}


def test_ties_are_at_most_as_many_as_each_other_outcome():
    """Two decided couples have one reply more for each position, so that one tied couple fits."""
    cases = [
        ([True] * 9, 0),
        ([False] * 4 + [True] * 9, 6),
        ([False, True], 1),
        ([False, False, True], 3),
    ]
    for ties, count in cases:
        kept = balanced_ties(ties, 0)
        assert sum(kept) == count
        assert all(keep or is_tie for keep, is_tie in zip(kept, ties, strict=True))


REFUSED = {
    "other settings": (("--temperature", "0.1"), 3, "no reply in the journal to this request"),
    "another profile": (("--profile", "json"), 3, "no reply in the journal to this request"),
    "two turns": (("--profile", "brrm"), 3, "m answers in two turns"),
    "grades": (("--profile", "nemotron-principle"), 3, "m grades responses"),
    "no such journal": (("--journal", "nix.sqlite"), 3, "nix.sqlite: no such journal"),
    "options of pairs": (("--min-gap", "1"), 2, "--min-gap has no effect with --to judge-sft"),
    "no such field": (("--keep", "nix"), 2, "--keep nix: no exported line has a value there"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_exported_is_refused(call, genrm, case):
    """The message says why, and no output appears."""
    options, code, message = REFUSED[case]
    score_replies(call, genrm.folder, [["a", "b"]])
    done = call("export", "x.scored.jsonl", "--to", "judge-sft", "-o", "o.jsonl", *options)
    assert message in done.ended(code).err
    assert not (genrm.folder / "o.jsonl").exists()


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("x.journal.sqlite", "no journal with the judge's replies; name the run's journal with"),
        ("x.comparisons.jsonl", "--to genrm-rl needs its comparisons file"),
    ],
)
def test_a_run_without_its_replies_is_refused(call, genrm, lost, message):
    """The message names the file that is missing."""
    score_replies(call, genrm.folder, [["a", "b"]])
    (genrm.folder / lost).unlink()
    done = call("export", "x.scored.jsonl", "--to", "genrm-rl", "-o", "o.jsonl").ended(3)
    assert message in done.err


def test_the_baseline_teaches_nobody(call, genrm):
    """The built-in judge writes no replies."""
    genrm.sample("rollouts.jsonl")
    call("score", "rollouts.jsonl", "--offline", "-q").ended(0)
    done = call("export", "rollouts.scored.jsonl", "--to", "judge-sft", "-o", "o.jsonl").ended(3)
    assert "the built-in baseline writes no replies" in done.err


def test_rollouts_held_for_review_are_in_no_row(call, genrm):
    """Nothing that another export withholds is shown to a judge in training."""
    score_replies(call, genrm.folder, [["a", "b", "c"]])
    group = read_lines(genrm.folder / "x.scored.jsonl")[0]["genrm"]["group"]
    held = {"group": group, "index": 1, "status": "held"}
    (genrm.folder / "x.review.jsonl").write_text(json.dumps(held) + "\n")
    rows, manifest, _ = export(call, genrm.folder, "judge-sft")
    assert len(rows) == 2
    assert manifest["left_out"] == {"review_held": 1}
    assert "Response b" not in (genrm.folder / "o.jsonl").read_text()
