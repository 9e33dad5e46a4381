"""One endpoint: its limit of calls in flight, its health, and its trial calls.

An endpoint is suspected when its calls fail for reasons of its own: connection, 5xx or
authentication errors in 10 calls in a row or in more than half of the last 50, or 429 or timeouts
in 50 calls in a row; when no endpoint has answered for `give_up_after`; and when one that has never
answered refuses the key, the model or the route, or has no budget left. A trial call with a
harmless prompt then decides, so that prompts that break a server do not mark it unhealthy. An
unhealthy endpoint gets one trial call at a time until one is answered."""

import asyncio
from collections import deque
from enum import Enum, auto

from msgspec import Struct, field

from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.policy import MAX_RETRY_AFTER_S

# A suspicion costs one short trial call, so these may be wrong now and then.
WINDOW = 50  # recent calls that determine the health of an endpoint
_BROKEN_IN_A_ROW = 10
_REFUSED_IN_A_ROW = 5  # with nothing in flight: a rate limit, not a lack of capacity
_LONGEST_GAP_S = 1.0  # a slow judge's next answer may be far away, and its capacity may grow


def loop_time_s() -> float:
    """Return the time by the event loop's clock, which tests run in virtual time."""
    return asyncio.get_running_loop().time()


class Ending(Enum):
    """The outcome of a call for its endpoint."""

    ANSWERED = auto()
    BUSY = auto()  # 429
    OVERLOADED = auto()  # 503: busy and broken at once
    TIMED_OUT = auto()
    BROKEN = auto()  # connection, other 5xx
    DENIED = auto()  # auth
    SPENT = auto()  # the account has no budget left
    MISSING = auto()  # unknown model or route
    REFUSED = auto()  # this request only; the endpoint works

    @property
    def shows_it_works(self) -> bool:
        """Whether it shows that the endpoint works."""
        return self in (Ending.ANSWERED, Ending.REFUSED)


_HOPELESS = (Ending.DENIED, Ending.SPENT, Ending.MISSING)


class Endpoint(Struct):
    """One endpoint and its state. Waits between trials double from `first_trial_s` to
    `last_trial_s`.

    Attributes:
        is_hopeless: whether a trial was refused because of the key, the budget, the model or the
            route, and nothing was ever answered. An endpoint that has answered may be restarting
            behind a gateway, or get another key.
    """

    name: str
    client: JudgeClient
    limit: Limit
    first_trial_s: float = 1.0
    last_trial_s: float = 30.0
    in_flight: int = 0
    down: bool = False
    _suspect: bool = False
    _failed_last: bool = False
    _recent: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _broken_in_a_row: int = 0
    _put_off_in_a_row: int = 0
    _trial_wait_s: float = 0.0
    _trial_at_s: float = 0.0
    _on_trial: bool = False
    _has_answered: bool = False
    is_hopeless: bool = False
    _rests_until_s: float = 0.0

    def is_free(self, now_s: float) -> bool:
        """Whether it may get another call."""
        return not self.down and now_s >= self._rests_until_s and self.in_flight < self.limit.limit

    def is_due(self, now_s: float) -> bool:
        """Whether the next call must be a trial."""
        if self._on_trial or now_s < self._trial_at_s:
            return False
        return self.down or (self._suspect and self.is_free(now_s))

    def rank(self) -> tuple[bool, float]:
        """Return the sort key of endpoints: recent failure, then the share of the limit in use.

        An endpoint that fails immediately is never loaded: by load alone, it would attract all
        retries."""
        return self._failed_last, self.in_flight / self.limit.limit

    def begin(self, now_s: float) -> bool:
        """Count a call that begins; return whether it is a trial."""
        on_trial = self.is_due(now_s)
        self._on_trial = self._on_trial or on_trial
        self.in_flight += 1
        return on_trial

    def cancel(self, *, on_trial: bool) -> None:
        """Uncount a call that was not made."""
        self.in_flight -= 1
        if on_trial:
            self._on_trial = False

    def end(
        self,
        ending: Ending,
        now_s: float,
        latency_s: float,
        *,
        on_trial: bool,
        retry_after_s: float | None = None,
    ) -> bool:
        """Learn from a call that ended; return whether the endpoint went down or recovered."""
        put_off = ending in (Ending.BUSY, Ending.TIMED_OUT)
        broken = not (put_off or ending.shows_it_works)
        self._has_answered = self._has_answered or ending is Ending.ANSWERED
        hopeless = ending in _HOPELESS and not self._has_answered
        self._put_off_in_a_row = self._put_off_in_a_row + 1 if put_off else 0
        self._broken_in_a_row = self._broken_in_a_row + 1 if broken else 0
        self._recent.append(broken)
        self._failed_last = not ending.shows_it_works
        self._teach_limit(ending, now_s, latency_s, retry_after_s)
        self.in_flight -= 1
        if on_trial:
            self._on_trial = False
        if on_trial or ending.shows_it_works:
            self.is_hopeless = hopeless
        if self.down or (self._suspect and on_trial):
            return self._decide(now_s, on_trial=on_trial)
        mostly_broken = broken and (
            self._broken_in_a_row >= _BROKEN_IN_A_ROW or sum(self._recent) > WINDOW / 2
        )
        # A single prompt may be refused like a key, by a firewall: a trial decides.
        is_suspicious = hopeless or mostly_broken or self._put_off_in_a_row >= WINDOW
        self._suspect = self._suspect or is_suspicious
        return False

    def mark_unhealthy(self, now_s: float) -> None:
        """Mark the endpoint down until a trial succeeds."""
        self.down = True
        self._suspect = False
        self._on_trial = False
        self._trial_wait_s = self.first_trial_s
        self._trial_at_s = now_s + self.first_trial_s

    def suspect(self) -> None:
        """Let a trial decide whether the endpoint is up."""
        self._suspect = not self.down

    def try_soon(self, *, ends_rest: bool) -> None:
        """Make the next trial `first_trial_s` after the last one, for a new request."""
        self._trial_at_s += self.first_trial_s - self._trial_wait_s
        self._trial_wait_s = self.first_trial_s
        if ends_rest:
            self._rests_until_s = 0.0

    def free_in_s(self, now_s: float) -> float:
        """Return the seconds until a trial is due or a rest ends; 0 if there is nothing to wait
        for.
        """
        return max(0.0, self._rests_until_s - now_s, self._trial_at_s - now_s if self.down else 0.0)

    def _teach_limit(
        self, ending: Ending, now_s: float, latency_s: float, retry_after_s: float | None
    ) -> None:
        if ending is Ending.ANSWERED:
            self.limit.on_answer(now_s, latency_s, self.in_flight)
        elif ending is Ending.TIMED_OUT:
            self.limit.on_timeout(now_s)
        elif ending in (Ending.BUSY, Ending.OVERLOADED):
            if self.limit.on_refusal(now_s, self.in_flight):
                # A finished call makes room for the next one; a token bucket refills in the same
                # time.
                self._rest_until(now_s + min(_LONGEST_GAP_S, self.limit.answer_gap_s()))
            if (
                retry_after_s
                and self.in_flight == 1
                and self._put_off_in_a_row >= _REFUSED_IN_A_ROW
            ):
                self._rest_until(now_s + min(retry_after_s, MAX_RETRY_AFTER_S))

    def _rest_until(self, at_s: float) -> None:
        self._rests_until_s = max(self._rests_until_s, at_s)

    def _decide(self, now_s: float, *, on_trial: bool) -> bool:
        """Learn from a trial, or from a call that was in flight when the endpoint went down."""
        if not self._failed_last:
            came_back = self.down
            self.down = False
            self._suspect = False
            self._recent.clear()
            self._broken_in_a_row = self._put_off_in_a_row = 0
            return came_back
        if not self.down:
            self.mark_unhealthy(now_s)
            return True
        if on_trial:
            self._trial_wait_s = min(self.last_trial_s, 2 * self._trial_wait_s)
            self._trial_at_s = now_s + self._trial_wait_s
        return False
