"""Shards: groups divided among runs that only ask the judge; another run concludes."""

from dataclasses import replace
from typing import Any

from msgspec import Struct

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.settings import Settings
from genrm_cli.settings.judge_settings import LimitSettings
from genrm_cli.texts.late_pattern import late_pattern

_SHARD = late_pattern(r"([0-9]{1,6})/([0-9]{1,6})")  # "0/4"; a million shards at most


class Shard(Struct, frozen=True):
    """One of `count` shards, numbered from 0."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def share(self, whole: int) -> int:
        """Return this shard's part of a whole; the parts of all shards add up to it."""
        return whole // self.count + (self.number < whole % self.count)


def shard_of(settings: Settings) -> Shard | None:
    """Return the shard that a run asks about; None for all groups."""
    text = settings.journal.shard
    if text is None:
        return None
    match = _SHARD.fullmatch(text)
    if match is None or not int(match[1]) < int(match[2]):
        remedy = "the shards of four are 0/4, 1/4, 2/4 and 3/4"
        raise UsageError(SettingRef("shard"), f": {text!r} is not a shard; {remedy}.")
    return Shard(int(match[1]), int(match[2]))


def limits_of_shard(limits: LimitSettings, shard: Shard | None) -> LimitSettings:
    """Return the limits of one shard, so that all shards together stay within those of the run.

    Each shard has at least one call in flight. The concurrency `auto` stays: each shard adapts to
    the endpoints that the others use, too.
    """
    if shard is None:
        return limits
    shares: dict[str, Any] = {}
    for name in ("max_calls", "max_total_tokens"):
        whole = getattr(limits, name)
        if whole is not None:
            shares[name] = shard.share(whole)
    if limits.max_in_flight is not None:
        shares["concurrency"] = str(max(1, shard.share(limits.max_in_flight)))
    if limits.max_cost is not None:
        shares["max_cost"] = limits.max_cost / shard.count
    return replace(limits, **shares)
