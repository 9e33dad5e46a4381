"""The judge of the learning curve: it hears qualities with noise, and some replies fail.

A reply has a level of its own, by which it grades everything that it shows too high or too low. Two
responses in one reply share it; scores of single responses do not.
"""

import json
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.learning.task import quality
from judge_behaviour import find_responses, message_text
from small_server import Reply, completion

GAIN = 2.0  # points of the scale for one unit of quality
NOISE = 1.0  # standard deviation of what is heard of one response, in points
LEVEL = 0.7  # standard deviation of the level of a reply, in points


def _grade(points: float, lowest: int, highest: int) -> int:
    """Return the nearest grade of a scale."""
    return max(lowest, min(highest, round(points)))


@dataclass
class NoisyJudge:
    """Answers with pairs of grades, or with one grade; counts its replies."""

    seed: int
    failures: float = 0.0
    """The share of replies without a verdict."""
    replies: int = 0
    _rng: random.Random = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def grade(self, question: str, response: str) -> float | None:
        """Return the grade of one response, from 1 to 5; None if the reply fails."""
        with self._lock:
            self.replies += 1
            if self._rng.random() < self.failures:
                return None
            heard = GAIN * quality(question, response) + self._rng.gauss(0, NOISE)
            return _grade(3 + heard + self._rng.gauss(0, LEVEL), 1, 5)

    def compare(self, question: str, responses: tuple[str, str]) -> str:
        """Return the text of a reply of NVIDIA's GenRM."""
        with self._lock:
            self.replies += 1
            if self._rng.random() < self.failures:
                return "Both responses have their merits."
            level = self._rng.gauss(0, LEVEL)
            heard = [
                GAIN * quality(question, response) + self._rng.gauss(0, NOISE)
                for response in responses
            ]
        lead = heard[0] - heard[1]
        verdict = {
            "score_1": _grade(3 + heard[0] + level, 1, 5),
            "score_2": _grade(3 + heard[1] + level, 1, 5),
            "ranking": _grade(3.5 - lead, 1, 6),
        }
        return json.dumps(verdict)

    def answer(self, request: Mapping[str, Any]) -> Reply:
        """Answer a chat completion request."""
        messages = request["messages"]
        responses = find_responses(messages)
        if responses is None:
            raise ValueError("the request shows no pair of responses")
        return completion(self.compare(message_text(messages[0]), responses))
