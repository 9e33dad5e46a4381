"""Split decoded texts into turns: one table of chat templates, one splitter for prompts and one for
outputs.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cached_property, lru_cache
from importlib.resources import files

from msgspec import Struct

from genrm_cli.rollouts.reading.known_names import ROLES
from genrm_cli.rollouts.reading.values import words
from genrm_cli.rollouts.rollout import Media, Turn, Turns
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.reasoning import (
    END_TOKENS,
    opened_at_end,
    rstripped_end,
    strip_end_tokens,
)


class Template(Struct, frozen=True, dict=True):
    """The marks of a chat template whose special tokens a decoded text still has, from the table
    `templates.toml`.
    """

    opening: str
    ends: list[str]
    answers_at_once: bool = False
    in_channels: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled opening."""
        return re.compile(self.opening)


_TEMPLATES = [
    Template(**row)
    for row in tomllib.loads(
        files("genrm_cli.rollouts.reading").joinpath("templates.toml").read_text("utf-8")
    )["template"]
]
KEPT_PROMPTS = 128
"""Prompts that are read once; longer ones than `MOST_KEPT_CHARS` are read for each line."""
MOST_KEPT_CHARS = 65_536
# Other names of roles, and the marks that stand for one.
_ROLES = {
    **ROLES,
    **{"environment": "tool", "tool▁outputs▁begin": "tool", "tool▁outputs▁end": "assistant"},
    **{"[INST]": "user", "[/INST]": "assistant", "<</SYS>>": "user", "[SYSTEM_PROMPT]": "system"},
    **{"[TOOL_RESULTS]": "tool", "[/TOOL_RESULTS]": "assistant", "[AVAILABLE_TOOLS]": "system"},
}
# Tokens without a text of their own, before and after turns.
_FRAME_TOKENS = words(
    "<s> <bos> <BOS_TOKEN> [BOS] <|begin_of_text|> <|startoftext|> <｜begin▁of▁sentence｜> "
    "]~!b[ [gMASK] <sop> <pad> <|endoftext|> <|finetune_right_pad_id|> <｜▁pad▁｜> "
    "[/SYSTEM_PROMPT] [/AVAILABLE_TOOLS]"
)
_TOKENS_AROUND = END_TOKENS + _FRAME_TOKENS
_FRAME_START = late_pattern(rf"(?:\s|{'|'.join(map(re.escape, _FRAME_TOKENS))})+")
# Marks that remain without special tokens: a role on a line of its own (ChatML, Gemma), or glued to
# the text before it (Llama 3); and in the frame of gpt-oss, glued to the text on both sides.
_ROLE_LINE = late_pattern(r"^(?P<role>system|user|assistant|tool|model)(?:\n|\Z)", re.MULTILINE)
_ROLE_GLUED = late_pattern(r"(?P<role>system|user|assistant|ipython)\n\n")
_ROLE_HARMONY = late_pattern(
    r"(?P<role>\Asystem(?=You are ChatGPT)|(?<=every message\.)user|assistant\Z)"
)
# A conversation by the first letters of its roles: it ends with the policy, and tools speak only
# between its turns.
_IN_ORDER = late_pattern(r"s?u(?:a(?:u|t+u?))*a")
# What a template may write before the policy: an empty or a closed block of reasoning.
_PREFILL = late_pattern(
    r"\s*(?:<think(?:ing)?>\s*</think(?:ing)?>|<\|channel>thought\s*<channel\|>|</think>)?\s*"
)


class DecodedPrompt(Struct, frozen=True):
    """A decoded prompt.

    Attributes:
        turns: its turns, without the empty turn of the policy that asks for the response.
        template: the template whose tokens it has; None if it has none.
        opened: the tag of reasoning at its end: what the policy writes first continues this
            reasoning.
        awaits_answer: whether it is known to end where the policy begins.
        media: its images and files.
    """

    turns: Turns
    template: Template | None = None
    opened: str = ""
    awaits_answer: bool = False
    media: tuple[Media, ...] = ()


def read_prompt(text: str, role: str = "user") -> DecodedPrompt:
    """Read a prompt that a tokenizer may have decoded; see `_read_prompt`."""
    # The lines of a task have one prompt, and are often neighbours.
    return _read_known(text, role) if len(text) <= MOST_KEPT_CHARS else _read_prompt(text, role)


def _read_prompt(text: str, role: str) -> DecodedPrompt:
    """Read a prompt that a tokenizer may have decoded.

    It is split at a template's tokens if it begins with one or ends where the policy begins; else,
    where special tokens were removed, at the names of roles if the text begins with one, ends with
    the policy's, and they follow each other as in a conversation. Any other text is one turn of
    this role."""
    every = ((template, list(template.pattern.finditer(text))) for template in _TEMPLATES)
    for template, marks in sorted(
        ((one, marks) for one, marks in every if marks), key=lambda each: each[1][0].start()
    ):
        lead = text[: marks[0].start()]
        lead = _body(lead[frame.end() :] if (frame := _FRAME_START.match(lead)) else lead).strip()
        prompt = _prompt_of_marks(text, marks, template)
        if not lead or prompt.awaits_answer:
            # DeepSeek's system prompt has no mark. A prompt cut off at its start begins within a
            # turn.
            said_by = "user" if _role_of(marks[0]) == "assistant" else "system"
            turns = ((Turn(said_by, lead),) if lead else ()) + prompt.turns
            return DecodedPrompt(turns, template, prompt.opened, prompt.awaits_answer)
    if marks := _proven_roles(text):
        return _prompt_of_marks(text, marks, None)
    return DecodedPrompt((Turn(role, text),), opened=opened_at_end(text, is_template=False))


_read_known = lru_cache(maxsize=KEPT_PROMPTS)(_read_prompt)


def messages_of(turns: Turns) -> list[dict[str, str]]:
    """Return turns as messages."""
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def split_output(text: str, template: Template) -> Iterator[Turn]:
    """Yield the turns of an output in which the environment spoke between turns of the policy.

    Only the tokens of the prompt's template begin a turn: after a token that ends the policy's
    turn, a turn of the environment; after that, one of the policy."""
    role = "assistant"
    start = 0
    for mark in template.pattern.finditer(text):
        after = _role_of(mark)
        ends = text.endswith(tuple(template.ends), 0, rstripped_end(text, mark.start()))
        if not ends and not (template.answers_at_once and after == "assistant" != role):
            continue
        if after == role == "assistant":
            continue
        yield Turn(role, text[start : mark.start()])
        role = after
        start = mark.start() if template.in_channels and after == "assistant" else mark.end()
    yield Turn(role, text[start:])


def _role_of(mark: re.Match[str]) -> str:
    role = mark["role"]
    if role.endswith("<<SYS>>"):
        return "system"
    if role.startswith("functions."):
        return "tool"
    return _ROLES.get(role, _ROLES.get(role.lower(), role.lower()))


def _body(text: str) -> str:
    """Return the text of a turn without the tokens after it, and without line breaks around it."""
    return strip_end_tokens(text, _TOKENS_AROUND)[0].strip("\n")


def _prompt_of_marks(
    text: str, marks: list[re.Match[str]], template: Template | None
) -> DecodedPrompt:
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    # Llama 2 has spaces around turns.
    around = None if template is not None and template.answers_at_once else "\n"
    turns = [
        Turn(_role_of(mark), _body(text[mark.end() : end]).strip(around))
        for mark, end in zip(marks, ends, strict=True)
    ]
    if turns[-1].role != "assistant" or _body(tail := text[marks[-1].end() :]) != tail.strip("\n"):
        return DecodedPrompt(tuple(turns), template)
    opened = opened_at_end(text[marks[-1].start() :], is_template=True)
    prefix = turns.pop().text.removesuffix(opened.strip()).strip()
    if not (awaits := bool(opened) or _PREFILL.fullmatch(tail) is not None) or (opened and prefix):
        turns.append(Turn("assistant", prefix))
    return DecodedPrompt(tuple(turns), template, opened, awaits)


def _proven_roles(text: str) -> list[re.Match[str]]:
    """Return the token-free role marks confirmed by the frame of a prompt; empty if there are
    none.
    """
    for pattern in (_ROLE_LINE, _ROLE_GLUED, _ROLE_HARMONY):
        first = pattern.match(text)
        if first is None or first["role"] not in ("system", "user"):
            continue
        marks = list(pattern.finditer(text))
        last = marks[-1]
        awaits = _PREFILL.fullmatch(text, last.end()) or opened_at_end(
            text[last.start() :], is_template=True
        )
        if _role_of(last) != "assistant" or not awaits:
            continue
        marks = [
            mark for mark in marks if mark["role"] == last["role"] or _role_of(mark) != "assistant"
        ]
        if _IN_ORDER.fullmatch("".join(_role_of(mark)[0] for mark in marks)):
            return marks
        return [marks[0], last] if marks[0]["role"] == "user" else []
    return []
