"""What must stand in a reply before anyone may read a verdict in it: small checks that share
nothing with the readers.

They are necessary, not sufficient: a reader may refuse what they allow, and must not read what they
do not allow."""

import re
from collections.abc import Callable
from typing import NamedTuple

from judge_families import BETTER, MUCH, MUCH_WORSE, SLIGHTLY, SLIGHTLY_WORSE, TIE, WORSE

from genrm_cli.verdicts import Verdict

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class Form(NamedTuple):
    """What a family's verdict looks like.

    Attributes:
        begins: matches where a verdict may begin; what stands before the first match holds none.
        can_mean: answer and verdict → whether the one could say the other.
    """

    begins: str
    can_mean: Callable[[str, Verdict], bool]


def answer_of(text: str) -> str:
    """Return what a judge says after its thoughts."""
    return text.rpartition("</think>")[2]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


def _holds_numbers(answer: str, verdict: Verdict) -> bool:
    return {verdict.score_1, verdict.score_2, verdict.ranking} <= set(_numbers(answer))


def _json(answer: str, verdict: Verdict) -> bool:
    plain = answer.replace("\\u005f", "_")
    return all(f'"{key}"' in plain for key in ("score_1", "score_2", "ranking")) and _holds_numbers(
        plain, verdict
    )


def _boxed(answer: str, verdict: Verdict) -> bool:
    titles = all(f"[The Begin of {title} Score" in answer for title in ("Individual", "Ranking"))
    return titles and answer.count("\\boxed{") >= 2 and _holds_numbers(answer, verdict)


def _boxed_winner(answer: str, verdict: Verdict) -> bool:
    wanted = {BETTER: 1, WORSE: 2}[verdict]
    return (
        "[The Begin of Ranking Score" in answer
        and "\\boxed{" in answer
        and wanted in _numbers(answer)
    )


def _labels(labels: dict[str, Verdict]) -> Callable[[str, Verdict], bool]:
    """Check that a label of this meaning stands in double brackets, blanks aside, or as a final
    verdict in its line.
    """

    def can_mean(answer: str, verdict: Verdict) -> bool:
        packed = "".join(answer.split())
        bare = [re.sub(r"[^A-Za-z<>=:]", "", line).lower() for line in answer.split("\n")]
        known = [label for label, said in labels.items() if said == verdict]
        return any(
            f"[[{label}]]" in packed or f"finalverdict:{label.lower()}" in bare for label in known
        )

    return can_mean


_WINNER = _labels(
    {
        "A": BETTER,
        "B": WORSE,
        "C": TIE,
    }
)
_FOR_A = {
    ">>": MUCH,
    ">": BETTER,
    "=": TIE,
    "<": WORSE,
    "<<": MUCH_WORSE,
}
_FOR_B = {
    ">>": MUCH_WORSE,
    ">": WORSE,
    "=": TIE,
    "<": BETTER,
    "<<": MUCH,
}
_GRADES = {f"A{sign}B": said for sign, said in _FOR_A.items()} | {
    f"B{sign}A": said for sign, said in _FOR_B.items()
}


def _tagged_winner(answer: str, verdict: Verdict) -> bool:
    return "<answer>" in answer and "</answer>" in answer and _WINNER(answer, verdict)


def _scaled(numbers: list[float], verdict: Verdict, low: float, high: float) -> bool:
    scores = {round(1 + 4 * (number - low) / (high - low), 6) for number in numbers}
    return {round(verdict.score_1, 6), round(verdict.score_2, 6)} <= scores


def _j1(answer: str, verdict: Verdict) -> bool:
    tags = all(tag in answer for tag in ("<score_A>", "</score_A>", "<score_B>", "</score_B>"))
    return _tagged_winner(answer, verdict) or (tags and _scaled(_numbers(answer), verdict, 0, 10))


_STEPS = {
    -3: MUCH,
    -2: BETTER,
    -1: SLIGHTLY,
    1: SLIGHTLY_WORSE,
    2: WORSE,
    3: MUCH_WORSE,
}


def _think_rm(answer: str, verdict: Verdict) -> bool:
    tags = "<answer>" in answer and "</answer>" in answer
    return tags and any(
        _STEPS.get(number) == verdict for number in map(int, re.findall(r"-?[0-9]+", answer))
    )


def _prometheus(answer: str, verdict: Verdict) -> bool:
    wanted = {BETTER: "A", WORSE: "B"}[verdict]
    said = [
        re.sub(r"[^A-Za-z0-9]", "", part).removeprefix("Response")[:1]
        for part in answer.split("[RESULT]")[1:]
    ]
    return wanted in said


def _judgelm(answer: str, verdict: Verdict) -> bool:
    numbers = _numbers(answer.strip().partition("\n")[0])
    return len(numbers) == 2 and _scaled(numbers, verdict, 1, 10)


def _rubric_rm(answer: str, verdict: Verdict) -> bool:
    winners = [line.rpartition("Winner")[2] for line in answer.split("\n") if "Winner" in line]
    wanted = {BETTER: "ResponseA", WORSE: "ResponseB"}[verdict]
    return any(re.sub(r"[^A-Za-z0-9]", "", winner) == wanted for winner in winners)


def _own_pattern(answer: str, verdict: Verdict) -> bool:
    wanted = {BETTER: "Winner: first", WORSE: "Winner: second"}[verdict]
    return wanted in answer.split("\n")


def _own_keys(answer: str, verdict: Verdict) -> bool:
    return '"a"' in answer and '"b"' in answer and _scaled(_numbers(answer), verdict, 1, 10)


_JSON = Form(r'"(?:s|r|\\u)', _json)
_TAG = "<answer>"
FORMS = {
    **dict.fromkeys(
        (
            "nemotron",
            "nemotron-plain",
            "nemotron-ultra",
            "json",
        ),
        _JSON,
    ),
    "nemotron-boxed": Form(r"\\boxed", _boxed),
    "brrm": Form(r"\\boxed", _boxed_winner),
    "arena-hard": Form(r"\[\[|[Ff]inal", _labels(_GRADES)),
    "mt-bench": Form(r"\[\[|[Ff]inal", _WINNER),
    "rm-r1": Form(_TAG, _tagged_winner),
    "j1": Form(f"{_TAG}|<score_", _j1),
    "think-rm": Form(_TAG, _think_rm),
    "prometheus-2": Form(r"\[RESULT", _prometheus),
    "judgelm": Form(r"\S", _judgelm),
    "rubric-rm": Form("Winner", _rubric_rm),
    "own-pattern": Form("Winner", _own_pattern),
    "own-keys": Form(r'"', _own_keys),
}
