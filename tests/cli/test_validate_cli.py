import json

from genrm_process import make_rollouts


def test_the_report_as_json(genrm, call):
    """--json prints the same report as one object, with every problem that it counts."""
    genrm.sample("bad-lines.jsonl")
    finished = call("validate bad-lines.jsonl --json").ended(0)
    report = json.loads(finished.out)
    assert report["lines"] == 17
    assert report["rejected_lines"] == 6
    assert report["rollouts"] == 11
    assert report["rollouts_without_response"] == 1
    assert report["duplicate_rollouts"] == 1
    assert report["groups"] == 4
    assert report["groups_with_mixed_prompts"] == 0
    assert report["group_sizes"] == {"1": 2, "4": 1, "5": 1}
    assert report["comparisons"] == report["plan"]["calls"] == 5 + 3
    assert (
        report["problem_count"] == sum(problem["count"] for problem in report["problems"]) == 6 + 1
    )
    assert {"problem", "unit", "count", "where"} == set(report["problems"][0])


def test_a_plan_is_what_a_run_then_does(genrm, call):
    """`validate` predicts the comparisons of `score` for mixed formats, and reads from a pipe as
    well.
    """
    data = genrm.sample("other-formats.jsonl").read_bytes()
    plan = json.loads(call("validate - --json", stdin=data).out)
    (result,) = json.loads(call("score other-formats.jsonl --judge lexical --json").out)["results"]
    metrics = result["metrics"]
    assert plan["comparisons"] == metrics["comparisons_planned"] == metrics["verdicts"] > 0
    for name in ("rollouts", "groups", "group_sizes", "formats"):
        assert plan[name] == metrics[name]


def test_strict_ends_with_3_if_there_are_problems(genrm, call):
    """With --strict problems decide the exit code; the report is printed all the same."""
    genrm.sample("bad-lines.jsonl")
    genrm.rollouts(name="good.jsonl")
    bad = call("validate bad-lines.jsonl --strict").ended(3)
    assert b"(lines 4, 7)" in bad.out
    as_json = call("validate bad-lines.jsonl --strict --json").ended(3)
    assert json.loads(as_json.out)["rejected_lines"] == 6
    assert "bad-lines.jsonl: 6 bad lines (line 4: not JSON" in as_json.err
    assert "and 1 duplicate rollouts (line 11), refused by --strict" in as_json.err
    call("validate good.jsonl --strict").ended(0)


ROLLOUTS = make_rollouts()

REFERENCES = ["target_text", "gold_label", "reference_notes", "gold_a", "reference_1", "correct_x"]


def test_fields_are_listed_in_the_order_of_the_line(genrm, call):
    """Fields that the format does not name keep the order of the line within their role, so that
    the report is the same in every run.
    """
    lines = [
        {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": text}]}
        | dict.fromkeys(REFERENCES, "42")
        for text in ("a b", "c d")
    ]
    genrm.write("good.jsonl", lines)
    report = json.loads(call("validate good.jsonl --json").ended(0).out)
    ((_, reading),) = report["readings"].items()
    assert reading["roles"]["reference"] == REFERENCES


def test_an_input_of_which_nothing_can_be_scored_ends_with_3(genrm, call):
    """Where a run could give no reward, the exit code is 3, and the message says why and what to
    do.
    """
    cases = {
        "empty": ([], (), "the input is empty"),
        "pairs": (
            [
                {
                    "chosen": "a",
                    "rejected": "b",
                    "prompt": "Why?",
                }
            ],
            (),
            "use `genrm eval`",
        ),
        "unknown": ([{"colour": "red"}], (), "--prompt-field"),
        "group-by": (
            ROLLOUTS,
            ("--group-by", "nope"),
            "no line has the field that --group-by names",
        ),
        "single": (
            [
                {"prompt": "1?", "completion": "a"},
                {"prompt": "2?", "completion": "b"},
            ],
            (),
            "(by prompt text) has one",
        ),
        "blank": (
            [{"prompt": "Why?", "completion": ""}] * 2,
            (),
            "no rollout has a response that can be compared",
        ),
    }
    for case, (lines, options, says) in cases.items():
        genrm.write("in.jsonl", lines)
        finished = call("validate in.jsonl", *options).ended(3)
        assert says in finished.err, case
        as_json = call("validate in.jsonl --json", *options).ended(3)
        assert json.loads(as_json.out)["can_be_scored"] is False, case


def test_a_folder_is_reported_file_by_file_and_in_total(genrm, call):
    """Each file of a folder has a line; the last lines are totals; a file that cannot be scored
    decides the code.
    """
    (genrm.folder / "runs").mkdir()
    genrm.write("runs/a.jsonl", ROLLOUTS)
    genrm.write("runs/b.jsonl", ROLLOUTS[:4])
    good = call("validate runs").ended(0)
    assert good.err == ""
    out = good.out.decode()
    assert "runs/a.jsonl\n  completion; 8 rollouts in 2 groups\n  8 comparisons: 8 calls" in out
    assert "\n2 files, 0 with errors\n12 comparisons: 12 calls to make, " in out
    genrm.write("runs/c.jsonl", [{"colour": "red"}])
    mixed = call("validate runs --json")
    report = json.loads(mixed.out)
    assert mixed.code == 3
    assert report["exit_code"] == 3
    assert report["files"] == 3
    assert report["plan"]["calls"] == 12
    assert [each["can_be_scored"] for each in report["inputs"]] == [True, True, False]
    assert "runs/c.jsonl: cannot read its only line as rollouts" in mixed.err


def test_lines_of_one_unknown_shape_are_one_problem(genrm, call):
    """Its message shows the texts of the first line."""
    lines = [{"asks": f"Why is that, {n}?", "says": f"It is number {n}."} for n in range(3)]
    genrm.write("unknown.jsonl", lines)
    (problem,) = json.loads(call("validate unknown.jsonl --json").out)["problems"]
    assert problem["count"] == 3
    assert "'Why is that, 0?'" in problem["problem"]
