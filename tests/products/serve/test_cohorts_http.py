"""The cohort endpoint over a real server with a real judge."""

import asyncio
import time

import pytest
from polling import poll_until
from served import MEMBER, texts

from genrm_cli.adapters.reward_client import RewardClient
from genrm_cli.products.serve.cohorts.cohort import Member
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.settings import settings_from


def begin(served, group, ids, size=None, given=None):
    """Send members, each in a thread of its own; the text of each is longer than that of the one
    before.
    """
    given = given or texts(len(ids), group)
    about = {"size": size or len(ids), "messages": "Why?"}
    members = zip(ids, given, strict=True)
    return [served.begin_member(group, id_, **about, text=text) for id_, text in members]


def rewards_of(waiting):
    """Wait for the rewards."""
    return [each.json()["reward"] for each in waiting]


def test_members_wait_for_their_cohort(served):
    """Each gets its own reward, and the same account of the whole cohort; slashes of its name are
    encoded or not.
    """
    given = texts(4, "whole")
    waiting = begin(served, "step/1", range(2), 4, given[:2])
    waiting += begin(served, "step%2F1", range(2, 4), 4, given[2:])
    replies = [each.json() for each in waiting]
    ids = [reply["id"] for reply in replies]
    assert ids == ["0", "1", "2", "3"]
    assert [reply["reward"] for reply in replies] == sorted(reply["reward"] for reply in replies)
    about = {(each["group_id"], *each["members"], each["group_status"]) for each in replies}
    assert about == {("step/1", *ids, "scored")}


def test_a_repeated_member_gets_the_same_answer(served, judge_server):
    """While the cohort waits and after its end, without a further call."""
    waiting = begin(served, "repeat", [0, 0], 2, ["one"] * 2)
    waiting += begin(served, "repeat", [1], 2, ["two and three"])
    first, second, third = (each.json() for each in waiting)
    assert first == second
    asked = judge_server.stats()["requests"]
    again = begin(served, "repeat", [0, 1], 2, ["one", "two and three"])
    assert [each.json() for each in again] == [first, third]
    assert judge_server.stats()["requests"] == asked


def test_a_cohort_that_nobody_joins_any_more_is_scored(hurried):
    """Long before its deadline, `--cohort-idle` after its last member; the log and the metrics say
    how many were missing; a member that was aborted is not.
    """
    missing = hurried.metric("genrm_missing_members_total")
    hurried.client.delete("/v1/cohorts/idle/members/9?size=5")
    replies = [each.json() for each in begin(hurried, "idle", range(2), 5)]
    assert {(each["group_status"], *each["members"]) for each in replies} == {("partial", "0", "1")}
    assert None not in [reply["reward"] for reply in replies]
    assert {(each["metrics"]["came"], each["metrics"]["size"]) for each in replies} == {(2, 5)}
    deadlines = [event for event in hurried.events() if event["event"] == "deadline"]
    assert [event["came"] for event in deadlines if event["group"] == "idle"] == [2]
    assert hurried.metric("genrm_missing_members_total") == missing + 2
    poll_until(lambda: sum("same server" in line for line in hurried.messages) == 1)


def test_a_group_without_any_member_is_no_group(served):
    """All are aborted: nothing stays open, and the same id may be used again."""
    for member in range(2):
        path = f"/v1/cohorts/all-aborted/members/{member}?size=2"
        reply = served.client.delete(path)
        assert reply.json() == {"group_id": "all-aborted", "id": str(member), "absent": True}
    assert None not in rewards_of(begin(served, "all-aborted", range(2)))


def test_one_member_alone_has_no_reward(hurried):
    """Nobody to compare it with: null with a reason, not a number."""
    (reply,) = [each.json() for each in begin(hurried, "alone", ["a"], 3, ["x"])]
    assert (reply["reward"], reply["group_status"]) == (None, "failed")
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
    served.post_and_leave(path, MEMBER, waiting=1)
    [stayed] = begin(served, "leaving", [1], 2, ["two or three"])
    assert stayed.json()["members"] == ["0", "1"]
    assert served.post(path, MEMBER).json()["reward"] is not None


def test_a_stale_cohort_is_forgotten(limited):
    """After `--keep` the same id is a new cohort: a third member opens it, instead of being one too
    many.
    """
    assert None not in rewards_of(begin(limited, "stale", [0, 1]))
    path = "/v1/cohorts/stale/members/2?wait=0"
    while (reply := limited.post(path, MEMBER)).status_code == 409:
        time.sleep(0.05)  # its two members are still kept
    assert reply.status_code == 202
    limited.client.delete("/v1/cohorts/stale")


@pytest.mark.parametrize("id_", ["a/b", ".", "..", "a\nb", "/", "ü ?#%2F", "x/members/y"])
async def test_any_text_is_an_id(served, id_):
    """In the path of a member as in the body of a group; the client encodes it."""
    client = RewardClient(served.url, None, try_for_s=0.1)
    responses = [{"id": id_, "text": "a"}, {"id": "b", "text": "b and c"}]
    group = served.group(id=f"ids {id_}", messages="Why?", responses=responses)
    members = [client.score_member(id_, each["id"], 2, "Why?", each["text"]) for each in responses]
    replies = await asyncio.gather(*members)
    assert [reply["id"] for reply in replies] == [id_, "b"]
    assert {reply["group_id"] for reply in replies} == {id_}
    assert [reply["reward"] for reply in replies] == pytest.approx(group["rewards"], abs=0.05)


def test_a_cohort_that_is_deleted_is_forgotten(served):
    """Those who wait are told; the same ids, with other texts, are a new cohort."""
    for group in ("cancelled", "z%2Fmembers%2Fy"):
        path = f"/v1/cohorts/{group}"
        [waiting] = begin(served, group, [0], 2, ["old"])
        served.wait_for(waiting=1)
        assert served.client.delete(path).json()["forgotten"] is True
        refused = waiting.reply()
        assert refused.status_code == 409
        assert "was deleted" in refused.text
        assert served.client.delete(path).json()["forgotten"] is False
        for _ in range(2):  # open, and answered
            assert None not in rewards_of(begin(served, group, range(2)))
            assert served.client.delete(path).json()["forgotten"] is True


def test_a_cohort_that_is_deleted_while_a_late_member_is_judged_stays_forgotten(
    hurried, judge_server
):
    """The late member's answer does not bring it back from the journal."""
    given = texts(3, "torn")
    rewards_of(begin(hurried, "torn", [0, 1], 3, given[:2]))
    judge_server.behave(latency_s=0.3)
    asked = judge_server.stats()["requests"]
    [late] = begin(hurried, "torn", [2], 3, given[2:])
    judge_server.wait_until(lambda stats: stats["requests"] > asked)
    assert hurried.client.delete("/v1/cohorts/torn").json()["forgotten"] is True
    assert late.reply().is_success
    assert hurried.client.delete("/v1/cohorts/torn").json()["forgotten"] is False


async def test_no_trickle_of_members_holds_a_cohort_open():
    """The deadline counts from the first member, however long it may take to another one."""
    settings = settings_from(
        judge="lexical", use_journal=False, cohort_idle=3600.0, cohort_deadline=0.1
    )
    rollout = Rollout((Turn("user", "Why?"),), (Text("a"),))
    async with ServedScorer(settings, {}) as scorer:
        service = RewardService(scorer, settings.serve)
        answer = await service.join("g", 3, Member.of("a", {}, {}, rollout))
    assert answer.ids == ("a",)
