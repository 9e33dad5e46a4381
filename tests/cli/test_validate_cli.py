import json


def report_of(call, words, code=0):
    """Return the report as JSON."""
    return json.loads(call(f"validate --json {words}").ended(code).out)


def test_the_report_as_json(genrm, call):
    """--json prints the same report as one object, with every problem that it counts."""
    genrm.sample("bad-lines.jsonl")
    report = report_of(call, "bad-lines.jsonl")
    counts = {
        "lines": 17,
        "rejected_lines": 6,
        "rollouts": 11,
        "rollouts_without_response": 1,
        "duplicate_rollouts": 1,
        "groups": 4,
        "groups_with_mixed_prompts": 0,
        "group_sizes": {"1": 2, "4": 1, "5": 1},
        "comparisons": 5 + 3,
        "problem_count": 6 + 1,
    }
    assert report | counts == report
    assert report["plan"]["calls"] == 8
    assert sum(problem["count"] for problem in report["problems"]) == 7
    assert {"problem", "unit", "count", "where"} == set(report["problems"][0])


def test_a_plan_is_what_a_run_then_does(genrm, call):
    """`validate` predicts the comparisons of `score` for mixed formats, and reads from a pipe as
    well.
    """
    data = genrm.sample("other-formats.jsonl").read_bytes()
    plan = json.loads(call("validate - --json", stdin=data).out)
    call("score other-formats.jsonl --offline").ended(0)
    metrics = genrm.metrics("other-formats")
    assert plan["comparisons"] == metrics["comparisons_planned"] == metrics["verdicts"] > 0
    for name in ("rollouts", "groups", "group_sizes", "formats"):
        assert plan[name] == metrics[name]


def test_strict_ends_with_3_if_there_are_problems(genrm, call):
    """With --strict problems decide the exit code; the report is printed all the same."""
    genrm.sample("bad-lines.jsonl")
    genrm.rollouts()
    bad = call("validate bad-lines.jsonl --strict").ended(3)
    assert b"(lines 4, 7)" in bad.out
    assert "bad-lines.jsonl: 6 bad lines (line 4: not JSON" in bad.err
    assert "and 1 duplicate rollouts (line 11), refused by --strict" in bad.err
    assert report_of(call, "bad-lines.jsonl --strict", 3)["rejected_lines"] == 6
    call("validate in.jsonl --strict").ended(0)


TASK = {"role": "user", "content": "Name a river."}


def chat(reply, task="river", **fields):
    """Make a line of messages."""
    messages = [TASK, {"role": "assistant", "content": reply}]
    return {"messages": messages, "prompt_id": task, **fields}


def test_fields_are_listed_in_the_order_of_the_line(genrm, call):
    """Fields that the format does not name keep the order of the line within their role, so that
    the report is the same in every run.
    """
    references = [
        "target_text",
        "gold_label",
        "reference_notes",
        "gold_a",
        "reference_1",
        "correct_x",
    ]
    lines = [chat(text, **dict.fromkeys(references, "42")) for text in ("a b", "c d")]
    genrm.write("in.jsonl", lines)
    [reading] = report_of(call, "in.jsonl")["readings"].values()
    assert reading["roles"]["reference"] == references


def test_what_cannot_be_scored_is_said_in_json(genrm, call):
    """A program reads it beside the exit code."""
    genrm.rollouts(2, 1)
    assert report_of(call, "in.jsonl", 3)["can_be_scored"] is False


def test_a_folder_is_reported_file_by_file_and_in_total(genrm, call):
    """Each file of a folder has a line; the last lines are totals; a file that cannot be scored
    decides the code.
    """
    (genrm.folder / "runs").mkdir()
    genrm.rollouts(name="runs/a.jsonl")
    genrm.rollouts(1, name="runs/b.jsonl")
    good = call("validate runs").ended(0)
    assert good.err == ""
    out = good.out.decode()
    assert "runs/a.jsonl\n  completion; 8 rollouts in 2 groups\n  8 comparisons: 8 calls" in out
    assert "\n2 files, 0 with errors\n12 comparisons: 12 calls to make, " in out
    genrm.write("runs/c.jsonl", [{"colour": "red"}])
    mixed = call("validate runs --json").ended(3)
    report = json.loads(mixed.out)
    assert (report["exit_code"], report["files"], report["plan"]["calls"]) == (3, 3, 12)
    assert [each["can_be_scored"] for each in report["inputs"]] == [True, True, False]
    assert "runs/c.jsonl: cannot read its only line as rollouts" in mixed.err


def test_lines_of_one_unknown_shape_are_one_problem(genrm, call):
    """Its message shows the texts of the first line."""
    lines = [{"asks": f"Why is that, {n}?", "says": f"It is number {n}."} for n in range(3)]
    genrm.write("unknown.jsonl", lines)
    [problem] = report_of(call, "unknown.jsonl", 3)["problems"]
    assert problem["count"] == 3
    assert "'Why is that, 0?'" in problem["problem"]


PICTURE = [
    {"type": "text", "text": "Look."},
    {"type": "image_url", "image_url": {"url": "data:,"}},
]
UNSEEN = [
    chat("one\n" * 30),
    chat("The Volga.<|im_end|>", finish_reason="length"),
    chat("The Seine.", mask_sample=True),
    chat(PICTURE),
    chat("", "lake"),
    chat("", "lake"),
    chat("Chad.", "lake"),
]


def test_the_report_counts_what_is_not_compared(genrm, call):
    """Blank, truncated and excluded responses, media and stripped tokens; for people, in short,
    with the name of the mostly blank group.
    """
    genrm.write("in.jsonl", UNSEEN)
    report = report_of(call, "in.jsonl")
    counts = {
        "blank_responses": 2,
        "truncated_responses": 1,
        "stripped_tokens": 1,
        "excluded_reasons": {"masked (mask_sample)": 1},
        "rollouts_with_media": 1,
        "groups_mostly_blank": 1,
        "views": {"answer": 2},
    }
    assert report | counts == report
    said = call("validate in.jsonl").out.decode()
    left_out = "4: 1 excluded (masked (mask_sample)), 2 blank responses, 1 with media (--images "
    assert f"not compared {left_out}" in said
    assert "1 response truncated by a token, turn or time limit.\n" in said
    assert "view         answer in 2 groups\n" in said
    assert "  1 group: more than half of its responses are blank (prompt_id:lake)" in said


def test_score_warns_of_what_no_judge_sees(genrm, call):
    """The summary of `score` counts blank and truncated responses, exclusions and media, each
    once.
    """
    genrm.write("in.jsonl", UNSEEN)
    said = call("score in.jsonl --offline").err
    for warning in (
        "2 blank responses with nothing for the judge to see.",
        "1 response truncated by a token, turn or time limit.",
        "1 rollout unscored: excluded, for example masked (mask_sample).",
        "1 rollout unscored: it contains media that the judge cannot see, for example image",
    ):
        assert said.count(warning) == 1
    seen = call("score in.jsonl --offline --ignore-media --force").err
    assert "1 rollout compared with media that the judge does not see." in seen
