import json

from genrm_process import Call, Genrm, make_rollouts
from judge_server_fixture import JudgeServer


def test_the_report_of_the_sample_rollouts(genrm: Genrm, call: Call, judge_server: JudgeServer) -> None:
    """Dialects, groups, comparisons and requests are said on stdout; nobody is asked, nothing is written."""
    genrm.sample("rollouts.jsonl")
    judge = ("--base-url", judge_server.base_url, "--model", "m", "--reask", 1, "--retries", 2)
    finished = call("validate", "rollouts.jsonl", *judge, "--strategy", "all_pairs", "--repeats", 2)
    assert finished.code == 0
    report = finished.out.decode()
    comparisons = 2 * (5 * 6 + 28 + 21)  # one response of a group of eight is blank
    for text in (
        "nemo_gym (36 lines)",
        "5 of 4, 2 of 8",
        f"comparisons  {comparisons} ",
        f"at most {comparisons * 2 * 3}",
    ):
        assert text in report
    assert genrm.names() == {"rollouts.jsonl"}
    assert judge_server.stats()["requests"] == 0


def test_the_report_as_json(genrm: Genrm, call: Call) -> None:
    """--json prints the same report as one object, with every problem that it counts."""
    genrm.sample("bad-lines.jsonl")
    finished = call("validate", "bad-lines.jsonl", "--json")
    assert finished.code == 0
    report = json.loads(finished.out)
    assert (report["lines"], report["rejected_lines"], report["rollouts"]) == (17, 7, 10)
    assert (report["rollouts_without_response"], report["duplicate_rollouts"]) == (1, 1)
    assert (report["groups"], report["groups_with_mixed_prompts"]) == (4, 0)
    assert report["group_sizes"] == {"1": 2, "4": 2}
    assert report["comparisons"] == report["plan"]["calls"] == 4 + 3
    assert report["problem_count"] == len(report["problems"]) == 7 + 1


def test_a_plan_is_what_a_run_then_does(genrm: Genrm, call: Call) -> None:
    """`validate` predicts the comparisons of `score` for mixed dialects, and reads from a pipe as well."""
    data = genrm.sample("other-dialects.jsonl").read_bytes()
    plan = json.loads(call("validate", "-", "--json", stdin=data).out)
    (result,) = json.loads(call("score", "other-dialects.jsonl", "--judge", "lexical", "--json").out)["results"]
    metrics = result["metrics"]
    assert plan["comparisons"] == metrics["comparisons_planned"] == metrics["verdicts"] > 0
    for name in ("rollouts", "groups", "group_sizes", "dialects"):
        assert plan[name] == metrics[name]


def test_strict_ends_with_3_if_there_are_problems(genrm: Genrm, call: Call) -> None:
    """With --strict problems decide the exit code; the report is printed all the same."""
    genrm.sample("bad-lines.jsonl")
    genrm.write("good.jsonl", make_rollouts())
    bad = call("validate", "bad-lines.jsonl", "--strict")
    assert bad.code == 3
    assert b"line 4" in bad.out
    as_json = call("validate", "bad-lines.jsonl", "--strict", "--json")
    assert (as_json.code, json.loads(as_json.out)["rejected_lines"]) == (3, 7)
    assert "bad-lines.jsonl: 7 invalid lines and 1 duplicate rollouts, refused by --strict" in as_json.err
    assert call("validate", "good.jsonl", "--strict").code == 0


def test_long_lists_of_problems_are_cut(genrm: Genrm, call: Call) -> None:
    """Of many problems the first are named and the rest counted."""
    (genrm.folder / "in.jsonl").write_text("nonsense\n" * 250)
    finished = call("validate", "in.jsonl")
    assert b"problems     250" in finished.out
    assert b"and 230 more" in finished.out
    assert len(json.loads(call("validate", "in.jsonl", "--json").out)["problems"]) == 100


def test_an_input_that_is_not_there_ends_with_3(call: Call) -> None:
    """A missing file is said in one line."""
    finished = call("validate", "missing.jsonl")
    assert finished.code == 3
    assert len(finished.err.splitlines()) == 1


def test_quiet_leaves_the_report(genrm: Genrm, call: Call) -> None:
    """The report is the product: --quiet keeps it, and says nothing else."""
    genrm.write("in.jsonl", make_rollouts())
    finished = call("validate", "in.jsonl", "--quiet")
    assert (finished.code, finished.err) == (0, "")
    assert b"groups       2" in finished.out
