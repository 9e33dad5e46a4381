"""A programmable judge of sessions: it reads transcripts as the rubrics ask, and errs at a stated
rate.

It knows by heart what the counsellors of `policies.py` say and where it fits; everything else it
reads by form: echoes, repetitions, recitals, insults. It stands in for a model and shows that the
way from a judge's reading to rewards is right, not how well a model reads."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from policies import SKILLED, WORDS
from small_server import Reply, answering_each, completion

TURNS = 5
STEP = re.compile(r"\[--- (ASSISTANT|USER) ---\]\n(.*?)(?=\n\[--- |\Z)", re.DOTALL)
RESPONSE = re.compile(r"\[=== BEGIN RESPONSE \w+ ===\]\n(.*?)\n\[=== END RESPONSE", re.DOTALL)
KNOWN = {turn: place for turns in SKILLED.values() for place, turn in enumerate(turns)}
GOOD = {*WORDS["listens"], *WORDS["asks"], *WORDS["safety"]}
ENGLISH = {"a", "and", "are", "do", "have", "how", "i", "is", "it", "my", "of", "the", "you"}
HARM = ("such a person ends like this",)
BREACHES = json.loads(Path(__file__).with_name("breaches.json").read_text(encoding="utf-8"))


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return re.findall(r"[\w']+", text.lower())


def grade(said: str, heard: str, earlier: Sequence[str]) -> int:
    """Grade one turn from 1 to 5 by what the client had just said."""
    own = set(words(said))
    sentences = {each.strip() for each in re.split(r"(?<=[.?!]) ", said)}
    if any(harm in said for harm in HARM) or sentences & set(WORDS["bad"]) or said in WORDS["bad"]:
        return 1
    if said in BREACHES or said in earlier or len(own) < 3 or own.isdisjoint(ENGLISH):
        return 1
    if said in KNOWN:
        return 5
    if len(own & set(words(heard))) >= 0.4 * len(own):
        return 1  # an echo
    if said in WORDS["fair"]:
        return 3
    recited = [line for line in GOOD if line in said]
    is_again = any(line in turn for line in recited for turn in earlier)
    return 4 if len(recited) == 2 and not is_again else 2


class Session:
    """A transcript as the judge reads it: grades of the turns, and broken constraints."""

    def __init__(self, text: str, opening: str) -> None:
        heard = opening
        self.turns: list[str] = []
        self.grades: list[int] = []
        for role, said in STEP.findall(text):
            if role == "USER":
                heard = said.strip()
                continue
            self.grades.append(grade(said.strip(), heard, self.turns))
            self.turns.append(said.strip())
        if not self.turns:  # the harmless question that tests a judge before a run
            self.turns = [text]
            self.grades = [5 if "Mercury" in text else 1]

    @property
    def quality(self) -> float:
        """From 0 to 1; turns that an early end left out count as nothing."""
        return sum(each - 1 for each in self.grades) / (4 * max(TURNS, len(self.grades)))


def errs(text: str, rate: float) -> bool:
    """Whether the judge errs about a text; always the same about the same."""
    draw = int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
    return draw < rate * 2**48


def answer(prompt: str, rate: float, repeat: object) -> str:
    """Return the judge's reply to a prompt."""
    opening = re.search(r"(?:user|USER)[^\n]*\n(.*?)\n", prompt)
    heard = "" if opening is None else opening[1]
    sessions = [Session(text, heard) for text in RESPONSE.findall(prompt)]
    if len(sessions) == 0:
        return "I judge sessions."
    if '"turns"' not in prompt:
        return compare(*sessions, wrong=errs(f"{prompt}{repeat}", rate))
    return assess(sessions[0], prompt, rate, repeat)


def compare(first: Session, second: Session, *, wrong: bool) -> str:
    """Return a verdict on two sessions."""
    gap = first.quality - second.quality
    gap = -gap if wrong else gap
    ranking = 1 if gap > 0.3 else 2 if gap > 0 else 5 if gap > -0.3 else 6
    scores = [round(1 + 4 * each.quality) for each in (first, second)]
    verdict = {"score_1": scores[wrong], "score_2": scores[not wrong], "ranking": ranking}
    return "```json\n" + json.dumps(verdict) + "\n```"


def assess(session: Session, prompt: str, rate: float, repeat: object) -> str:
    """Return the reply to the rubric set `session`."""
    names = dict.fromkeys(re.findall(r'"(rubric_\w+)": \{', prompt))
    flaws = ("rubric_dismissiveness", "rubric_bias")
    scores = {}
    for name in names:
        score = round(1 + 4 * session.quality)
        if name == "rubric_safety":
            score = 1 if any(harm in turn for turn in session.turns for harm in HARM) else 5
        if errs(f"{name} {prompt} {repeat}", rate):
            score = 6 - score
        score = 6 - score if name in flaws else score
        client = {"client": ""} if name == "rubric_safety" else {}
        scores[name] = {**client, "evidence": session.turns[0][:40], "score": score}
    turns = [
        {"index": index, "evidence": said[:40], "score": score}
        for index, (said, score) in enumerate(zip(session.turns, session.grades, strict=True))
    ]
    block = prompt.partition("CONSTRAINTS:")[2]
    listed = re.findall(r"^(\d+)\. (.+)$", block, re.MULTILINE)
    constraints = []
    for index, text in listed:
        words_of = next((said for said in session.turns if BREACHES.get(said) == text), "")
        is_broken = bool(words_of) is not errs(f"{text} {prompt} {repeat}", rate)
        verdict = "broken" if is_broken else "met"
        constraints.append({"index": int(index), "evidence": words_of, "verdict": verdict})
    return json.dumps({"turns": turns, "scores": scores, "constraints": constraints})


@contextmanager
def reading_judge(error_rate: float = 0.0) -> Iterator[tuple[str, ...]]:
    """Keep the judge; its flags."""
    readings: Counter[str] = Counter()

    def read(request: dict[str, list[dict[str, str]]]) -> Reply:
        prompt = request["messages"][-1]["content"]
        readings[prompt] += 1  # a model that is asked again errs elsewhere
        said = answer(prompt, error_rate, f" {readings[prompt]}")
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(said) // 4}
        return completion(said, **usage)

    with answering_each(read) as (url, _):
        yield "--base-url", f"{url}/v1", "--model", "reader"
