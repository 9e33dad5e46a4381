"""Expected verdicts: what a judge could have written in the place of its scores, weighed by the
probabilities.

The profile's own parser says which tokens decide: those without which it reads another verdict, or
none. It also says what another token in their place means, so this works for scores and labels of
every form. A shown text plays no part."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.request_form import limit_of
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, Failure, Verdict

TOP_TOKENS = 10  # the scores of the widest scale of the built-in families, 1 to 10
# Tokens of a reply, by default and at most: each takes about 0.8 kB with probabilities.
MAX_TOKENS = 512
MOST_TOKENS = 1_024
_LEAST_MASS = 0.9  # with less, the listed tokens say too little of the rest
_LEAST_SHARE = 0.001  # of a token that is looked at
_MOST_CHARS = 12  # of a token that may hold a score
_SCORE = re.compile(r"[-+0-9A-C<>=]")
_NUMBER = re.compile(r"(?:\.?[0-9])*")
_LABEL = re.compile(r"[ABC<>=]*")
_OTHER_LABEL = str.maketrans("AB", "BA")
_NO_SCORE = "¤"

Read = Callable[[str], Verdict | None]
"""Parse a changed reply; None if it has no verdict."""


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """A token of a reply, from `start`, with the probabilities of the likeliest tokens in its
    place.
    """

    start: int
    token: str
    likely: Mapping[str, float]

    @property
    def end(self) -> int:
        """Where the next token starts."""
        return self.start + len(self.token)


def with_score_tokens(profile: Profile) -> Profile:
    """Return a profile whose verdicts are expected ones, wherever its servers send the
    probabilities of tokens.
    """
    fields = dict(profile.request_fields)
    most = fields.get(limit := limit_of(fields))
    fields[limit] = min(most, MAX_TOKENS) if isinstance(most, int) else MAX_TOKENS
    fields |= {"logprobs": True, "top_logprobs": TOP_TOKENS}
    parse = partial(_parse_expected, profile.parse_reply)
    return replace(profile, request_fields=MappingProxyType(fields), parse_reply=parse)


def _parse_expected(
    parse: Callable[[Reply, PairwisePrompt], Verdict | Failure],
    reply: Reply,
    prompt: PairwisePrompt,
) -> Verdict | Failure:
    sampled = parse(reply, prompt)
    if isinstance(sampled, Failure):
        return sampled

    def read(text: str) -> Verdict | None:
        said = parse(reply._replace(text=text), prompt)
        return None if isinstance(said, Failure) else said

    return expect(reply.text, sampled, places_of(reply), read)


def places_of(reply: Reply) -> list[TokenPlace]:
    """Return the short tokens of a reply's text; none if the server sent none, too many, or those
    of another text.
    """
    joined = "".join(token for token, _ in reply.tokens)
    start = -joined.rfind(reply.text)  # thoughts may come before it
    places = []
    for token, likely in reply.tokens if start <= 0 and len(reply.tokens) <= MOST_TOKENS else ():
        if start >= 0 and len(token) <= _MOST_CHARS:
            shares = {other: round(math.exp(min(0.0, value)), 4) for other, value in likely.items()}
            likely = {
                other: p
                for other, p in shares.items()
                if p >= _LEAST_SHARE and len(other) <= _MOST_CHARS
            }
            places.append(TokenPlace(start, token, likely))
        start += len(token)
    return places


def expect(text: str, sampled: Verdict, places: Sequence[TokenPlace], read: Read) -> Verdict:
    """Return the expected verdict; its `likely` holds all that it follows from besides the text.

    That is the sampled verdict if no token decides it alone, as in a reply that states it twice, or
    if less than 0.9 of the probability at a token that does is that of tokens that give a verdict.

    Source: Σ k p_k / Σ p_k over the tokens k in the place of each number or label; the changes of
    several add up."""
    next_to = {place.start: place for place in places}
    base = _numbers_of(sampled)
    sums = [0.0, 0.0, 0.0]
    end = -1
    weight = 1.0
    used = list[TokenPlace]()
    for place in places:
        continues = (
            place.start > 0
            and text[place.start - 1] in "0123456789."
            and place.token[:1].isdecimal()
        )
        if continues or not _SCORE.search(place.token):
            continue
        if read(text[: place.start] + _NO_SCORE + text[place.end :]) == sampled:
            continue
        # A further part of a label or number is likely only together with the part before it.
        weight = weight if place.start == end else 1.0
        after = next_to.get(place.end)
        found = [
            (share, said)
            for share, said in _iter_branches(text, place, after, sampled, read)
            if said is not None
        ]
        if any(said != sampled for _, said in found):
            mass = math.fsum(share for share, _ in found)
            if mass < _LEAST_MASS:
                return sampled
            for share, said in found:
                changes = (value - own for value, own in zip(_numbers_of(said), base, strict=True))
                sums = [
                    total + weight * share / mass * change
                    for total, change in zip(sums, changes, strict=True)
                ]
        elif place.likely.get(place.token, 0.0) < _LEAST_MASS and _decides(
            text, place, sampled, read
        ):
            return sampled
        elif used:
            continue
        used += [place] if after is None else [place, after]
        end = place.end
        weight = weight * place.likely.get(place.token, 1.0)
    if not used:
        return sampled
    first, second, ranking = (own + change for own, change in zip(base, sums, strict=True))
    kept = {each.start: (each.start, each.token, each.likely) for each in used}
    return Verdict(
        min(MAX_SCORE, max(MIN_SCORE, first)),
        min(MAX_SCORE, max(MIN_SCORE, second)),
        min(MAX_RANKING, max(MIN_RANKING, ranking)),
        likely=json.dumps({"sampled": base, "places": list(kept.values())}, ensure_ascii=False),
    )


def sampled_of(verdict: Verdict) -> Verdict:
    """Return the verdict that a judge wrote, where this is the expected one."""
    return Verdict(*json.loads(verdict.likely)["sampled"]) if verdict.likely else verdict


def _decides(text: str, place: TokenPlace, sampled: Verdict, read: Read) -> bool:
    """Whether a place holds a score or label, as some other one there gives another verdict."""
    said = (read(text[: place.start] + other + text[place.end :]) for other in "12345AB")
    return any(each is not None and each != sampled for each in said)


def _iter_branches(
    text: str, place: TokenPlace, after: TokenPlace | None, sampled: Verdict, read: Read
) -> Iterator[tuple[float, Verdict | None]]:
    """Yield what a reply says with other tokens in a place, each after its probability; `after` is
    the next place.
    """
    rest = (_NUMBER if place.token[-1:] in "-+0123456789" else _LABEL).match(text, place.end)
    tail = rest[0] if rest else ""

    def read_with(token: str, following: str) -> Verdict | None:
        """Read the reply with another token, and what follows in place of the rest of the number or
        label.
        """
        return read(text[: place.start] + token + following + text[place.end + len(tail) :])

    for other, share in place.likely.items():
        may_go_on = other[-1:].isdecimal() and read_with(other, "0") is not None
        if (
            other == place.token
            and after is not None
            and (may_go_on or (tail and other[-1:].isdecimal()))
        ):
            for following, part in after.likely.items():
                continued = following if following[:1] in tuple("0123456789.") else ""
                yield (
                    share * part,
                    sampled if following == after.token else read_with(other, continued),
                )
        elif other == place.token:
            yield share, sampled
        elif not may_go_on or f"{other}0" in place.likely:  # `1` may be the beginning of `10`
            changed = ("", tail, tail.translate(_OTHER_LABEL))
            yield share, next(filter(None, (read_with(other, each) for each in changed)), None)


def _numbers_of(verdict: Verdict) -> tuple[float, ...]:
    return verdict.score_1, verdict.score_2, verdict.ranking
