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
from quoting_judges import pick_reply
from reply_mutations import Mutator
from reply_readers import GRADERS, READERS, UNQUOTED, outcome_of
from verdict_forms import FORMS, answer_of

from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

REPLIES = int(os.environ.get("GENRM_FUZZ_REPLIES", "10000"))
QUOTING = READERS | GRADERS
EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in READERS]
)
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
    """Let a judge quote so many torn replies, or parts of them, beside its own words; return how
    many became what.
    """
    judge = QUOTING[name]
    kin = GRADERS if name in GRADERS else READERS
    rng = random.Random(f"{seed} {name}")
    others = [other.family for other in kin.values() if other.family is not judge.family]
    mutator = Mutator(judge.family, others, f"{seed} of {name}")
    own = {words: judge.read(words, judge.show("An answer.")) for words in judge.says}
    places = {words: sum(1 for _ in judge.iter_quoting("", words)) for words in own}
    counts = Counter()
    for _, text in mutator.iter_replies(count):
        words = rng.choice(list(own))
        prompt = judge.show(text)
        text = prompt.responses[0]
        start = rng.randrange(len(text) + 1) if rng.random() < PARTIAL else 0
        end = rng.randrange(start, len(text) + 1) if rng.random() < PARTIAL else None
        _, reply = pick_reply(rng, judge.iter_quoting(text[start:end], words), places[words])
        counts[outcome_of(judge, reply, prompt, own[words])] += 1
    return counts


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


@pytest.mark.slow
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


@pytest.mark.parametrize("name", GRADERS)
def test_torn_quotations_are_never_the_grades(name):
    """A judge that quotes a torn reply, of its own kind or another, beside its grades, says its
    own.
    """
    assert fuzz_quoting(name, 40, "sample")["own"] > 28


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "fuzzer"),
    [*((name, fuzz) for name in READERS), *((name, fuzz_quoting) for name in QUOTING)],
)
def test_many_replies_are_read_honestly(name, fuzzer):
    """An equal share for each judge: its own words are read, or none; quotations never are."""
    count = -(-REPLIES // len(READERS))
    counts = fuzzer(name, count, "million")
    print(f"{name}, {fuzzer.__name__}: {counts.total()} replies: {dict(sorted(counts.items()))}")
    assert counts.total() == count
