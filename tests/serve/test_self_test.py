"""`genrm serve --self-test`: with a good judge, with one that is down, and against a server that
runs.
"""

import asyncio

import pytest
from served import judge_flags
from small_server import answering

from genrm_cli.catalog import SELF_TESTS
from genrm_cli.errors import GenrmError, JudgeError, UsageError
from genrm_cli.serve.self_test import TRAINERS, probe_server


def test_every_trainer_of_the_catalog_has_a_test():
    """Names that users may type, and functions behind them."""
    assert tuple(TRAINERS) == SELF_TESTS


@pytest.mark.parametrize("trainer", SELF_TESTS)
def test_a_server_that_works_passes(served, trainer):
    """Against a server that runs: each claim that holds is told."""
    claims = []
    asyncio.run(probe_server([trainer], served.url, None, claims.append))
    assert any(claim.startswith(f"{trainer}: rewards of 4 responses: ") for claim in claims)


@pytest.mark.parametrize("trainer", SELF_TESTS)
def test_what_is_no_reward_server_fails(trainer):
    """A server that answers every request with `{}` passes no test."""
    with answering(*[(200, {}, {})] * 4) as (url, _), pytest.raises(GenrmError, match="expected"):
        asyncio.run(probe_server([trainer], url, None, lambda claim: None))


@pytest.mark.slow
def test_a_server_of_its_own_keeps_nothing(genrm, judge_server):
    """It starts with the judge that is given, wants the token that is set, and writes no file."""
    ended = genrm.run(
        "serve",
        *judge_flags(judge_server.base_url),
        "--self-test",
        "all",
        GENRM_SERVE_TOKEN="a-long-token",
    ).ended(0)
    assert "ok  a refusal of another token" in ended.err
    assert [f"ok  {trainer}: rewards" in ended.err for trainer in SELF_TESTS] == [True] * len(
        SELF_TESTS
    )
    assert f"genrm: rewards reach {', '.join(SELF_TESTS)} as needed" in ended.err
    assert genrm.names() == set()
    assert not genrm.state_folder.exists()


def test_missing_rewards_are_named():
    """The error quotes the reply, which has the reason."""
    reply = {
        "rewards": [None] * 4,
        "responses": [{"reason_text": "every comparison of the rollout failed"}] * 4,
    }
    with (
        answering((200, {}, reply)) as (url, _),
        pytest.raises(JudgeError, match=r"4 of 4 responses have none.*failed"),
    ):
        asyncio.run(probe_server(["trl"], url, None, lambda claim: None))


def test_a_wrong_token_is_named(limited):
    """The error names the variable that holds it."""
    with pytest.raises(UsageError, match=r"401 .* Set GENRM_SERVE_TOKEN"):
        asyncio.run(probe_server(["trl"], limited.url, "another-one", lambda claim: None))


def test_an_unknown_trainer_is_refused(call):
    """The message lists those that are known; the option may be repeated, and each counts."""
    ended = call("serve", "--self-test", "ppo", "--self-test", "trl").ended(2)
    assert "trl, verl, openrlhf, slime, nemo-gym, all" in ended.err
