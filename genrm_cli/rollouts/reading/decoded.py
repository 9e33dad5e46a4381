"""Read texts that a tokenizer decoded: chat templates around the turns of a prompt, and reasoning beside an answer."""

import re

from genrm_cli.rollouts.rollout import Turn

# Tags around reasoning, as policies write them. Each closing tag ends any open block.
_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think|longcat_think"
_TAG = re.compile(
    rf"(?P<open><(?:{_NAMES})>|\[THINK\]|◁think▷|<\|begin_of_thought\|>)"
    rf"|(?P<close></(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>)",
    re.IGNORECASE,
)
_TAG_STARTS = ("<", "[THINK]", "[/THINK]", "[think]", "[/think]", "◁")
_QUOTES = "`'\"“‘"  # a tag directly after one of these is mentioned, not used
_CHANNEL = re.compile(
    r"(?:<\|start\|>[a-z]{0,20})?<\|channel\|>(?P<name>[a-z]{0,20})[^<]{0,200}<\|message\|>", re.IGNORECASE
)
_END_TOKENS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>", "<end_of_turn>"),
    *("<|end|>", "<|return|>", "<|call|>", "<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>", "<|eos|>"),
    *("<｜end▁of▁sentence｜>", "[EOS]", "<pad>", "<|pad|>", "[PAD]", "<|finetune_right_pad_id|>", "<turn|>"),
    *("<|endofprompt|>", "<|user|>", "<|observation|>", "[e~[", "<|role_end|>"),
)


def strip_end_tokens(text: str) -> tuple[str, int]:
    """Remove chat-template tokens from the end of a text; return it with their number.

    A text without them is returned unchanged.
    """
    end, count = _rstripped(text, len(text)), 0
    while text.endswith(_END_TOKENS, 0, end):
        longest = max(len(token) for token in _END_TOKENS if text.endswith(token, 0, end))
        end = _rstripped(text, end - longest)
        count += 1
    return (text[:end], count) if count else (text, 0)


def _rstripped(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


def split_reasoning(text: str) -> tuple[str, str]:
    """Split a text into reasoning and answer.

    Blocks of reasoning are removed wherever they occur. If a chat template pre-fills the opening tag, only the closing
    tag is there: everything before it is reasoning. A block that begins a line and is never closed extends to the end.
    Tags in quotes or backticks are part of the answer. Text without tags is returned unchanged.
    """
    if "<|channel|>" in text:
        return _split_channels(text)
    if not any(start in text for start in _TAG_STARTS):
        return "", text  # most texts: much faster than the pattern
    tags = [tag for tag in _TAG.finditer(text) if text[tag.start() - 1 : tag.start()] not in tuple(_QUOTES)]
    if not tags:
        return "", text
    return _split_tags(text, tags)


def _split_tags(text: str, tags: list[re.Match[str]]) -> tuple[str, str]:
    kept: list[str] = []
    thought: list[str] = []
    opened: re.Match[str] | None = None
    at = 0
    for tag in tags:
        if tag["open"] is not None:
            if opened is None:
                kept.append(text[at : tag.start()])
                opened, at = tag, tag.end()
            continue
        if opened is None:
            thought += [*kept, text[at : tag.start()]]
            kept = []
        else:
            thought.append(text[at : tag.start()])
        opened, at = None, tag.end()
    rest = text[at:]
    if opened is None:
        kept.append(rest)
    elif _begins_line(text, opened.start()) or thought:
        thought.append(rest)
    else:
        return "", text
    return "".join(thought).strip(), "".join(kept).strip()


def _begins_line(text: str, at: int) -> bool:
    line_start = text.rfind("\n", 0, at) + 1
    return not text[line_start:at].strip()


def _split_channels(text: str) -> tuple[str, str]:
    """Split the channels of the Harmony format: `final` and `commentary` are the answer, `analysis` is reasoning."""
    thought: list[str] = []
    said: list[str] = []
    openings = list(_CHANNEL.finditer(text))
    if not openings:
        return "", text
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    for opening, end in zip(openings, ends, strict=True):
        body = strip_end_tokens(text[opening.end() : end])[0].strip()
        (thought if opening["name"].lower() == "analysis" else said).append(body)
    before = text[: openings[0].start()].strip()
    return "\n\n".join(thought), "\n\n".join(part for part in (before, *said) if part)


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
