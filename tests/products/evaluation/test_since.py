"""Has a judge changed: the same pairs, judged then and now."""

import json
from itertools import combinations
from random import Random

import pytest
from judged_pairs import judged_pair
from msgspec.structs import replace

from genrm_cli.errors import InputError
from genrm_cli.products.evaluation.since import EarlierResult, compare_since, parse_earlier
from genrm_cli.verdicts import FailureKind

LETTERS = {"r": "right", "w": "wrong", "t": "tie", "u": "unreadable", "-": None}


def judged(*orders: str):
    """Return pairs whose orders got these answers; both orders of a pair follow each other."""
    pairs = []
    for number in range(0, len(orders), 2):
        pair = judged_pair(*map(first_of, orders[number : number + 2]), f"{number:x}")
        first, second = (
            replace(order, repeats=tuple(LETTERS[letter] for letter in letters))
            for order, letters in zip(pair.orders, orders[number : number + 2], strict=True)
        )
        pairs.append(replace(pair, chosen_first=first, chosen_second=second))
    return pairs


def first_of(letters):
    """Return the result of an order with these answers."""
    known = LETTERS[letters[0]]
    if known in ("unreadable", None):
        return FailureKind.NO_VERDICT if known else FailureKind.TIMEOUT
    return known


def compared(then, now):
    """Compare answers of then with answers of now."""
    earlier = EarlierResult(
        format=1, time="t", repeats=2, settings_digest="", pairs=tuple(judged(*then))
    )
    return compare_since(earlier, judged(*now), "BASE.json", same_settings=True)


def test_a_swapped_judge_has_changed_and_the_same_one_has_not():
    """Forty pairs whose two repeats always agreed: none differs, then verdicts on 17 of them do."""
    then = ["rr"] * 80
    same = compared(then, ["r"] * 80)
    assert (same.answer, same.differ, same.requests) == ("same", 0, 80)
    assert (same.own_flips, same.own_requests, same.p_value) == (0, 80, 1.0)
    swapped = compared(then, ["w"] * 17 + ["r"] * 63)
    assert (swapped.answer, swapped.differ, swapped.more_pairs) == ("changed", 17, None)
    # Of three answers, the odd one is that of today in one of three cases.
    assert swapped.p_value == pytest.approx(3.0**-17, rel=1e-3, abs=1e-12)
    assert (swapped.accuracy_then.value, swapped.accuracy_now.value) == (
        1.0,
        pytest.approx(63 / 80),
    )


def test_few_pairs_cannot_tell():
    """Ten equal verdicts leave changes of 26 % possible; the sentence says how many more would
    tell.
    """
    found = compared(["rr"] * 20, ["r"] * 20)
    assert (found.answer, found.excess, found.excess_high) == ("cannot tell", 0.0, 0.3)
    assert found.sentence == "cannot tell: about 20 more pairs would"
    assert compared(["rr"] * 62, ["r"] * 62).answer == "same"


def test_a_judge_that_contradicts_itself_as_often_as_before_is_the_same():
    """One in three requests has an odd answer, which is as often that of today as each of then."""
    then = ["rw", "wr", "rr", *["rr"] * 5] * 50
    now = ["r", "r", "w", *["r"] * 5] * 50
    found = compared(then, now)
    assert (found.answer, found.own_flips, found.own_requests) == ("same", 100, 400)
    assert (found.differ, found.excess) == (100, pytest.approx(0))
    assert found.p_value > 0.4


def test_the_probability_is_that_of_all_choices():
    """Counted over every choice of today's answers of each request."""
    then = ["rw", "rr", "rt", "ww"]
    now = ["r", "wr", "tt", "ww"]

    def across(old, new):
        return sum(one != other for one in old for other in new)

    observed = sum(map(across, then, now))
    sums = [0]
    for old, new in zip(then, now, strict=True):
        answers = old + new
        choices = []
        for chosen in combinations(range(len(answers)), len(new)):
            rest = [answers[place] for place in range(len(answers)) if place not in chosen]
            choices.append(across(rest, [answers[place] for place in chosen]))
        sums = [total + choice for total in sums for choice in choices]
    expected = sum(total >= observed for total in sums) / len(sums)
    assert compared(then, now).p_value == pytest.approx(expected)


def test_replies_that_cannot_be_read_are_answers_and_outages_are_none():
    """A new judge that no longer answers in the format has changed; a server that is down says
    nothing about its judge.
    """
    then = ["rr"] * 60
    assert compared(then, ["u"] * 60).answer == "changed"
    down = compared(then, ["-"] * 60)
    assert (down.answer, down.requests, down.p_value) == ("cannot tell", 0, 1.0)
    assert (down.failures_then, down.failures_now, down.judgements_now) == (0, 60, 60)


def test_a_change_below_five_points_is_no_alarm():
    """A server under another load differs from itself by a few per cent, beyond its repeats of one
    minute: of 1,000 pairs, 30 in 1,000 verdicts are far beyond chance, and no change.
    """
    found = compared(["rr"] * 2000, ["w"] * 60 + ["r"] * 1940)
    assert found.p_value < 1e-9
    assert (found.answer, found.excess) == ("same", pytest.approx(0.03))


def test_pairs_of_one_file_only_are_left_out():
    """The answer is about the pairs that both have; without any it is refused."""
    then = judged(*["rr"] * 80)
    earlier = EarlierResult(format=1, time="t", repeats=2, settings_digest="", pairs=tuple(then))
    found = compare_since(earlier, judged(*["r"] * 84), "B", same_settings=True)
    assert (found.pairs, found.left_out, found.answer) == (40, 2, "same")
    with pytest.raises(InputError, match="none of these pairs"):
        compare_since(earlier, [replace(then[0], item="other")], "B", same_settings=True)


@pytest.mark.parametrize("raw", [None, b"", b"{}", b'{"format": 2}', b"[" * 10_000])
def test_what_is_no_result_is_refused(raw):
    """The message names the file and what makes one."""
    says = r"^b.json: .*genrm eval PAIRS.jsonl repeats=2 json_output"
    with pytest.raises(InputError, match=says):
        parse_earlier(raw, "b.json")


def answers_of(random, flips, changed=0.0):
    """Return two answers of then and one of now; a request flips in this share of its answers, and
    today's is turned in a share `changed` of requests.
    """
    usual = random.choice("rw")
    other = "w" if usual == "r" else "r"
    drawn = [other if random.random() < flips else usual for _ in range(3)]
    if random.random() < changed:
        drawn[2] = "w" if drawn[2] == "r" else "r"
    return drawn[0] + drawn[1], drawn[2]


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [40, 200])
@pytest.mark.parametrize("flips", [0.0, 0.02, 0.1, 0.3])
def test_a_judge_that_is_the_same_raises_no_alarm(pairs, flips):
    """At most 1 in 100 comparisons of a judge whose answers flip in these shares, as far as 300 can
    tell; a judge that turns every fifth verdict is found by 200 pairs, unless it flips in three of
    ten.
    """
    random = Random(f"{pairs} {flips}")
    alarms = 0
    for _ in range(300):
        then, now = zip(*(answers_of(random, flips) for _ in range(2 * pairs)), strict=True)
        alarms += compared(then, now).answer == "changed"
    print(f"{pairs} pairs, flips {flips}: {alarms} alarms in 300")
    assert alarms <= 7  # of 300 at 1 in 100: more in 1 of 100 runs
    found = 0
    for _ in range(60):
        then, now = zip(*(answers_of(random, flips, 0.2) for _ in range(2 * pairs)), strict=True)
        found += compared(then, now).answer == "changed"
    print(f"{pairs} pairs, flips {flips}: {found} of 60 changes of a fifth found")
    if pairs == 200 and flips <= 0.1:
        assert found >= 54


def ask(call, *more):
    """Measure the judge of the test, and return what the command did."""
    return call("eval", "pairs.jsonl", *more, "--json")


def test_a_judge_behind_a_url_is_compared_with_its_base(genrm, call, judge_server):
    """A base of two repeats, the same judge and another one behind the same name: exit code 0 and
    fresh calls, as JSON, then `changed` with 7 in words. The other one is its own base once it is
    named as the error says: no verdict of the first is recalled.
    """
    pairs = [{"prompt": f"Q{n}?", "chosen": "right " * 5, "rejected": "wrong"} for n in range(12)]
    genrm.write("pairs.jsonl", pairs)
    flags = (*judge_server.flags, "--no-probe")
    (genrm.folder / "BASE.json").write_bytes(ask(call, *flags, "--repeats", "2").ended(0).out)
    asked = judge_server.stats()["requests"]
    again = json.loads(ask(call, *flags, "--since", "BASE.json").ended(0).out)["since"]
    # Too few pairs for `same`.
    found = (again["answer"], again["differ"], again["same_settings"], again["pairs"])
    assert found == ("cannot tell", 0, True, 12)
    assert judge_server.stats()["requests"] == asked + 24
    judge_server.behave(verdict={"score_1": 2, "score_2": 4, "ranking": 5})
    changed = call("eval", "pairs.jsonl", *flags, "--since", "BASE.json", "--principle", "x")
    assert "the judge has changed since BASE.json" in changed.ended(7).err
    assert "name it with --judge-id" in changed.err
    said = changed.out.decode()
    assert "12 of 24 verdicts differ, the judge's own repeats in 0 of 24" in said
    assert "the settings are not those of then" in said
    new = (*flags, "--judge-id", "new")
    (genrm.folder / "NEW.json").write_bytes(ask(call, *new, "--repeats", "2").ended(0).out)
    named = json.loads(ask(call, *new, "--since", "NEW.json").ended(0).out)["since"]
    assert (named["differ"], named["own_flips"]) == (0, 0)


def test_a_base_that_cannot_tell_own_flips_is_refused_before_a_call(genrm, call, judge_server):
    """One answer then and one now leave nothing to compare a difference with."""
    genrm.write("pairs.jsonl", [{"prompt": "Q?", "chosen": "right", "rejected": "wrong"}])
    flags = (*judge_server.flags, "--no-probe")
    once = ask(call, *flags).ended(0)
    (genrm.folder / "BASE.json").write_bytes(once.out)
    judge_server.reset()
    refused = ask(call, *flags, "--since", "BASE.json").ended(2)
    assert "the judge's own flips are unknown; set --repeats 2, now or in a new base" in refused.err
    for other in (("--requests-to", "folder"), ("-o", "BASE.json", "--force")):
        ask(call, *flags, "--since", "BASE.json", "--repeats", 2, *other).ended(2)
    assert "no such file" in ask(call, *flags, "--since", "none.json").ended(3).err
    assert judge_server.stats()["requests"] == 0
    judge_server.behave(fault={"content": "No idea."})
    silent_flags = (*flags, "--no-journal")
    for repeats, answer in ((2, ["unreadable"] * 2), (1, ["unreadable"])):
        silent = ask(call, *silent_flags, "--repeats", repeats).ended(6)
        assert json.loads(silent.out)["pairs"][0]["chosen_first"]["repeats"] == answer
    judge_server.reset()
    twice = ask(call, *flags, "--since", "BASE.json", "--repeats", 2).ended(0)
    assert json.loads(twice.out)["since"]["answer"] == "cannot tell"
