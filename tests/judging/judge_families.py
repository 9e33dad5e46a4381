"""What judges of each family say: every verdict in the family's own words, and the same with the
responses swapped.
"""

import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.verdicts import Verdict

WORDING: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("texts.toml").read_text(encoding="utf-8")
)
PAIR_PROFILES = {
    name: profile for name, profile in PROFILES.items() if isinstance(profile, Profile)
}

MUCH = Verdict(5, 1, 1)
BETTER = Verdict(4, 2, 2)
SLIGHTLY = Verdict(3.5, 2.5, 3)
TIE = Verdict(3, 3, 3.5)
SLIGHTLY_WORSE = Verdict(2.5, 3.5, 4)
WORSE = Verdict(2, 4, 5)
MUCH_WORSE = Verdict(1, 5, 6)


class Family(NamedTuple):
    """How a family of judges answers.

    Attributes:
        says: its words for a verdict, and the verdict; no verdict twice, so that the words can be
            looked up.
        mirrored: its words for the same opinion when the two responses have changed places.
        before: what may stand before a verdict with any text before it; None if nothing may.
        after: what must stand between a verdict and any text after it; None if nothing may follow.
    """

    says: dict[str, Verdict]
    mirrored: Callable[[str], str]
    before: str | None = ""
    after: str | None = ""

    def words_for(self, verdict: Verdict) -> str:
        """Render a verdict as this family does."""
        return next(words for words, said in self.says.items() if said == verdict)


def swap_letters(words: str) -> str:
    """Exchange A and B."""
    return words.translate(str.maketrans("AB", "BA"))


def scores_json(verdict: Verdict) -> str:
    """Render a verdict as NVIDIA's GenRMs do."""
    scores = {"score_1": verdict.score_1, "score_2": verdict.score_2}
    return json.dumps({"response_1_analysis": "Fine.", **scores, "ranking": verdict.ranking})


def swap_json(words: str) -> str:
    """Exchange the scores of a JSON verdict, nested or not, and turn the ranking round."""
    said = json.loads(words)
    scores = said.get("overall", said)
    scores["score_1"], scores["score_2"] = scores["score_2"], scores["score_1"]
    scores["ranking"] = 7 - scores["ranking"]
    return json.dumps(said)


def boxed(score_1: float, score_2: float, ranking: float) -> str:
    """Render a verdict as the 49B does."""
    return (
        f"[The Begin of Individual Scores]\n\\boxed{{{score_1:g}, {score_2:g}}}\n[The End of "
        "Individual Scores]\n\n"
        f"[The Begin of Ranking Score]\n\\boxed{{{ranking:g}}}\n[The End of Ranking Score]"
    )


def swap_boxed(words: str) -> str:
    """Exchange the scores in the first box, and turn the ranking in the second round."""
    pair, ranking = (part.partition("}")[0] for part in words.split("\\boxed{")[1:])
    score_1, score_2 = map(float, pair.split(","))
    return boxed(score_2, score_1, 7 - float(ranking))


def boxed_winner(winner: int) -> str:
    """Name the better response as BRRM does."""
    return f"[The Begin of Ranking Score]\n\\boxed{{{winner}}}\n[The End of Ranking Score]"


def swap_boxed_winner(words: str) -> str:
    """Exchange 1 and 2."""
    return boxed_winner(2 if "{1}" in words else 1)


def score_tags(first: object, second: object) -> str:
    """Render two scores as J1 does."""
    return f"<score_A>{first}</score_A>\n<score_B>{second}</score_B>"


def swap_j1(words: str) -> str:
    """Exchange two scores, or the letters of a winner."""
    if "<answer>" in words:
        return swap_letters(words)
    first, second = (
        part.partition("</")[0].partition(">")[2] for part in words.split("<score_")[1:]
    )
    return score_tags(second, first)


def swap_judgelm(words: str) -> str:
    """Exchange the two numbers of the line."""
    return " ".join(reversed(words.split()))


def swap_think_rm(words: str) -> str:
    """Change the sign of the number."""
    return f"<answer>{-int(words.removeprefix('<answer>').removesuffix('</answer>'))}</answer>"


ALL = (MUCH, BETTER, SLIGHTLY, TIE, SLIGHTLY_WORSE, WORSE, MUCH_WORSE)
UNTIED = tuple(verdict for verdict in ALL if verdict != TIE)
GRADED = (MUCH, BETTER, TIE, WORSE, MUCH_WORSE)
WINNERS = (BETTER, WORSE, TIE)


def saying(words: Iterable[str], verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """Return what a family says for these verdicts."""
    return dict(zip(words, verdicts, strict=True))


JSON_FAMILY = Family(saying(map(scores_json, ALL), ALL), swap_json)
FAMILIES = {
    "nemotron": JSON_FAMILY,
    "nemotron-plain": JSON_FAMILY,
    "nemotron-ultra": Family(
        {
            f'{{"rubric_evaluations": [{{"score_1": 3, "ranking": 9}}], "overall": {words}}}': said
            for words, said in JSON_FAMILY.says.items()
        },
        swap_json,
    ),
    "nemotron-boxed": Family({boxed(v.score_1, v.score_2, v.ranking): v for v in ALL}, swap_boxed),
    "brrm": Family({boxed_winner(1): BETTER, boxed_winner(2): WORSE}, swap_boxed_winner),
    "json": JSON_FAMILY,
    "arena-hard": Family(
        saying(("[[A>>B]]", "[[A>B]]", "[[A=B]]", "[[B>A]]", "[[B>>A]]"), GRADED), swap_letters
    ),
    "mt-bench": Family(saying(("[[A]]", "[[B]]", "[[C]]"), WINNERS), swap_letters),
    "rm-r1": Family(
        saying((f"<answer>[[{letter}]]</answer>" for letter in "ABC"), WINNERS), swap_letters
    ),
    "j1": Family(
        {
            score_tags(10, 0): MUCH,
            score_tags(7.5, 2.5): BETTER,
            score_tags("6.25", "3.75"): SLIGHTLY,
            score_tags(5, 5): TIE,
            score_tags("3.75", "6.25"): SLIGHTLY_WORSE,
            "<answer>[[B]]</answer>": WORSE,
            score_tags(0, 10): MUCH_WORSE,
        },
        swap_j1,
    ),
    "think-rm": Family(
        saying((f"<answer>{number}</answer>" for number in (-3, -2, -1, 1, 2, 3)), UNTIED),
        swap_think_rm,
    ),
    "prometheus-2": Family({"[RESULT] A": BETTER, "[RESULT] B": WORSE}, swap_letters, after="\n"),
    "judgelm": Family(
        saying(("10 1", "7.75 3.25", "5.5 5.5", "3.25 7.75", "1 10"), GRADED),
        swap_judgelm,
        before=None,
        after="\n",
    ),
    "rubric-rm": Family(
        {"Winner: Response A": BETTER, "Winner: Response B": WORSE},
        swap_letters,
        before="\n",
        after="\n",
    ),
}
