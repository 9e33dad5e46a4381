"""Faults around a server: its judge, its clients and itself end in the middle of things."""

import statistics

import pytest
from polling import poll_until
from served import SHAPES, reward_in, serving, texts

QUICK = "--no-probe --drain 0.1s"


def rewards_of(waiting):
    """Wait for the rewards."""
    return [reward_in(each.reply()) for each in waiting]


@pytest.mark.slow
def test_a_killed_server_pays_for_nothing_twice(serve, judge_server):
    """In mid-cohort, with verdicts in its journal: all clients retry, and the judge is asked once a
    comparison.
    """
    flags = f"{QUICK} --strategy all_pairs"
    given = dict(enumerate(texts(6)))
    early = {place: given[place] for place in range(5)}
    with serve(flags) as served:
        served.begin_all("cohort", "g", early, 6)
        name = 'genrm_comparisons_total{result="verdict"}'
        poll_until(lambda: name in served.get("/metrics").text and served.metric(name) == 10)
        served.kill()
    with serve(flags) as served:
        replies = [each.json() for each in served.begin_all("cohort", "g", given, 6)]
    assert [reply["group_status"] for reply in replies] == ["scored"] * 6
    assert replies[0]["metrics"]["from_journal"] == 10
    assert judge_server.stats()["requests"] == 15


@pytest.mark.slow
def test_a_member_that_asks_again_after_a_kill_gets_the_reward_it_was_given(serve, judge_server):
    """Half of each cohort asks again at the next server: the rewards are those of the whole cohort,
    in every shape, and so is their mean where a number is required.

    Once a new round of the same group has begun, equal responses belong to it, also after another
    kill."""
    given = dict(enumerate(texts(4, "again")))
    alone = "/slime?size=1&on_failure=mean", {"prompt": "Q?", "response": "x", "label": "l"}

    def ask(served, given):
        waiting = {shape: served.begin_all(shape, "again", given, 4) for shape in SHAPES}
        return {shape: rewards_of(each) for shape, each in waiting.items()}

    with serve(QUICK) as served:
        assert served.post(*alone).json() == 3.0
        rewards = ask(served, given)
        served.kill()
    assert any("middle of the judge's scale" in line for line in served.messages)
    asked = judge_server.stats()["requests"]
    with serve(QUICK) as served:
        late = {place: given[place] for place in (2, 3)}
        assert ask(served, late) == {shape: each[2:] for shape, each in rewards.items()}
        every = [reward for each in rewards.values() for reward in each]
        assert served.post(*alone).json() == pytest.approx(statistics.fmean(every))
        assert judge_server.stats()["requests"] == asked
        [other] = served.begin_all("cohort", "again", {2: "another"}, 4)
        assert other.reply().status_code == 409
        served.begin_all("gym", "again", {0: "new", 1: "new, too", 2: given[2]}, 4)
        served.wait_for(waiting=3)
        served.kill()
    with serve(QUICK) as served:
        new = dict(enumerate(["new", "new, too", given[2], "new and last"]))
        assert rewards_of(served.begin_all("gym", "again", new, 4)) != rewards["gym"]


@pytest.mark.slow
def test_the_built_in_judge_keeps_its_answers_over_a_kill(genrm):
    """A member that asks again gets the reward that it was given, as with any other judge."""
    given = dict(enumerate(texts(4)))
    with serving(genrm, "--judge", "lexical") as served:
        rewards = rewards_of(served.begin_all("cohort", "kept", given, 4))
        served.kill()
    with serving(genrm, "--judge", "lexical") as served:
        assert rewards_of(served.begin_all("cohort", "kept", {1: given[1]}, 4)) == rewards[1:2]


@pytest.mark.slow
def test_a_reward_from_fewer_members_says_so(serve):
    """After a kill and the end of `--keep`: two of four come again, and each shape that can says
    so.

    A member that comes late after a kill has nobody to be compared with: no reward.
    """
    flags = f"{QUICK} --cohort-deadline 1s"
    given = dict(enumerate(texts(4, "few")))
    two = {place: given[place] for place in (0, 1)}
    with serve(flags) as served:
        waiting = {shape: served.begin_all(shape, "few", two, 4) for shape in SHAPES}
        replies = {shape: [each.reply() for each in found] for shape, found in waiting.items()}
        assert {reply.status_code for reply in replies["slime"]} == {200}
        assert {reply.json()["group_status"] for reply in replies["cohort"]} == {"partial"}
        assert "2 of 4" in replies["gym"][0].json()["failure_reason"]
        assert replies["openrlhf"][0].json()["extra_logs"]["genrm_came"] == [2.0]
        served.kill()
    with serve(flags) as served:
        asked = served.begin_all("cohort", "few", {3: given[3], 1: given[1]}, 4)
        late, again = (each.json() for each in asked)
        assert (late["reward"], late["group_status"]) == (None, "failed")
        assert late["reason"]
        assert again == replies["cohort"][1].json()
        anew = served.begin_all("slime", "few", given, 4)  # those refused form a new cohort
        assert [each.reply().status_code for each in anew] == [200] * 4


@pytest.mark.slow
def test_an_outage_costs_every_group_one_limit_and_is_over_with_the_next_request(
    serve, judge_server
):
    """Ten groups wait for a dead judge at once: not ten times `--give-up-after`, nor once for each
    comparison; the server is not ready.

    The first request after the judge's return is judged, and so is a group that had failed.
    """
    limit_s = 2
    flags = f"--give-up-after {limit_s}s --retries 1 --strategy all_pairs --drain 0.1s"
    with serve(flags) as served:
        assert served.get("/readyz").json() == {"status": "ready"}
        judge_server.kill()
        groups = [
            {"id": f"g{n}", "messages": f"Why {n}?", "responses": texts(4)} for n in range(10)
        ]
        waiting = [served.begin("/v1/groups", group) for group in groups]
        assert {each.json()["status"] for each in waiting} == {"failed"}
        assert served.get("/readyz").status_code == 503
        waited = [event["waited_s"] for event in served.events() if event["event"] == "group"]
        # Far more where each of 60 comparisons waits for its own end.
        assert max(waited) < 10 * limit_s
        judge_server.restart()
        assert served.get("/readyz").status_code == 200
        assert [served.group(**group)["status"] for group in groups] == ["scored"] * 10
