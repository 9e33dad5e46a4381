"""`--record`: what was served becomes files that report, export and score read."""

import time
from collections import Counter

import pytest
from genrm_process import read_lines
from served import gym_response, judge_flags, texts

from genrm_cli.storage.location import is_scored_file


def lines_in(folder):
    """Return the lines of all recorded files, in the order they were begun."""
    paths = sorted(path for path in folder.glob("[!.]*") if is_scored_file(path.name))
    return [line for path in paths for line in read_lines(path)]


def group(name, count=3):
    """Make a group of this name."""
    return {"id": name, "messages": f"Why {name}?", "responses": texts(count, name)}


@pytest.mark.slow
def test_served_groups_are_files_for_report_and_export(serve, genrm, call):
    """Groups, cohorts, compare requests and late members: each line has the reward that was
    served.
    """
    given = texts(3, "co")
    with serve("--record served --drain 1s --cohort-deadline 0.5s") as served:
        rewards = {name: served.group(**group(name))["rewards"] for name in ("one", "two")}
        early = served.begin_all("cohort", "co", dict(enumerate(given[:2])), 3)
        rewards["co"] = [each.json()["reward"] for each in early]
        [late] = served.begin_all("cohort", "co", {2: given[2]}, 3)
        rewards["co"].append(late.json()["reward"])
        compared = [gym_response("Yes."), gym_response("Yes.")]
        asked = {"conversation_history": [{"content": "Is it?"}], "response_objs": compared}
        served.post("/compare", asked)
        assert served.terminate() == 0
    folder = genrm.folder / "served"
    assert not list(folder.glob(".*"))
    lines = lines_in(folder)
    recorded = {str(line["completion"]): line["reward"] for line in lines}
    for name, own in rewards.items():
        assert [recorded[text] for text in texts(3, name)] == own
    assert len(lines) == 3 + 3 + 3 + 2
    call("report", "served", "-o", "report.html").ended(0)
    call("export", "served", "--to", "trl-dpo", "-o", "pairs.jsonl").ended(0)
    assert len(read_lines(genrm.folder / "pairs.jsonl")) >= 3


@pytest.mark.slow
def test_a_killed_server_loses_no_served_group(serve, genrm, call):
    """The next server completes its files, without a line that was cut off; the files have no
    metrics.
    """
    flags = "--record served --drain 1s"
    with serve(flags) as served:
        for name in ("one", "two"):
            served.group(**group(name))
        served.kill()
    folder = genrm.folder / "served"
    for path in folder.iterdir():
        assert path.name.startswith(".")
        with path.open("ab") as file:
            file.write(b'{"prompt": "cut')
    with serve(flags) as served:
        assert served.terminate() == 0
    kinds = {path.name.partition(".")[2] for path in folder.iterdir()}
    assert kinds == {"scored.jsonl", "comparisons.jsonl"}
    completions = [line["completion"] for line in lines_in(folder)]
    assert len(set(completions)) == len(completions) == 6
    call("report", "served", "-o", "report.html").ended(0)


@pytest.mark.slow
def test_files_are_rotated_and_whole_on_s3(serve, genrm, s3_bucket, aws):
    """A file never holds two groups of one name; each file appears whole, with those beside it."""
    place = f"s3://{s3_bucket.name}/rl/served/"
    with serve(f"--record {place} --keep 0.1s --drain 1s", **aws) as served:
        for number in range(3):
            given = {**group(f"same {number}"), "id": "same"}
            while served.post("/v1/groups", given).status_code == 409:
                time.sleep(0.02)  # the group before is still kept
        assert served.terminate() == 0
    listed = s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)["Contents"]
    kinds = Counter(each["Key"].rpartition("/")[2].partition(".")[2] for each in listed)
    assert set(kinds) == {"scored.jsonl", "comparisons.jsonl", "metrics.json"}
    assert kinds["scored.jsonl"] == 3
    genrm.run("report", place, "-o", "report.html", **aws).ended(0)


@pytest.mark.slow
def test_score_asks_nothing_about_what_was_served(serve, genrm, judge_server):
    """Over the recorded lines, with the journal of the server; how near its rewards are is in
    `test_running_calibration.py`.
    """
    plan = "--no-probe --journal serve.journal.sqlite"
    with serve(f"{plan} --record served --drain 1s") as served:
        for name in ("one", "two"):
            served.group(**group(name))
        assert served.terminate() == 0
    lines = lines_in(genrm.folder / "served")
    for line in lines:
        del line["reward"], line["genrm"]
    genrm.write("rollouts.jsonl", lines)
    asked = judge_server.stats()["requests"]
    flags = (*judge_flags(judge_server.base_url), *plan.split())
    genrm.run("score", "rollouts.jsonl", *flags).ended(0)
    assert judge_server.stats()["requests"] == asked


def test_rounds_of_equal_responses_are_counted_once(served):
    """A round that is judged again after a kill has another name, so its name must not tell it from
    the first.
    """
    counted = []
    for _ in range(2):
        waiting = served.begin_all("slime", "rounds", dict(enumerate(texts(3, "rounds"))), 3)
        assert {each.reply().status_code for each in waiting} == {200}
        counted.append(served.metric("genrm_calibration_comparisons"))
    assert counted[0] == counted[1] > 0
