"""Faults around a server: its judge, its clients and itself end in the middle of things."""

import re
import time

import pytest
from served import judge_flags, serving, texts, verify_row


def verdicts(served):
    """Return the comparisons that have a verdict."""
    found = re.search(
        r'^genrm_comparisons_total\{result="verdict"\} (\S+)',
        served.get("/metrics").text,
        re.MULTILINE,
    )
    return float(found[1]) if found else 0.0


def members(served, group, places, size, **fields):
    """Send members of a cohort, each in a thread of its own."""
    given = texts(size, group)
    return [
        served.begin_member(
            group,
            place,
            **{
                "size": size,
                "messages": "Why?",
                "text": given[place],
                **fields,
            },
        )
        for place in places
    ]


@pytest.mark.slow
def test_a_killed_server_pays_for_nothing_twice(genrm, judge_server):
    """In mid-cohort, with verdicts in its journal: all clients retry, and the judge is asked once a
    comparison.
    """
    flags = [
        *judge_flags(judge_server.base_url),
        "--no-probe",
        "--strategy",
        "all_pairs",
        "--drain",
        "1s",
    ]
    with serving(genrm, *flags) as served:
        members(served, "g", range(5), 6)
        while verdicts(served) < 10:
            time.sleep(0.01)
        served.kill()
    with serving(genrm, *flags) as served:
        replies = [each.json() for each in members(served, "g", range(6), 6)]
    assert [reply["group_status"] for reply in replies] == ["scored"] * 6
    assert replies[0]["metrics"]["from_journal"] == 10
    assert judge_server.stats()["requests"] == 15


SHAPES = {
    "cohort": lambda place, text: (
        f"/v1/cohorts/c/members/{place}",
        {
            "size": 4,
            "messages": "Why?",
            "text": text,
        },
    ),
    "gym": lambda place, text: (
        "/verify",
        verify_row(place, text, _ng_task_index=3, cohort_size=4),
    ),
    "gym attempt": lambda place, text: (
        "/verify",
        verify_row(place, text, _ng_group_id="s", _ng_group_attempt=2, cohort_size=4),
    ),
    "openrlhf": lambda place, text: (
        "/openrlhf?size=4",
        {
            "query": [f"Why?{text}"],
            "prompts": ["Why?"],
            "labels": [place // 9],
        },
    ),
    "slime": lambda place, text: (
        "/slime?size=4",
        {
            "prompt": "Why?",
            "response": text,
            "label": "s",
        },
    ),
}


def reward_in(reply):
    """Return the reward in a reply of any shape."""
    found = reply.json()
    if not isinstance(found, dict):
        return found
    return found["rewards"][0] if "rewards" in found else found["reward"]


@pytest.mark.slow
def test_a_member_that_asks_again_after_a_kill_gets_the_reward_it_was_given(genrm, judge_server):
    """Half of each cohort asks again at the next server: the rewards are those of the whole cohort,
    in every shape.

    Once a new round of the same group has begun, equal responses belong to it, also after another
    kill."""
    flags = [
        *judge_flags(judge_server.base_url),
        "--no-probe",
        "--drain",
        "1s",
        "--cohort-deadline",
        "100s",
    ]
    given = texts(4, "again")

    def ask(served, places, words=given):
        waiting = {
            (name, n): served.begin(*of(n, words[n])) for name, of in SHAPES.items() for n in places
        }
        return {key: reward_in(each.reply()) for key, each in waiting.items()}

    with serving(genrm, *flags) as served:
        rewards = ask(served, range(4))
        served.kill()
    asked = judge_server.stats()["requests"]
    with serving(genrm, *flags) as served:
        assert ask(served, [2, 3]) == {
            key: reward for key, reward in rewards.items() if key[1] >= 2
        }
        assert judge_server.stats()["requests"] == asked
        other = served.post(
            "/v1/cohorts/c/members/2",
            {
                "size": 4,
                "messages": "Why?",
                "text": "another",
            },
        )
        assert other.status_code == 409
        waiting = [
            served.begin(*SHAPES["gym"](n, text))
            for n, text in [(0, "new"), (1, "new, too"), (2, given[2])]
        ]
        served.wait_for(waiting=3)
        served.kill()
    with serving(genrm, *flags) as served:
        new = ["new", "new, too", given[2], "new and last"]
        waiting = [served.begin(*SHAPES["gym"](n, text)) for n, text in enumerate(new)]
        assert [reward_in(each.reply()) for each in waiting] != [
            rewards["gym", n] for n in range(4)
        ]


@pytest.mark.slow
def test_the_built_in_judge_keeps_its_answers_over_a_kill(genrm):
    """A member that asks again gets the reward that it was given, as with any other judge."""
    with serving(genrm, "--judge", "lexical") as served:
        waiting = members(served, "kept", range(4), 4)
        rewards = [each.reply().json()["reward"] for each in waiting]
        served.kill()
    with serving(genrm, "--judge", "lexical") as served:
        again = members(served, "kept", [1, 3], 4)
        assert [each.reply().json()["reward"] for each in again] == rewards[1::2]


@pytest.mark.slow
def test_a_reward_from_fewer_members_says_so(genrm, judge_server):
    """After a kill and the end of `--keep`: two of four come again, and each shape that can says
    so.

    A member that comes late after a kill has nobody to be compared with: no reward.
    """
    flags = [
        *judge_flags(judge_server.base_url),
        "--no-probe",
        "--drain",
        "1s",
        "--cohort-deadline",
        "1s",
    ]
    with serving(genrm, *flags) as served:
        given = texts(4, "few")
        waiting = {
            (name, n): served.begin(*of(n, given[n])) for name, of in SHAPES.items() for n in (0, 1)
        }
        replies = {key: each.reply() for key, each in waiting.items()}
        assert {replies["slime", n].status_code for n in (0, 1)} == {200}
        assert {replies["cohort", n].json()["group_status"] for n in (0, 1)} == {"partial"}
        assert "2 of 4" in replies["gym", 0].json()["failure_reason"]
        assert replies["openrlhf", 0].json()["extra_logs"]["genrm_came"] == [2.0]
        served.kill()
    with serving(genrm, *flags) as served:
        late = served.post(*SHAPES["cohort"](3, given[3])).json()
        assert late["reward"] is None
        assert late["group_status"] == "failed"
        assert bool(late["reason"])
        again = served.post(*SHAPES["cohort"](1, given[1])).json()
        assert again == replies["cohort", 1].json()
        waiting = [
            served.begin(*SHAPES["slime"](n, given[n])) for n in range(4)
        ]  # those refused form a new cohort
        assert [each.reply().status_code for each in waiting] == [200] * 4


@pytest.mark.slow
def test_an_outage_costs_every_group_one_limit_and_is_over_with_the_next_request(
    genrm, start_judge
):
    """Ten groups wait for a dead judge at once: not ten times `--give-up-after`, nor once for each
    comparison.

    The first request after the judge's return is judged, and so is a group that had failed.
    """
    judge = start_judge()
    limit_s = 2
    flags = (
        "--give-up-after",
        f"{limit_s}s",
        "--retries",
        "1",
        "--drain",
        "1s",
        "--strategy",
        "all_pairs",
    )
    with serving(genrm, *judge_flags(judge.base_url), *flags) as served:
        judge.kill()
        groups = [
            {
                "id": f"g{n}",
                "messages": f"Why {n}?",
                "responses": [{"text": text} for text in texts(4)],
            }
            for n in range(10)
        ]
        waiting = [served.begin("/v1/groups", group) for group in groups]
        assert {each.json()["status"] for each in waiting} == {"failed"}
        waited = [event["waited_s"] for event in served.events() if event["event"] == "group"]
        assert (
            max(waited) < 10 * limit_s
        )  # far more where each of 60 comparisons waits for its own end
        judge.restart()
        assert [served.group(**group)["status"] for group in groups] == ["scored"] * 10
