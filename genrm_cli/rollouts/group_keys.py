"""Determine the group of a rollout by its key."""

import hashlib
import json
from functools import lru_cache

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.rollouts.rollout import Rollout, Turn, Turns


def group_key(rollout: Rollout, line: int | str, override: str | None = None) -> str:
    """Return the key of the group that a rollout belongs to.

    It is the override (from `group_by`), or else the task of the line, or else the prompt, always
    together with the principle. A line that is a whole group, and a rollout with neither task nor
    prompt, get their own key, which names the line."""
    key = f"line:{line}"
    if override is not None:
        key = override
    elif rollout.task is not None and not rollout.line_is_group:
        key = rollout.task
    elif rollout.has_prompt and not rollout.line_is_group:
        key = f"prompt:{digest_of_prompt(rollout.prompt):016x}"
    if rollout.principle is not None:
        key += f" principle:{hashlib.sha256(rollout.principle.encode()).hexdigest()[:16]}"
    return key


@lru_cache(maxsize=8)  # the rollouts of a task ask again, each several times
def digest_of_prompt(prompt: Turns) -> int:
    """Return a 64-bit digest of a conversation: equal conversations, equal digests."""
    digest = hashlib.blake2b(digest_size=8)
    for turn in prompt:
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        for text in turn:
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return int.from_bytes(digest.digest(), "little")


def value_at(record: JsonObject, path: str) -> str | None:
    """Return the text or number at a path, or at several, separated by commas; None if one of them
    is missing.
    """
    values = [field_at(record, part.strip()) for part in path.split(",")]
    if not all(isinstance(value, (str, int, float)) and value != "" for value in values):
        return None
    texts = list(map(str, values))
    return f"{path}:{texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False)}"


# As verl and TRL, ROLL, older trainers and rLLM call it.
_STEP_NAMES = ("step", "global_step", "global_steps", "training_step")


def step_of(record: JsonObject) -> str | None:
    """Return the training step that a line names, with the name of its field; None if it names
    none.
    """
    found = (value_at(record, name) for name in _STEP_NAMES if name in record)
    return next((step for step in found if step is not None), None)


def digest_of_key(key: str) -> int:
    """Return a 64-bit digest of a group's key, or of any other text."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")


def prompt_as_key(prompt: int, rollout: Rollout) -> int:
    """Return the digest of a prompt with the principle; 0 for no prompt, which is the same as no
    other.
    """
    if not prompt or not rollout.has_prompt:
        return 0
    if rollout.principle is None:
        return prompt
    return digest_of_prompt((Turn(f"{prompt:016x}", rollout.principle),))
