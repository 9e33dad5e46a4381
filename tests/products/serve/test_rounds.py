"""Rounds: what a request means where the trainer names neither its step nor, perhaps, its members;
`test_epochs.py` plays whole epochs.
"""

import pytest

from genrm_cli.products.serve.cohorts.cohort import Cohort
from genrm_cli.products.serve.cohorts.rounds import Rounds

SIZE = 3
OPEN = Cohort("g", SIZE)
CLOSED = Cohort("g", SIZE, is_closed=True)


def still_here():
    """Answer for a client that waits."""
    return False


def gone():
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
        return self.rounds.admit(digest, SIZE, self.serial, is_gone, member_id, latest=latest)

    def deliver(self, *tickets):
        """Mark tickets as answered."""
        for ticket in tickets:
            ticket.is_delivered = True


def test_an_equal_response_after_a_client_has_left_is_its_retry():
    """It gets the same ticket; a third equal one is another member."""
    ask = Requests()
    first = ask("same", is_gone=gone)
    assert ask("same") is first
    other = ask("same")
    assert other is not first


def test_a_named_member_that_waits_is_repeated():
    """The same index again is the same member, whether the client has left or not."""
    ask = Requests()
    first = ask("a", "0")
    assert ask("a", "0", gone) is first
    assert first.has_left
    assert ask("a", "0") is first
    assert not first.has_left


def test_a_forgotten_round_takes_nobody():
    """After the server has forgotten a cohort, equal responses are a new one."""
    ask = Requests()
    first = ask("a", is_gone=gone)
    assert ask("a", latest=None).round != first.round


def test_a_member_is_late_at_once_while_others_wait():
    """Siblings whose judging has not ended show that the next epoch has not begun."""
    ask = Requests()
    waiting = ask("a", "0")
    late = ask("c", "2", latest=CLOSED)
    assert late.round == waiting.round
    assert late.is_late


def test_a_held_response_whose_client_left_gives_way_to_another():
    """The step was cancelled and done again."""
    ask = Requests()
    ask.deliver(ask("a", "0"), ask("b", "1"))
    old = ask("c", "2", gone, latest=CLOSED)
    new = ask("d", "2", latest=CLOSED)
    ask("e", "0", latest=CLOSED)
    assert old.round == ""
    assert new.round == ask.rounds.round


@pytest.mark.parametrize("id_", [None, "1"])
def test_a_client_that_polls_is_there_if_it_asks_again(id_):
    """Nobody takes its seat; who comes in between is held back until it asks again, which shows
    that its round goes on, or until it is clear that the round is abandoned.
    """
    for asks_again in (True, False):
        ask = Requests()
        polling = ask("a", id_ and "0")
        polling.expect_again(still_here)
        between = ask("b", id_)
        assert not between.round
        if asks_again:
            assert ask("a", id_ and "0") is polling
        else:
            assert ask("new", id_ and "0") is not polling
            ask("new, too", id_ and "2")
        assert (between.round == polling.round) is asks_again
        assert between.round == ask.rounds.round


def test_a_client_that_left_or_asked_before_it_was_told_to_ask_again_does_not_poll():
    """The wait of a request may end later than its connection, and than the next request begins."""
    for then, has_left in ((None, True), (still_here, False)):
        ask = Requests()
        ticket = ask("a", "0", gone)
        if then is not None:
            ask("a", "0", then)
        ticket.expect_again(gone)
        assert ticket.has_left is has_left
        assert not ticket.polls


def test_a_member_that_is_held_back_and_asks_again_does_not_join_an_abandoned_round():
    """It waits on, and begins the next round with the sibling whose index the old one has."""
    ask = Requests()
    abandoned = ask("old", "0", is_gone=gone)
    held = ask("a", "1", is_gone=gone)
    assert ask("a", "1") is held
    assert not held.round
    following = ask("b", "0")
    assert held.round == following.round != abandoned.round


@pytest.mark.parametrize("id_", [None, "0"])
def test_a_reply_that_was_lost_is_not_the_next_round(id_):
    """An equal request of a client that has the answer is held back: alone, it is answered again;
    with a sibling that has another response, or with all of them, it begins the next round.
    """
    for follows in ("nobody", "another response", "all"):
        ask = Requests()
        first = [ask("a", id_), ask("b", id_ and "1"), ask("c", id_ and "2")]
        ask.deliver(*first)
        again = ask("a", id_, latest=CLOSED)
        assert not again.round
        assert id_ is None or ask("a", id_, latest=CLOSED) is again
        if follows == "nobody":
            ask.rounds.settle()
        elif follows == "another response":
            ask("d", id_ and "1", latest=CLOSED)
        else:
            ask("b", id_ and "1", latest=CLOSED)
            assert not again.round
            ask("c", id_ and "2", latest=CLOSED)
        assert (again.round == first[0].round) is (follows == "nobody")
        assert again.round == ask.rounds.round
        if follows == "nobody":
            ask.deliver(again)
            assert ask("e", id_, latest=CLOSED).round == ask.rounds.round != again.round


def test_a_held_retry_gives_way_to_another_response_of_its_member():
    """It is answered again, in its own round; the other response begins the next."""
    ask = Requests()
    first = [ask("a", "0"), ask("b", "1"), ask("c", "2")]
    ask.deliver(*first)
    again = ask("a", "0", latest=CLOSED)
    new = ask("d", "0", latest=CLOSED)
    assert again.round == first[0].round
    assert new.round == ask.rounds.round != again.round
