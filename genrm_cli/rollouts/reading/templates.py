"""Split a prompt that a tokenizer decoded into its turns: chat templates, with or without their special tokens."""

import re

from genrm_cli.rollouts.reading.reasoning import strip_end_tokens
from genrm_cli.rollouts.response import Turn

_TEMPLATES = (
    re.compile(r"<\|im_start\|>(?P<role>[a-z]{1,20})\n"),
    re.compile(r"<\|start_header_id\|>(?P<role>[a-z]{1,20})<\|end_header_id\|>\n*"),
    re.compile(r"<start_of_turn>(?P<role>[a-z]{1,20})\n"),
    re.compile(r"<\|(?P<role>system|user|assistant|observation)\|>\n?"),
)
_ROLE_LINE = re.compile(r"^(?P<role>system|user|assistant|tool|model)\n", re.MULTILINE)
_ROLES = {"model": "assistant", "observation": "tool", "developer": "system", "ipython": "tool"}
_PREFILL = re.compile(r"\s*(?:<think(?:ing)?>\s*)?(?:</think(?:ing)?>\s*)?")


def turns_of_template(text: str, role: str = "user") -> tuple[Turn, ...]:
    """Return a decoded prompt as turns; as one turn if it has no template.

    The empty assistant turn that prompts for the response is omitted. Role words on their own lines count if the text
    begins with one and ends with `assistant`, as in prompts of verl, ROLL and SkyRL.
    """
    for template in _TEMPLATES:
        if openings := list(template.finditer(text)):
            return _turns_between(text, openings)
    openings = list(_ROLE_LINE.finditer(text))
    if openings and openings[0].start() == 0 and openings[0]["role"] in ("system", "user"):
        last = openings[-1]
        if last["role"] in ("assistant", "model") and _PREFILL.fullmatch(text, last.end()):
            return _turns_between(text, openings)
    return (Turn(role, text),)


def messages_of_template(prompt: object) -> object:
    """Return a decoded prompt as messages; anything but text is returned unchanged."""
    if not isinstance(prompt, str):
        return prompt
    return [{"role": turn.role, "content": turn.text} for turn in turns_of_template(prompt)]


def _turns_between(text: str, openings: list[re.Match[str]]) -> tuple[Turn, ...]:
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    turns = []
    for opening, end in zip(openings, ends, strict=True):
        body = strip_end_tokens(text[opening.end() : end])[0].strip("\n")
        turns.append(Turn(_ROLES.get(opening["role"], opening["role"]), body))
    if turns[-1].role == "assistant" and _PREFILL.fullmatch(turns[-1].text):
        turns.pop()
    return tuple(turns)
