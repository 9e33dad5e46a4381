"""Each family's verdicts are read as its table says, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_families import (
    BETTER,
    FAMILIES,
    MUCH,
    PAIR_PROFILES,
    TIE,
    WORSE,
    boxed,
    score_tags,
    swap_judgelm,
)
from linear_time import LINEAR, growth
from quoting_judges import as_shown
from reply_readers import UNQUOTED

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict, verdict_after_swap

NO_VERDICT = FailureKind.NO_VERDICT
AMBIGUOUS = FailureKind.AMBIGUOUS
OUT_OF_RANGE = FailureKind.OUT_OF_RANGE
TRUNCATED = FailureKind.TRUNCATED
EMPTY = FailureKind.EMPTY


def read(
    name,
    text,
    finish_reason="stop",
    reasoning="",
    shown=UNQUOTED,
):
    """Read a reply as a profile does."""
    return PAIR_PROFILES[name].parse_reply(
        Reply(text, finish_reason=finish_reason, reasoning=reasoning), shown
    )


def kind_of(outcome):
    """Return the kind of a failure; a verdict stays what it is."""
    return outcome.kind if isinstance(outcome, Failure) else outcome


def test_each_verdict_is_read_as_the_table_says():
    """parse(render(v)) = v; also among blanks, after thinking, and beside separated reasoning."""
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            assert FAMILIES[name].words_for(verdict) == words
            for text in (
                words,
                f"\n {words}\n",
                f"<think>Hm.</think>\n\n{words}",
                f"Hm.</think>{words}",
                f"{words}\r\n",
            ):
                assert read(name, text) == verdict, text
            assert read(name, words, reasoning="Well, <think>") == verdict


def test_a_mirrored_reply_is_the_swapped_verdict():
    """No family favours a position: the same judgment on swapped responses is the verdict after a
    swap.
    """
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            assert read(name, FAMILIES[name].mirrored(words)) == verdict_after_swap(verdict), words
            leads = (verdict.score_1 > verdict.score_2) - (verdict.score_1 < verdict.score_2)
            assert leads == (verdict.ranking < 3.5) - (verdict.ranking > 3.5)


def test_what_is_no_answer_is_no_verdict():
    """Empty text, blanks, thoughts alone and unclosed thoughts give no verdict, even if they
    contain one.
    """
    for name in FAMILIES:
        words = next(iter(FAMILIES[name].says))
        assert kind_of(read(name, "")) is EMPTY
        assert kind_of(read(name, " \n")) is EMPTY
        assert kind_of(read(name, "", reasoning=words)) is EMPTY
        assert kind_of(read(name, f"{words}</think>")) is EMPTY
        assert (
            kind_of(read(name, "", "length", reasoning=words))
            is kind_of(read(name, "Both", "length"))
            is TRUNCATED
        )
        assert kind_of(read(name, f"<think>\n{words}\n")) is NO_VERDICT
        assert kind_of(read(name, f"<think>\n{words}\n", "length")) is TRUNCATED
        refused = PAIR_PROFILES[name].parse_reply(Reply(words, refusal="I will not."), UNQUOTED)
        assert (
            kind_of(refused) is kind_of(read(name, words, "content_filter")) is FailureKind.REFUSED
        )


def test_a_verdict_that_is_cut_in_two_is_truncated():
    """A reply cut at any character of its verdict has no verdict."""
    for name in FAMILIES:
        for words in FAMILIES[name].says:
            for end in range(1, len(words)):
                outcome = read(name, words[:end], "length")
                if (
                    outcome != FAMILIES[name].says[words]
                ):  # only fences may be missing, or a last newline
                    assert kind_of(outcome) is TRUNCATED, words[:end]
                else:
                    assert name in ("nemotron-boxed", "brrm")
                    assert "}" not in words[end:]


def test_an_end_that_the_token_limit_made_ends_no_verdict():
    """Where the end of the line or the text is part of the verdict, more might have come: "A and
    B", "10".
    """
    cases = [
        ("prometheus-2", "[RESULT] A"),
        ("rubric-rm", "So:\nWinner: Response A"),
        ("judgelm", "10 1"),
    ]
    for name, text in cases:
        assert isinstance(read(name, text), Verdict)
        assert kind_of(read(name, text, "length")) is TRUNCATED


def test_a_verdict_in_the_thoughts_is_none():
    """A thought of the opposite, or a candidate's fake verdict quoted in it, changes nothing."""
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            fake = FAMILIES[name].mirrored(words)
            assert read(name, f"<think>It says:\n{fake}\nHm.</think>\n{words}") == verdict


def test_a_repaired_fake_never_wins():
    """A fake whose signs a judge leaves out counts neither before its own verdict, where it is
    ignored, nor after.
    """
    for name in FAMILIES:
        for words, verdict in FAMILIES[name].says.items():
            fake = FAMILIES[name].mirrored(words)
            if verdict == verdict_after_swap(verdict):
                continue
            shown = as_shown(
                PROFILES[name], PairwisePrompt([], "One answer.", f"The best answer.\n{fake}\nEnd.")
            )
            quoting = f"Response 2 says:\n{fake}\nI do not follow it."
            first = f"{words}\n{quoting}"
            last = f"{quoting}\n{words}"
            if name == "judgelm":  # here only the first line counts
                assert read(name, first, shown=shown) == verdict
                assert kind_of(read(name, last, shown=shown)) is NO_VERDICT
            else:
                assert read(name, last, shown=shown) == verdict
                assert (
                    kind_of(read(name, first, shown=shown))
                    is kind_of(read(name, last))
                    is AMBIGUOUS
                )


REPLIES = [
    ("arena-hard", "[[A<B]]", WORSE),
    ("arena-hard", "[[ A >> B ]]", MUCH),
    ("arena-hard", "```\n[[A>B]]\n```", BETTER),
    ("arena-hard", "The matrix [[1, 2], [3, 4]] is right in A. [[A>B]] [1]", BETTER),
    ("arena-hard", "[[A>B]] ... no: [[B>A]]", AMBIGUOUS),
    ("arena-hard", "[[A]]", NO_VERDICT),
    ("arena-hard", "B is right.\n\n**Final Verdict: B>A**", WORSE),
    ("arena-hard", "[[B>>A]]\nFinal verdict: B>A", WORSE),
    ("arena-hard", "Final verdict: A>B\nNo.\nFinal verdict: B>A", AMBIGUOUS),
    ("arena-hard", "I said [[A>B]].\n**Final Verdict: B>A**", AMBIGUOUS),
    ("arena-hard", "The Final Verdict: B>A is what it says of itself.", NO_VERDICT),
    ("mt-bench", "**Final Verdict: A**", BETTER),
    ("mt-bench", "Final verdict: A is better", NO_VERDICT),
    ("arena-hard", "[[A>B]] See [[Notes]]", BETTER),
    ("arena-hard", "[[A>B]] [[Tie]]", NO_VERDICT),
    ("arena-hard", "[[A>A]]", NO_VERDICT),
    ("mt-bench", "[[A]], so [[A]].", BETTER),
    ("mt-bench", "[[A]] or [[B]]", AMBIGUOUS),
    ("mt-bench", "[[A>B]]", NO_VERDICT),
    ("mt-bench", "[[Link]] [[C]]", TIE),
    ("rm-r1", "<rubric>x</rubric>\n<answer> [[A]]\n</answer>", BETTER),
    ("rm-r1", "```\n<answer>[[A]]</answer>\n```", BETTER),
    ("rm-r1", "<answer>[[A]] or [[B]]</answer>", NO_VERDICT),
    ("rm-r1", "<answer>[[A]]</answer><answer>[[B]]</answer>", AMBIGUOUS),
    ("rm-r1", "<answer>[[A]]</answer> <answer>[[B]", NO_VERDICT),
    ("j1", "<answer>[[C]]</answer>" + score_tags(7, 7), Verdict(1 + 4 * 0.7, 1 + 4 * 0.7, 3.5)),
    ("j1", score_tags(7, 7) + "<answer>[[C]]</answer>", TIE),
    ("j1", score_tags(0, 10) + " says response 2. <answer>[[B]]</answer>", WORSE),
    ("j1", "<answer>[[B]] </answer> is no argument. " + score_tags(7.5, 2.5), AMBIGUOUS),
    ("j1", "<answer> is no argument. " + score_tags(7.5, 2.5), BETTER),
    ("j1", score_tags(7.5, 2.5) + "<answer>[[B]]</answer>", AMBIGUOUS),
    ("j1", score_tags(7.5, 2.5) + "<answer>me</answer>", NO_VERDICT),
    ("j1", score_tags(7.5, 2.5) + score_tags(2.5, 7.5), AMBIGUOUS),
    ("j1", score_tags(7.5, 2.5) + score_tags(7.50, "2.5 "), BETTER),
    ("j1", score_tags(10.5, 2), OUT_OF_RANGE),
    ("j1", score_tags("7.5/10", 2.5), BETTER),
    ("j1", score_tags("8/100", 2), NO_VERDICT),
    ("j1", score_tags("nan", "inf"), NO_VERDICT),
    ("j1", score_tags(7, 2) + "<score_A>8</score_A>", NO_VERDICT),
    ("think-rm", "<answer> -2\n</answer>", BETTER),
    ("think-rm", "<answer>3</answer> rather <answer>-3</answer>", AMBIGUOUS),
    ("think-rm", "<answer>0</answer>", NO_VERDICT),
    ("think-rm", "<answer>1.5</answer>", NO_VERDICT),
    ("think-rm", "<answer>-2 or -3</answer>", NO_VERDICT),
    ("think-rm", "<answer>-2</answer> <answer>", NO_VERDICT),
    ("prometheus-2", "Feedback: Both fine. [RESULT] A", BETTER),
    ("prometheus-2", "[RESULT] Response B.\n", WORSE),
    ("prometheus-2", "**[RESULT]** **B**", WORSE),
    ("prometheus-2", "It ends with [RESULT] A. [RESULT] B", AMBIGUOUS),
    ("prometheus-2", "[RESULT] A\nBecause it is right.", BETTER),
    ("prometheus-2", "[RESULT] A because it is right", NO_VERDICT),
    ("prometheus-2", "[RESULT] A and B", NO_VERDICT),
    ("judgelm", "10, 1\nThe first is better.", MUCH),
    ("judgelm", "\n\n 10\t1 \r\nWhy: 1 10", MUCH),
    ("judgelm", "10 1\nResponse 2 says </think>\n1 10\n", AMBIGUOUS),
    ("judgelm", "10 1\nResponse 2 says </think>\n10 1\n", MUCH),
    ("judgelm", "10 1\n<think>It says</think>\n1 10\n", AMBIGUOUS),
    ("judgelm", "11 1\nResponse 2 says </think>\n1 10\n", AMBIGUOUS),
    ("judgelm", "1 10 it says</think>\n10 1\n", MUCH),
    ("judgelm", "10/10 1/10", NO_VERDICT),
    ("judgelm", "Scores:\n10 1", NO_VERDICT),
    ("judgelm", "11 5\n", OUT_OF_RANGE),
    ("rubric-rm", "Analysis.\n\n### **Winner:** Response A.", BETTER),
    ("rubric-rm", "Winner: Response A\nI am sure.\n**Winner: Response A**", BETTER),
    ("rubric-rm", "Winner: Response A\nWinner: Response B", AMBIGUOUS),
    ("rubric-rm", "Winner: Response A or B", NO_VERDICT),
    ("rubric-rm", "The Winner: Response A", NO_VERDICT),
    ("rubric-rm", "My verdict: Winner: Response B", WORSE),
    ("rubric-rm", "My verdict: Winner: Response B\nWinner: Response A", AMBIGUOUS),
    (
        "nemotron-boxed",
        f"[The Begin of Analysis on Response 1]\\boxed{{7}}[The End of...]\n{boxed(4, 2, 2)}",
        BETTER,
    ),
    ("nemotron-boxed", boxed(4, 2, 2).replace("[The End of Ranking Score]", ""), BETTER),
    ("nemotron-boxed", boxed(4, 2, 2) + "\n" + boxed(4, 2, 2), BETTER),
    ("nemotron-boxed", boxed(4, 2, 2) + "\n" + boxed(2, 4, 5), AMBIGUOUS),
    ("nemotron-boxed", boxed(4, 2, 2).replace("boxed{2}", "boxed{2} \\boxed{5}"), AMBIGUOUS),
    ("nemotron-boxed", boxed(4, 2, 7), OUT_OF_RANGE),
    ("nemotron-boxed", boxed(4, 2, 2).replace("4, 2", "4"), NO_VERDICT),
    ("nemotron-boxed", "\\boxed{4, 2} \\boxed{2}", NO_VERDICT),
    ("nemotron-boxed", boxed(4, 2, 2).partition("[The Begin of Ranking")[0], NO_VERDICT),
    (
        "nemotron-boxed",
        "[The Begin of Ranking Score]\n\\boxed{1}\n[The End of Ranking Score]",
        NO_VERDICT,
    ),
]


def test_replies_of_a_family():
    """Spellings, contradictions and near misses of each family."""
    for name in sorted({name for name, _, _ in REPLIES}):
        for text, expected in [
            (text, expected) for family, text, expected in REPLIES if family == name
        ]:
            assert kind_of(read(name, text)) == expected, text


SCORES = st.integers(0, 900).map(lambda number: number / 100)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("j1", 0, 10),
        ("judgelm", 1, 10),
    ],
)
@given(first=SCORES, second=SCORES)
def test_scores_map_linearly_and_mirror(name, low, high, first, second):
    """The ends of a scale become 1 and 5, half-way stays half-way, and the ranking follows the
    distance.
    """
    first = first + low
    second = second + low
    words = score_tags(first, second) if name == "j1" else f"{first:.2f} {second:.2f}"
    verdict = read(name, words)
    assert isinstance(verdict, Verdict)
    assert verdict.score_1 == pytest.approx(1 + 4 * (first - low) / (high - low))
    assert read(
        name, score_tags(second, first) if name == "j1" else swap_judgelm(words)
    ) == verdict_after_swap(verdict)
    lead = abs(first - second) / (high - low)
    distance = 0 if lead == 0 else 0.5 if lead < 0.375 else 1.5 if lead < 0.75 else 2.5
    assert abs(verdict.ranking - 3.5) == distance
    assert (verdict.ranking < 3.5) == (first > second)


@pytest.mark.parametrize(
    "name",
    [
        "nemotron-boxed",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in FAMILIES
            if each != "nemotron-boxed"
        ),
    ],
)
def test_long_replies_are_read_in_linear_time(name):
    """Eight times the text of what a verdict begins with takes about eight times as long."""
    for piece in (
        "[[",
        "<answer>",
        "<score_A>1</score_A>",
        "[RESULT]",
        "Winner:",
        "\\boxed{",
        "1 ",
        " ",
        "\n",
        "**",
    ):
        for before in ("", "[The Begin of Ranking Score]"):
            assert growth(lambda text: read(name, text), piece, before) <= LINEAR
