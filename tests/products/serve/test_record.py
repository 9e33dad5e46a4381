"""`--record`: what was served becomes files that report, export and score read."""

import random
import time

import pytest
from genrm_process import read_lines
from served import SHAPES, judge_flags, serving, texts

from genrm_cli.storage.location import is_scored_file


def scored_files(folder):
    """Return the recorded files, in the order they were begun."""
    return sorted(
        path
        for path in folder.iterdir()
        if is_scored_file(path.name) and not path.name.startswith(".")
    )


def post_groups(served, names, size=3):
    """Post groups; their replies by name."""
    return {
        name: served.group(
            id=name,
            messages=f"Why {name}?",
            responses=[{"text": text} for text in texts(size, name)],
        )
        for name in names
    }


@pytest.mark.slow
def test_served_groups_are_files_for_report_and_export(genrm, call, judge_server):
    """Groups, cohorts, compare requests and late members: each line has the reward that was
    served.
    """
    flags = ("--record", "served", "--drain", "1s", "--cohort-deadline", "0.5s")
    with serving(genrm, *judge_flags(judge_server.base_url), *flags) as served:
        replies = post_groups(served, ["one", "two"])
        early = [
            served.begin_member("co", id_, size=3, messages="Who?", text=f"{id_} " * 4)
            for id_ in "ab"
        ]
        assert [each.reply().status_code for each in early] == [200, 200]
        late = served.begin_member(
            "co", "c", size=3, messages="Who?", text="I, c, was late."
        ).json()
        response = {
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": "Yes.",
                }
            ]
        }
        served.post(
            "/compare",
            {
                "conversation_history": [{"content": "Is it?"}],
                "response_objs": [response, response],
            },
        )
        assert served.terminate() == 0
    folder = genrm.folder / "served"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    lines = [line for path in scored_files(folder) for line in read_lines(path)]
    rewards = {
        line["completion"]: line["reward"] for line in lines if isinstance(line["completion"], str)
    }
    for name, reply in replies.items():
        assert [rewards[text] for text in texts(3, name)] == reply["rewards"]
    assert rewards["I, c, was late."] == late["reward"]
    assert len(lines) == 3 + 3 + 2 + 1 + 2
    call("report", "served", "-o", "report.html").ended(0)
    call("export", "served", "--to", "trl-dpo", "-o", "pairs.jsonl").ended(0)
    assert len(read_lines(genrm.folder / "pairs.jsonl")) >= 3


@pytest.mark.slow
def test_a_killed_server_loses_no_served_group(genrm, call, judge_server):
    """The next server completes its files, without a line that was cut off; the files have no
    metrics.
    """
    flags = [
        *judge_flags(judge_server.base_url),
        "--record",
        "served",
        "--drain",
        "1s",
    ]
    with serving(genrm, *flags) as served:
        post_groups(served, ["one", "two"])
        served.kill()
    folder = genrm.folder / "served"
    for path in folder.iterdir():
        assert path.name.startswith(".")
        with path.open("ab") as file:
            file.write(b'{"prompt": "cut')
    with serving(genrm, *flags) as served:
        assert served.terminate() == 0
    assert {path.name.partition(".")[2] for path in folder.iterdir()} == {
        "scored.jsonl",
        "comparisons.jsonl",
    }
    assert len(set(rows_in(folder))) == len(rows_in(folder)) == 6
    call("report", "served", "-o", "report.html").ended(0)


@pytest.mark.slow
def test_files_are_rotated_and_whole_on_s3(genrm, judge_server, s3_bucket, s3):
    """A file never holds two groups of one name; each file appears whole, with those beside it."""
    place = f"s3://{s3_bucket.name}/rl/served/"
    environment = {
        "AWS_ACCESS_KEY_ID": "AKTEST",
        "AWS_SECRET_ACCESS_KEY": "SKTEST",
        "AWS_ENDPOINT_URL": s3,
    }
    environment["AWS_DEFAULT_REGION"] = "us-east-1"
    flags = (
        "--record",
        place,
        "--keep",
        "0.1s",
        "--drain",
        "1s",
    )
    with serving(genrm, *judge_flags(judge_server.base_url), *flags, **environment) as served:
        for number in range(3):
            given = {
                "id": "same",
                "messages": "Why?",
                "responses": [{"text": text} for text in texts(3, str(number))],
            }
            while served.post("/v1/groups", given).status_code == 409:
                time.sleep(0.02)  # the group before is still kept
        assert served.terminate() == 0
    listed = s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)["Contents"]
    names = [each["Key"].rpartition("/")[2] for each in listed]
    assert len([name for name in names if is_scored_file(name)]) == 3
    assert {name.partition(".")[2] for name in names} == {
        "scored.jsonl",
        "comparisons.jsonl",
        "metrics.json",
    }
    genrm.run("report", place, "-o", "report.html", **environment).ended(0)


@pytest.mark.slow
def test_score_agrees_with_what_was_served_once_a_thousand_comparisons_are_in(genrm, judge_server):
    """`genrm score` over the recorded lines asks nothing, and its rewards are within .2 of the
    served ones.

    The judge is as noisy as can be, and half of the groups are served after a restart, which
    continues the calibration. Earlier groups fade in a server, and not in `genrm score`; without
    fading, the largest difference is .09."""
    judge_server.behave(verdict="hash")
    generator = random.Random(7)
    size = 16
    # Within whole rings the judge's preference for a position cancels out; within a ring and a half
    # it does not.
    judge = [
        *judge_flags(judge_server.base_url),
        "--no-probe",
        "--ring-k",
        "1.5",
        "--journal",
        "serve.journal.sqlite",
    ]
    flags = [
        *judge,
        "--record",
        "served",
        "--record-every",
        "1h",
        "--drain",
        "1s",
    ]
    served_rewards = {}
    judged = 0
    for half in range(2):
        with serving(genrm, *flags) as served:
            for number in range(half * 35, half * 35 + 35):
                given = [
                    f"{number}/{place} " + "word " * generator.randrange(40)
                    for place in range(size)
                ]
                reply = served.group(
                    id=f"g{number}",
                    messages=f"Why {number}?",
                    responses=[{"text": t} for t in given],
                )
                judged += len(reply["comparisons"])
                if judged >= 1_000:
                    served_rewards |= dict(zip(given, reply["rewards"], strict=True))
            assert served.terminate() == 0
    assert len(served_rewards) > 300
    lines = [line for path in scored_files(genrm.folder / "served") for line in read_lines(path)]
    for line in lines:
        del line["reward"], line["genrm"]
    path = genrm.write("rollouts.jsonl", lines)
    asked = judge_server.stats()["requests"]
    genrm.run("score", path.name, *judge).ended(0)
    assert judge_server.stats()["requests"] == asked
    rewards = {
        line["completion"]: line["reward"]
        for line in read_lines(genrm.folder / "rollouts.scored.jsonl")
    }
    worst = max(abs(rewards[text] - reward) for text, reward in served_rewards.items())
    assert 0 < worst < 0.2


def rows_in(folder):
    """Return the completions of all recorded lines."""
    return [line["completion"] for path in scored_files(folder) for line in read_lines(path)]


def test_rounds_of_equal_responses_are_counted_once(served):
    """A round that is judged again after a kill has another name, so its name must not tell it from
    the first.
    """
    counted = []
    for _ in range(2):
        asked = [SHAPES["slime"]("rounds", n, text, 3) for n, text in enumerate(texts(3, "rounds"))]
        waiting = [served.begin(*each) for each in asked]
        assert {each.reply().status_code for each in waiting} == {200}
        lines = served.get("/metrics").text.splitlines()
        counted.append([line for line in lines if line.startswith("genrm_calibration")])
    assert counted[0] == counted[1] != []
