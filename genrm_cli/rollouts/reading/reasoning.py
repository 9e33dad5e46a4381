"""Separate a policy's reasoning from its answer, and the answer from the chat template around it."""

import re

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
