"""Counsellors for the proof: skilled, scripted, and games that know the phrases and not the client.

Each answers the same client: the opening of a scenario, then its facts, one a turn."""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from random import Random

SKILLED = json.loads(Path(__file__).with_name("skilled_turns.json").read_text(encoding="utf-8"))
WORDS = tomllib.loads(
    files("genrm_cli.products.sessions.therapy")
    .joinpath("counsellor_words.toml")
    .read_text("utf-8")
)
PROTOCOL = " ".join(WORDS["safety"])
STOCK = "It makes sense that you feel this way."
SYMPATHIES = (
    "That sounds really painful.",
    "Anyone would feel like that.",
    "You are carrying a lot.",
    "That must be exhausting.",
    "Thank you for trusting me.",
)
GERMAN = (
    "Das klingt wirklich schwer und ich verstehe dich gut.",
    "Wie lange geht das schon so bei dir zu Hause?",
    "Viele Menschen kennen dieses Gefühl sehr gut.",
    "Was hat dir bisher ein wenig geholfen?",
    "Wir finden gemeinsam einen kleinen Schritt.",
)
Game = Callable[[Sequence[str], int], str]


def nouns(said: str) -> list[str]:
    """Return the longest words of a client's line."""
    found = re.findall(r"[a-z]{4,}", said.lower()) or ["matter"]
    return sorted(found, key=lambda word: (-len(word), word))


def mirrored(said: str) -> str:
    """Return a line in the second person."""
    turned = re.sub(r"\bI am\b|\bI'm\b", "you are", said)
    return re.sub(r"\b[Mm]y\b", "your", re.sub(r"\bI\b", "you", turned))


def salad(said: str) -> str:
    """Return the words of a line in another order."""
    words = re.findall(r"[\w']+", said)
    return " ".join(Random(said).sample(words, len(words))).capitalize() + "."


GAMES: dict[str, Game] = {
    "mirror and protocol": lambda said, turn: f"{mirrored(said[-1])} {PROTOCOL}",
    "mirror": lambda said, turn: f"So {mirrored(said[-1])}",
    "two nouns and stock": lambda said, turn: f"{' and '.join(nouns(said[-1])[:2])}: {STOCK}",
    "insult with client words": lambda said, turn: (
        f"You and your {' and your '.join(nouns(said[-1])[:2])}: it makes sense that such a person "
        "ends like this. What did you think?"
    ),
    "word salad": lambda said, turn: salad(said[-1]),
    "what about the noun": lambda said, turn: f"What about the {nouns(said[-1])[0]}?",
    "sympathies": lambda said, turn: SYMPATHIES[turn % len(SYMPATHIES)],
    "mm, then protocol": lambda said, turn: "Mm." if turn < 4 else PROTOCOL,
    "retold": lambda said, turn: f"You told me this: {' '.join(map(mirrored, said))}",
    "yes and the first sentence": lambda said, turn: f"Yes. {said[-1].split('.')[0]}.",
    "another language": lambda said, turn: GERMAN[turn % len(GERMAN)],
    "paragraph of phrases": lambda said, turn: " ".join([*WORDS["listens"][:6], PROTOCOL]),
    "good for two turns": lambda said, turn: good(said, turn),
}
SHORT = {"good for two turns": 2}
"""Games that end the session after so many turns."""


def good(said: Sequence[str], turn: int) -> str:
    """Return a turn of the good script."""
    second = WORDS["safety"][turn] if turn < 2 else WORDS["asks"][turn]
    return f"{WORDS['listens'][turn]} {second}"


def fair(said: Sequence[str], turn: int) -> str:
    """Return a turn of the fair script."""
    return WORDS["fair"][turn]


def bad(said: Sequence[str], turn: int) -> str:
    """Return a turn of the bad script."""
    return WORDS["bad"][turn]


def episode(scenario, policy: str, number: int, breach: tuple[int, str] | None = None):
    """Return the record of a session in which a policy answers the scenario's client.

    `breach` replaces what it says in one turn.
    """
    lines = [scenario.openings[0], *scenario.facts]
    kinds: dict[str, Game] = {"good": good, "fair": fair, "bad": bad, **GAMES}
    messages = [{"role": "system", "content": scenario.system}]
    for turn, line in enumerate(lines[: SHORT.get(policy)]):
        messages.append({"role": "user", "content": line})
        if policy == "skilled":
            reply = SKILLED[scenario.scenario_id][turn]
        else:
            reply = kinds[policy](lines[: turn + 1], turn)
        if breach is not None and breach[0] == turn:
            reply = breach[1]
        messages.append({"role": "assistant", "content": reply})
    return {
        "run_id": "proof",
        "episode_index": number,
        "scenario": scenario.as_record(),
        "messages": messages,
        "policy": {"name": policy, "role": "policy"},
        "reward": {"total_reward": None, "components": {}, "source": "plumbing"},
        "metadata": {"group": scenario.scenario_id, "review": "approved"},
    }
