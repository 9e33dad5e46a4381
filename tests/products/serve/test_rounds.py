"""Rounds: what a request means where the trainer names neither its step nor, perhaps, its
members.
"""

import asyncio

from genrm_cli.products.serve.cohorts.cohort import Cohort
from genrm_cli.products.serve.cohorts.rounds import Rounds

SIZE = 3
OPEN = Cohort("g", SIZE)
CLOSED = Cohort("g", SIZE, is_closed=True)


async def still_here():
    """Answer for a client that waits."""
    return False


async def gone():
    """Answer for a client that has left."""
    return True


class Requests:
    """Sends requests to the rounds of one group."""

    def __init__(self):
        self.rounds = Rounds("g")
        self.serial = 0

    def __call__(self, text, member_id=None, is_gone=still_here, *, latest=OPEN):
        """Return the ticket of a request."""
        self.serial += 1
        digest = text.encode().ljust(12, b"\0")
        asyncio.run(self.rounds.look(digest, member_id))
        return self.rounds.admit(digest, SIZE, self.serial, is_gone, member_id, latest=latest)

    def deliver(self, *tickets):
        """Mark tickets as answered."""
        for ticket in tickets:
            ticket.is_delivered = True


def test_equal_responses_of_clients_that_wait_are_different_members():
    """A policy may write the same twice; both fill the cohort."""
    ask = Requests()
    first = ask("same")
    second = ask("same")
    assert first.round == second.round
    assert first.member_id != second.member_id


def test_an_equal_response_after_a_client_has_left_is_its_retry():
    """It gets the same ticket; a third equal one is another member."""
    ask = Requests()
    first = ask("same", is_gone=gone)
    again = ask("same")
    other = ask("same")
    assert again is first
    assert other is not first


def test_a_full_round_is_followed_by_another():
    """The fourth response of three begins the next round, with a key of its own."""
    ask = Requests()
    tickets = [ask(text) for text in "abc"]
    ask.deliver(*tickets)
    following = [ask(text) for text in "abc"]
    assert len({ticket.round for ticket in tickets}) == 1
    assert {ticket.round for ticket in following}.isdisjoint(ticket.round for ticket in tickets)
    assert len({ticket.round for ticket in following}) == 1


def test_a_named_member_that_has_its_reward_begins_the_next_round():
    """NeMo Gym sends the same indices in each epoch, with equal responses or others."""
    ask = Requests()
    first = [ask("a", "0"), ask("b", "1")]
    ask.deliver(*first)
    again = ask("a", "0")
    assert again.round != first[0].round
    assert ask("c", "1").round == again.round


def test_a_named_member_that_waits_is_repeated():
    """The same index again is the same member, whether the client has left or not."""
    ask = Requests()
    first = ask("a", "0")
    assert ask("a", "0") is first
    first.has_left = True
    assert ask("a", "0") is first
    assert first.has_left is False


def test_a_cohort_that_is_dispatched_again_is_a_new_round():
    """After an accident of the trainer, the same indices come with other responses, and all clients
    have left.
    """
    ask = Requests()
    first = [ask("a", "0", gone), ask("b", "1", gone)]
    again = [ask("x", "0"), ask("b", "1"), ask("z", "2")]
    assert len({ticket.round for ticket in again}) == 1
    assert again[0].round != first[0].round


def test_a_forgotten_round_takes_nobody():
    """After the server has forgotten a cohort, equal responses are a new one."""
    ask = Requests()
    first = ask("a", is_gone=gone)
    assert ask("a", latest=None).round != first.round


def test_a_round_that_closed_short_takes_no_member_of_the_next_one():
    """Two of three came before the deadline and have their rewards: all three of the next epoch
    share a round.
    """
    ask = Requests()
    short = [ask(text) for text in "ab"]
    ask.deliver(*short)
    following = [ask("c", latest=CLOSED), ask("d"), ask("e")]
    assert short[0].round not in {ticket.round for ticket in following}
    assert len({ticket.round for ticket in following}) == 1


def test_a_named_member_that_comes_late_still_joins_its_round():
    """Its id says which round it means."""
    ask = Requests()
    ask.deliver(ask("a", "0"), ask("b", "1"))
    assert ask("c", "2", latest=CLOSED).round == ask.rounds.tickets["0"].round
