"""No reply, however torn, raises or is read as a verdict that it does not hold.

`GENRM_FUZZ_REPLIES=1000000 pytest -m slow -n 0 -s tests/judging/test_reply_fuzz.py` reads a million
replies, and a million with torn quotations in them, and prints what became of both."""

import os
import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_families import BETTER, MUCH, WORSE, Family, swap_letters
from quoting_judges import iter_all_quoting, pick_reply, shown_with
from reply_mutations import Mutator
from reply_readers import READERS, UNQUOTED
from verdict_forms import FORMS, answer_of

from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

pytestmark = pytest.mark.slow

REPLIES = int(os.environ.get("GENRM_FUZZ_REPLIES", "10000"))
EVERY = pytest.mark.parametrize("name", READERS)
PARTIAL = 0.2  # share of the quotations that begin late; as many end early
BARE = {
    "arena-hard": Family(
        {"\n**Final Verdict: B>A**\n": WORSE, "\nFinal verdict: A>>B.\n": MUCH}, swap_letters
    ),
    "mt-bench": Family(
        {"\n**Final Verdict:** B\n": WORSE, "\n### Final Verdict: A\n": BETTER}, swap_letters
    ),
}
FINISHED = ("stop", "stop", "stop", "length", None)


def check(name, text, finish_reason):
    """Parse a reply, and compare the outcome with the text."""
    parse = READERS[name][0].parse_reply
    form = FORMS[name]
    outcome = parse(Reply(text, finish_reason=finish_reason), UNQUOTED)
    if isinstance(outcome, Failure):
        assert 0 < len(outcome.detail) <= 200
        return outcome
    answer = answer_of(text)
    begin = re.search(form.begins, answer)
    assert begin is not None, (outcome, text)
    assert form.can_mean(answer, outcome), (outcome, text)
    assert 1 <= min(outcome.score_1, outcome.score_2) <= max(outcome.score_1, outcome.score_2) <= 5
    assert 1 <= outcome.ranking <= 6
    cut = parse(
        Reply(text[: len(text) - len(answer) + begin.start()], finish_reason="stop"), UNQUOTED
    )
    assert isinstance(cut, Failure), (cut, text)
    return outcome


def fuzz(name, count, seed, family=None):
    """Parse this many replies of a reader's family, or of another one; return the counts by
    outcome.
    """
    others = [family for other, (_, family) in READERS.items() if other != name]
    mutator = Mutator(family or READERS[name][1], others, f"{seed} {name}")
    counts = Counter()
    for number, (_, text) in enumerate(mutator.iter_replies(count)):
        outcome = check(name, text, FINISHED[number % len(FINISHED)])
        counts["verdict" if isinstance(outcome, Verdict) else str(outcome.kind)] += 1
    return counts


def fuzz_quoting(name, count, seed):
    """Let a judge quote so many torn replies, or parts of them, beside its own verdict; return how
    many became what.
    """
    profile, family = READERS[name]
    rng = random.Random(f"{seed} {name}")
    mutator = Mutator(
        family, [other for _, other in READERS.values() if other is not family], f"{seed} of {name}"
    )
    said = list(family.says.items())
    places = sum(1 for _ in iter_all_quoting(family, "", said[0][0]))
    counts = Counter()
    for _, text in mutator.iter_replies(count):
        words, own = rng.choice(said)
        shown = shown_with(profile, text)
        text = shown.response_1
        start = rng.randrange(len(text) + 1) if rng.random() < PARTIAL else 0
        text = text[start : rng.randrange(start, len(text) + 1) if rng.random() < PARTIAL else None]
        place, reply = pick_reply(rng, iter_all_quoting(family, text, words), places)
        outcome = profile.parse_reply(Reply(reply, finish_reason="stop"), shown)
        assert outcome == own or isinstance(outcome, Failure), (place, reply, outcome)
        if isinstance(outcome, Verdict):
            counts["own verdict"] += 1
        else:
            counts[str(outcome.kind)] += 1
    return counts


def said_of(counts):
    """Put figures into words."""
    return f"{counts.total()} replies: " + ", ".join(
        f"{kind} {number}" for kind, number in sorted(counts.items())
    )


@EVERY
def test_the_forms_know_the_families(name):
    """Each verdict has the form of its family; text without it has none."""
    for words, verdict in READERS[name][1].says.items():
        assert check(name, words, "stop") == verdict
        assert not FORMS[name].can_mean("Response A is better. 5 5 5", verdict)


@EVERY
def test_torn_replies_are_read_honestly(name):
    """A sample of what the slow test reads: verdicts and failures both occur, and none is
    invented.
    """
    counts = fuzz(name, 600, "sample")
    assert 100 < counts["verdict"] < 500


def test_torn_final_verdicts_without_brackets_are_read_honestly():
    """Judges that forget the brackets are read where their last verdict is whole, and none is
    invented.
    """
    for name in BARE:
        assert fuzz(name, 600, "bare", BARE[name])["verdict"] > 100


@EVERY
@given(data=st.data(), before=st.text(max_size=80), after=st.text(max_size=80))
def test_any_text_around_a_verdict_changes_nothing(name, data, before, after):
    """Where a family lets its judges say more, and whatever it is, as long as no verdict begins in
    it.
    """
    begins = rf'{FORMS[name].begins}|think>|```|\{{\s*"'
    profile, family = READERS[name]
    words = data.draw(st.sampled_from(sorted(family.says)))
    before = re.sub(begins, "", before)
    after = re.sub(begins, "", after)
    text = words if family.before is None else before + family.before + words
    text = text if family.after is None else text + family.after + after
    assert profile.parse_reply(Reply(text, finish_reason="stop"), UNQUOTED) == family.says[words]


@EVERY
@given(text=st.text(max_size=120))
def test_text_in_which_no_verdict_begins_holds_none(name, text):
    """Any text that is not in the family's form is a failure of the right kind."""
    if name == "judgelm":
        text = re.sub("[0-9]", "", text)  # here a verdict may begin with anything
    outcome = READERS[name][0].parse_reply(
        Reply(re.sub(FORMS[name].begins, "", text), finish_reason="stop"), UNQUOTED
    )
    assert isinstance(outcome, Failure)
    assert outcome.kind in (FailureKind.NO_VERDICT, FailureKind.EMPTY)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fuzzer", [fuzz, fuzz_quoting])
@EVERY
def test_many_replies_are_read_honestly(name, fuzzer):
    """An equal share for each reader: the judge's own verdict in its form, or none; quotations
    never are one.
    """
    count = -(-REPLIES // len(READERS))
    counts = fuzzer(name, count, "million")
    print(f"{name}, {fuzzer.__name__}: {said_of(counts)}")
    assert counts.total() == count
