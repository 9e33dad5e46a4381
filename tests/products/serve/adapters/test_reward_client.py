"""The client of the adapters, against a real `genrm serve` and against servers that misbehave."""

import asyncio

import pytest
from seam_examples import run_examples
from served import texts
from small_server import answering

from genrm_cli.adapters.reward_client import (
    MissingRewardError,
    RewardClient,
    RewardServerError,
    wait_for,
)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"url": "localhost:8330"}, "url is 'localhost:8330'; expected one or several such as"),
        ({"url": None}, "url is None"),
        ({"url": ["http://127.0.0.1:1", 8330]}, "expected one or several such as http://127"),
        *(
            ({"on_failure": given}, "expected a number, 'mean' or None")
            for given in ("meen", True, [], "nan")
        ),
    ],
)
def test_a_wrong_option_is_refused_at_once(option, says):
    """Before the first group, which may be hours away."""
    with pytest.raises(ValueError, match=says):
        RewardClient(**option)


def test_the_lines_of_an_adapter_run(served):
    """The module of the client begins with the lines that an adapter needs."""
    assert run_examples(RewardClient.__module__, {"http://localhost:8330": served.url}) > 3


def test_a_group_is_scored(served):
    """Texts and messages, in order; the response that is missing has no reward."""
    short, long = texts(2, "client")
    message = [{"role": "assistant", "content": long}]
    reply = asyncio.run(
        RewardClient(served.url).score_group("Why?", [short, message, None], principle="Be long.")
    )
    assert reply["rewards"][0] < reply["rewards"][1]
    assert reply["rewards"][2] is None


@pytest.mark.slow
async def test_a_group_meets_at_one_of_several_servers(serve, served):
    """Whichever process asks, in whatever order it lists them; without its server, a group meets at
    the other one, and the groups of the other one do not move.
    """
    with serve() as other:
        both = [served.url, other.url]
        clients = [
            RewardClient(urls, move_after_s=0.0) for urls in (both, f"{both[1]}/, {both[0]}")
        ]

        async def score(group):
            members = zip(clients, "01", texts(2, group), strict=True)
            asked = [
                client.score_member(group, place, 2, "Why?", text)
                for client, place, text in members
            ]
            return [reply["metrics"]["came"] for reply in await asyncio.gather(*asked)]

        names = [f"several-{number}" for number in range(64)]
        of_both = [next(n for n in names if clients[0].url_of(n) == url) for url in both]
        for name, server in zip(of_both, (served, other), strict=True):
            assert await score(name) == [2, 2]
            assert any(event.get("group") == name for event in server.events())
        other.kill()
        for name in names:
            assert await score(name) == [2, 2]


async def test_siblings_do_not_wait_for_a_member_that_will_not_come(served):
    """They are answered when the others have come; if it comes all the same, it is judged."""
    client = RewardClient(served.url)
    *early, long = texts(3, "aborted")
    assert await client.leave_out("aborted", "2", 3)
    asked = [
        client.score_member("aborted", str(place), 3, "Why?", text)
        for place, text in enumerate(early)
    ]
    first, second = await asyncio.gather(*asked)
    assert first["reward"] < second["reward"]
    assert (first["group_status"], first["members"]) == ("partial", ["0", "1"])
    assert not await client.leave_out("aborted", "0", 3)
    resumed = await client.score_member("aborted", "2", 3, "Why?", long)
    assert resumed["reward"] > second["reward"]


def test_a_busy_server_is_asked_again():
    """After the time that it names, with the token, which is not shown."""
    soon = {"Retry-After": "0"}
    replies = ((429, soon, {}), (503, soon, {}), (200, {}, {"rewards": [1.0]}))
    with answering(*replies) as (url, seen):
        client = RewardClient(url, token="s3cret")
        assert asyncio.run(client.score_group("Why?", ["a"])) == {"rewards": [1.0]}
    assert len(seen) == 3
    assert seen[0] == seen[2]
    assert seen[0][1]["authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(client)


def test_a_page_that_is_no_reply_is_an_error_with_the_url():
    """A proxy may answer 200 with HTML; the error names the URL and quotes the page."""
    with (
        answering((200, {}, b"<html>Log in</html>")) as (url, _),
        pytest.raises(RewardServerError, match=rf"{url}/v1/groups: 200, .*'<html>Log in"),
    ):
        asyncio.run(RewardClient(url).score_group("Why?", ["a"]))


def test_a_refusal_is_an_error_at_once(served):
    """It says what the server says."""
    client = RewardClient(served.url)
    with pytest.raises(RewardServerError, match="422: messages is neither a text nor a list"):
        asyncio.run(client.score_group("", ["a", "b"]))


def test_a_server_that_is_gone_is_an_error():
    """After the time for which the client tries."""
    with answering() as (url, _):
        pass
    with pytest.raises(RewardServerError, match=r"no answer for 0\.1 s; the last: ConnectError"):
        asyncio.run(RewardClient(url, try_for_s=0.1).score_group("Why?", ["a"]))


def test_url_and_token_come_from_the_environment(monkeypatch):
    """Where the trainer has no place for them."""
    monkeypatch.setenv("GENRM_SERVE_URL", "http://10.0.0.1:1")
    monkeypatch.setenv("GENRM_SERVE_TOKEN", "t")
    assert RewardClient().url == "http://10.0.0.1:1"
    assert RewardClient().token == "t"


def test_synchronous_code_may_ask_inside_an_event_loop():
    """As in a notebook."""

    async def answer():
        return 42

    async def outer():
        return wait_for(answer())

    assert asyncio.run(outer()) == 42


def test_a_missing_reward_is_no_number_unless_the_user_says_so():
    """An error names the reason; a number or the mean of the group may stand in."""
    missing = {"id": "b", "reward": None, "reason": "incomplete", "reason_text": "no verdict"}
    responses = [{"id": "a", "reward": 4.0}, missing]
    reply = {"metrics": {"reward_mean": 4.0}, "responses": responses}
    with pytest.raises(MissingRewardError, match="'b' no reward: no verdict"):
        RewardClient().numbers_in(reply)
    mean = RewardClient(on_failure="mean")
    assert mean.numbers_in(reply) == [4.0, 4.0]
    assert RewardClient(on_failure=0).numbers_in(reply) == [4.0, 0.0]
    before = {"reward_mean": None, "reward_mean_before": 3.0}
    with pytest.raises(MissingRewardError):
        mean.number_in(missing, {**before, "unanswered": 1})
    assert mean.number_in(missing, {**before, "unanswered": 0}) == 3.0


def test_a_missing_component_is_the_mean_of_its_group():
    """It changes nobody's advantage; one that nobody has is 0 for all."""
    metrics = {"component_means": {"safety": 0.5, "style": None, "win_rate": 0.25}}
    response = {"components": {"safety": None, "style": None, "win_rate": 1.0}}
    found = RewardClient().components_in(response, metrics)
    assert found == {"safety": 0.5, "style": 0.0, "win_rate": 1.0}
