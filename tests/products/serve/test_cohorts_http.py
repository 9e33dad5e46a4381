"""The cohort endpoint over a real server with a real judge."""

import asyncio
import time

import pytest
from polling import poll_until
from served import judge_flags, serving, texts

from genrm_cli.adapters.reward_client import RewardClient


def begin(served, group, ids, size=None, given=None, **fields):
    """Send members, each in a thread of its own; the text of each is longer than that of the one
    before.
    """
    given = given or texts(len(ids), group)
    return [
        served.begin_member(
            group,
            id_,
            **{
                "size": size or len(ids),
                "messages": "Why?",
                "text": text,
                **fields,
            },
        )
        for id_, text in zip(ids, given, strict=True)
    ]


def rewards_of(waiting):
    """Wait for the rewards."""
    return [each.json()["reward"] for each in waiting]


def test_members_wait_for_their_cohort(served):
    """Each gets its own reward, and the same account of the whole cohort."""
    replies = [each.json() for each in begin(served, "whole", range(4))]
    assert [reply["id"] for reply in replies] == ["0", "1", "2", "3"]
    assert [reply["reward"] for reply in replies] == sorted(reply["reward"] for reply in replies)
    assert all(reply["members"] == ["0", "1", "2", "3"] for reply in replies)
    assert {reply["group_status"] for reply in replies} == {"scored"}


def test_a_group_id_may_have_slashes(served):
    """As in `step-1/prompt-2`, encoded or not."""
    replies = [
        each.json()
        for each in (
            *begin(served, "step/1", [0], 2, ["a"]),
            *begin(served, "step%2F1", [1], 2, ["b c"]),
        )
    ]
    assert [reply["group_id"] for reply in replies] == ["step/1"] * 2


def test_a_repeated_member_gets_the_same_answer(served, judge_server):
    """While the cohort waits and after its end, without a further call."""
    first = begin(served, "repeat", [0], 2, ["one"])
    second = begin(served, "repeat", [0], 2, ["one"])
    third = begin(served, "repeat", [1], 2, ["two and three"])
    replies = [each.json() for each in (*first, *second, *begin(served, "repeat", [0], 2, ["one"]))]
    assert replies[0] == replies[1] == replies[2]
    asked = judge_server.stats()["requests"]
    assert begin(served, "repeat", [1], 2, ["two and three"])[0].json() == third[0].json()
    assert judge_server.stats()["requests"] == asked


def test_the_deadline_scores_who_came(hurried):
    """Two of three came: both have rewards, and the cohort is partial."""
    replies = [each.json() for each in begin(hurried, "partial", ["a", "b"], 3)]
    assert {reply["group_status"] for reply in replies} == {"partial"}
    assert all(reply["members"] == ["a", "b"] and reply["reward"] is not None for reply in replies)
    assert replies[0]["metrics"]["size"] == 3


def test_a_cohort_that_nobody_joins_any_more_is_scored(genrm, judge_server):
    """Long before its deadline, `--cohort-idle` after its last member; the log and the metrics say
    how many were missing; a member that was aborted is not.
    """
    flags = ("--cohort-idle", "0.3s", "--cohort-deadline", "1h")
    with serving(genrm, *judge_flags(judge_server.base_url), *flags) as served:
        served.client.request("DELETE", "/v1/cohorts/idle/members/9?size=5")
        replies = [each.json() for each in begin(served, "idle", range(2), 5)]
        assert {reply["metrics"]["came"] for reply in replies} == {2}
        [event] = [event for event in served.events() if event["event"] == "deadline"]
        assert (event["group"], event["came"]) == ("idle", 2)
        assert "genrm_missing_members_total 2.0" in served.get("/metrics").text
        assert sum("same server" in line for line in served.messages) == 1


def test_a_group_without_any_member_is_no_group(served):
    """All are aborted: nothing stays open, and the same id may be used again."""
    for member in range(2):
        path = f"/v1/cohorts/all-aborted/members/{member}?size=2"
        reply = served.client.request("DELETE", path)
        assert reply.json() == {"group_id": "all-aborted", "id": str(member), "absent": True}
    assert None not in rewards_of(begin(served, "all-aborted", range(2)))


def test_one_member_alone_has_no_reward(hurried):
    """Nobody to compare it with: null with a reason, not a number."""
    (reply,) = [each.json() for each in begin(hurried, "alone", ["a"], 3, ["x"])]
    assert reply["reward"] is None
    assert reply["group_status"] == "failed"
    assert reply["reason"]


def test_a_late_member_is_judged_against_the_stored_group(hurried, judge_server):
    """It gets a reward of its own; those who came keep theirs, also when they ask again."""
    given = texts(3, "late")
    before = rewards_of(begin(hurried, "late", ["a", "b"], 3, given[:2]))
    judge_server.reset()
    (late,) = [each.json() for each in begin(hurried, "late", ["c"], 3, given[2:])]
    assert late["members"] == ["a", "b", "c"]
    assert late["reward"] > max(before)
    asked = [request for request in judge_server.stats()["recent"] if given[2] in str(request)]
    assert len(asked) == judge_server.stats()["requests"]
    assert rewards_of(begin(hurried, "late", ["a", "b"], 3, given[:2])) == before


def test_a_client_that_leaves_cancels_nothing(served):
    """Its cohort is scored with it, and it may ask again."""
    path = "/v1/cohorts/leaving/members/0"
    body = {
        "size": 2,
        "messages": "Why?",
        "text": "one",
    }
    served.post_and_leave(path, body, waiting=1)
    (stayed,) = begin(served, "leaving", [1], 2, ["two or three"])
    assert stayed.json()["members"] == ["0", "1"]
    assert served.post(path, body).json()["reward"] is not None


def test_a_stale_cohort_is_forgotten(genrm, judge_server):
    """After `--keep` the same id is a new cohort: a third member opens it, instead of being one too
    many.
    """
    flags = ("--keep", "0.3s", "--cohort-deadline", "0.5s")
    with serving(genrm, *judge_flags(judge_server.base_url), *flags) as served:
        assert None not in rewards_of(begin(served, "stale", [0, 1]))
        third = {"size": 2, "messages": "Why?", "text": "c"}
        while (reply := served.post("/v1/cohorts/stale/members/2", third)).status_code == 409:
            time.sleep(0.05)  # its two members are still kept
        assert reply.json()["members"] == ["2"]


async def test_any_text_is_an_id(served):
    """In the path of a member as in the body of a group; the client encodes it."""
    for id_ in [
        "a/b",
        ".",
        "..",
        "a\nb",
        "/",
        "ü ?#%2F",
        "x/members/y",
    ]:
        client = RewardClient(served.url, None, try_for_s=0.1)
        responses = [
            {"id": id_, "text": "a"},
            {"id": "b", "text": "b and c"},
        ]
        group = served.group(id=f"ids {id_}", messages="Why?", responses=responses)
        members = [
            client.score_member(id_, each["id"], 2, "Why?", each["text"]) for each in responses
        ]
        replies = await asyncio.gather(*members)
        assert [reply["id"] for reply in replies] == [id_, "b"]
        assert {reply["group_id"] for reply in replies} == {id_}
        assert [reply["reward"] for reply in replies] == pytest.approx(group["rewards"], abs=0.05)


def test_a_member_without_a_reward_is_judged_again(served, judge_server):
    """All comparisons of a cohort fail with 500: its members ask again, and get rewards."""
    judge_server.behave(script=[{"status": 500}] * 3)
    first, second, third = (rewards_of(begin(served, "failed", range(3))) for _ in range(3))
    assert first == [None] * 3
    assert None not in second
    assert third == second


def test_a_cohort_that_is_deleted_is_forgotten(served):
    """Those who wait are told; the same ids, with other texts, are a new cohort."""
    for group in ("cancelled", "z%2Fmembers%2Fy"):
        path = f"/v1/cohorts/{group}"
        (waiting,) = begin(served, group, [0], 2, ["old"])
        served.wait_for(waiting=1)
        known = served.client.request("DELETE", path).json()
        assert known["forgotten"] is True
        refused = waiting.reply()
        assert refused.status_code == 409
        assert "was deleted" in refused.text
        assert served.client.request("DELETE", path).json()["forgotten"] is False
        for _ in range(2):  # open, and answered
            assert None not in rewards_of(begin(served, group, range(2)))
            assert served.client.request("DELETE", path).json()["forgotten"] is True


def test_a_cohort_that_is_deleted_while_a_late_member_is_judged_stays_forgotten(
    hurried, judge_server
):
    """The late member's answer does not bring it back from the journal."""
    given = texts(3, "torn")
    rewards_of(begin(hurried, "torn", [0, 1], 3, given[:2]))
    judge_server.behave(latency_s=0.3)
    asked = judge_server.stats()["requests"]
    (late,) = begin(hurried, "torn", [2], 3, given[2:])
    poll_until(lambda: judge_server.stats()["requests"] > asked)
    assert hurried.client.request("DELETE", "/v1/cohorts/torn").json()["forgotten"] is True
    assert late.reply().is_success
    assert hurried.client.request("DELETE", "/v1/cohorts/torn").json()["forgotten"] is False


def test_a_trickle_of_members_does_not_hold_a_cohort_open(genrm, judge_server):
    """Each comes before `--cohort-idle` is over, and the deadline counts from the first all the
    same.
    """
    flags = ("--cohort-idle", "2s", "--cohort-deadline", "1s", "--drain", "0.1s", "--no-probe")
    with serving(genrm, *judge_flags(judge_server.base_url), *flags) as served:
        given = texts(3, "trickle")
        waiting = []
        while not waiting or not waiting[0].is_over:
            text = f"{given[len(waiting) % 3]} {len(waiting)}"
            waiting.append(
                served.begin_member("t", len(waiting), size=500, messages="Why?", text=text)
            )
            time.sleep(0.2)
        assert waiting[0].json()["group_status"] == "partial"
        assert served.client.request("DELETE", "/v1/cohorts/t").json()["forgotten"] is True
