"""The task of the learning curve: write words that suit the question.

Each question has a worth for each word, from -1 to 1, drawn once. The quality of a response is the
mean worth of its words, so the best policy writes one word of worth 1 for each question, and a
policy that ignores the question reaches about half of that.
"""

import random

QUESTIONS = ("Why?", "How?", "When?", "Who?", "Where?", "Which?", "What?", "Whose?")
WORDS = tuple(f" w{number}" for number in range(16))
LENGTH = 8  # words in a response
_SEED = 7  # of the worths; every arm and every run has the same task


def _draw_worths() -> dict[str, dict[str, float]]:
    """Return the worth of each word for each question: the same 16 numbers, shuffled."""
    rng = random.Random(_SEED)
    numbers = [2 * place / (len(WORDS) - 1) - 1 for place in range(len(WORDS))]
    worths = {}
    for question in QUESTIONS:
        rng.shuffle(numbers)
        worths[question] = dict(zip(WORDS, numbers, strict=True))
    return worths


WORTH = _draw_worths()


def quality(question: str, response: str) -> float:
    """Return the mean worth of the words of a response, from -1 to 1; -1 without words."""
    worths = WORTH[question.strip()]
    found = [worths[f" {word}"] for word in response.split() if f" {word}" in worths]
    return sum(found) / len(found) if found else -1.0
