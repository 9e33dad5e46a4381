"""Tell reasoning from answer, in texts of policies and in replies of judges, and strip the tokens
at their end.

A policy's blocks are removed wherever they stand, and what only mentions their tags stays. A judge
is held to more: its answer is what follows its last thought (`find_answer`)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from genrm_cli.texts.late_pattern import late_pattern

# Tags around reasoning, as chat templates write them. In a policy's text, each closing tag ends
# any open block.
_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think|longcat_think"
_WORDS = "think(?:ing)?|thoughts?|reasoning"
_OPEN = (
    rf"<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|channel>thought(?=\s|\Z)|<\|inner_prefix\|>|"
    rf"<\|(?:(?:begin|start)_(?:of_)?)?(?:{_WORDS})(?:_(?:start|begin))?\|>"
)
_CLOSE = (
    rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<channel\|>|<\|inner_suffix\|>|"
    rf"<\|(?:/|end_(?:of_)?)(?:{_WORDS})\|>|<\|(?:{_WORDS})_end\|>"
)
_TAG = late_pattern(rf"(?P<open>{_OPEN})|(?P<close>{_CLOSE})", re.IGNORECASE)
# Each tag begins with one, which is found much faster than a tag.
_TAG_START = late_pattern(r"[<\[◁]")
_ANGLE = late_pattern("<")  # found many times as fast as one of several signs
# Of a tag, all but what tells one family from another: `<|begin_of_thought|>`, `<|think_end|>`.
_NOT_FAMILY = late_pattern(r"begin|start|end|of|prefix|suffix|(?<=channel>)thought|[^a-z\[◁]")
# Quotes and backticks, but no apostrophes: r'...' is a string, don't is a word.
_QUOTE = late_pattern(r"[`\"]|(?<!\w)'|'(?!\w)|(?<=\b[rbfuRBFU])'")
_TAG_OR_QUOTE = late_pattern(rf"{_TAG.pattern}|(?P<quote>{_QUOTE.pattern})", re.IGNORECASE)
# Indented by four spaces, it is code itself.
_FENCE = late_pattern(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
# Thoughts that count at the beginning only, because answers hold such words and elements: Granite,
# HyperCLOVA X, whose thoughts are a role, and tags of prompts.
_LEADING = late_pattern(
    r"\s*(?:here(?: is|'s) my thought process:(?P<said>.*?)here(?: is|'s) my response:|"
    r"(?:(?:<\|im_start\|>)?assistant)?/think\n(?P<role>.*?)<\|im_end\|>\s*"
    r"(?:<\|im_start\|>)?assistant\n|"
    r"<(?P<tag>reason|scratchpad)>(?P<tagged>.*?)(?:</(?P=tag)>|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_CHANNEL = late_pattern(
    r"(?:<\|start\|>[a-z]{0,20})?<\|channel\|>(?P<name>[a-z]{0,20})[^<]{0,200}<\|message\|>",
    re.IGNORECASE,
)
_CHANNEL_OR_END = late_pattern(rf"{_CHANNEL.pattern}|<\|end\|>", re.IGNORECASE)
# gpt-oss decoded without its special tokens: `analysis...assistantfinal...`, or cut off in its
# analysis.
_BARE_CHANNEL = late_pattern(
    r"(?:\A|assistant)(?P<name>analysis|final|commentary)(?: to=[\w.-]{1,80} ?(?:code|json)?)?"
)
# A sentence glued to the name of its channel; prose has a space after `analysis`.
_BARE_ANALYSIS = late_pattern(r"analysis[A-Z][A-Za-z'’]*,? [a-z0-9\[{\"'*`<]")
# A prompt that ends so lets the policy begin within its reasoning.
_OPENED = late_pattern(rf"(?:{_OPEN}|<\|channel\|>analysis<\|message\|>)\s*\Z", re.IGNORECASE)
# Between two tags that are only mentioned: `<think> and </think>`.
_NO_THOUGHT = late_pattern(r"\W*(?:(?:and|or|to|until)\W*)?")
# A judge mentions a tag: "`<reasoning>`", "the <reasoning> tags".
_QUOTED = late_pattern(r"[`\"'“‘(].*[`\"'”’)]", re.DOTALL)
_NAMED = late_pattern(r"\s+(?:tag|block|section|element|marker|token)s?\b")
_OPENED_REACH = 80  # characters
# Where a policy begins, in prompts without a known template.
_ASKS_FOR_ANSWER = late_pattern(r"(?:\A|\n|assistant:?)[ \t]*\Z", re.IGNORECASE)
# What some templates write around the answer.
_ANSWER_START = late_pattern(
    r"\s*<\|(?:answer_start|start_response|start_text|begin_of_solution)\|>\s*", re.IGNORECASE
)
# Left at the end of outputs that were decoded with special tokens.
_ENDS = (
    "<|im_end|> <|eot_id|> <|eom_id|> <|end_of_text|> <|endoftext|> </s> <eos> <end_of_turn> "
    "<|end|> <|return|> <|call|> <|end_of_turn|> <|END_OF_TURN_TOKEN|> <|END_RESPONSE|> "
    "<|eos|> <｜end▁of▁sentence｜> [EOS] <pad> <|pad|> [PAD] <|finetune_right_pad_id|> <turn|> "
    "<|endofprompt|> <|user|> <|observation|> [e~[ <|role_end|> <|eot|> <seed:eos> "
    "<SPECIAL_12> <|answer_end|> <|END_TEXT|> <|end_of_solution|>"
)
END_TOKENS = tuple(_ENDS.split())


def strip_end_tokens(text: str, tokens: tuple[str, ...] = END_TOKENS) -> tuple[str, int]:
    """Remove chat-template tokens from the end of a text; return it, unchanged without any, with
    their number.
    """
    end = rstripped_end(text, len(text))
    count = 0
    while text.endswith(tokens, 0, end):
        longest = max(len(token) for token in tokens if text.endswith(token, 0, end))
        end = rstripped_end(text, end - longest)
        count += 1
    return text[:end] if count else text, count


def rstripped_end(text: str, end: int) -> int:
    """Return where the text before `end` ends without its trailing white space."""
    while end and text[end - 1].isspace():
        end -= 1
    return end


def opened_at_end(text: str, is_template: bool) -> str:
    """Return the tag of reasoning that a prompt opens at its end, for the policy to continue; empty
    if there is none.

    If its end is not known to begin the policy's turn (`is_template`), the tag must stand on a line
    of its own or after `assistant`, because a question may end in the name of a tag."""
    tag = _OPENED.search(text, max(0, len(text) - _OPENED_REACH))
    if tag is None:
        return ""
    before = text[max(0, tag.start() - _OPENED_REACH) : tag.start()]
    is_opened = is_template or "\n" in tag.group() or _ASKS_FOR_ANSWER.search(before)
    return tag.group() if is_opened else ""


class Split(NamedTuple):
    """A text, split into reasoning and answer; unless it `is_opened`, only a closing tag says that
    it is reasoning.
    """

    reasoning: str
    answer: str
    is_opened: bool = True


def split_reasoning(text: str) -> Split:
    """Split a text into reasoning and answer.

    Blocks of reasoning are removed wherever they occur. If a chat template pre-fills the opening
    tag, only the closing tag is there: everything before it is reasoning. Further closing tags
    without an opening one hide nothing, as in the reasoning parsers of vLLM. A block that begins a
    line and is never closed extends to the end. Tags in quotes, backticks or fenced code are part
    of the answer, as is a block without a word of reasoning that follows other text on its line.
    Text without tags is returned unchanged."""
    if (leading := _LEADING.match(text)) is not None:
        rest = _split_marked(text[leading.end() :].strip())
        thoughts = leading[_thought_in(leading)].strip(), rest.reasoning
        return Split("\n\n".join(filter(None, thoughts)), rest.answer)
    return _split_marked(text)


def _split_marked(text: str) -> Split:
    """Split a text at the markers that count wherever they stand."""
    if _in_channels(text):
        return _split_channels(text, list(_CHANNEL.finditer(text)))
    if _in_bare_channels(text):
        return _split_channels(text, list(_BARE_CHANNEL.finditer(text)))
    if not _may_have_tags(text):
        return Split("", text)
    tags = _used_tags(text)
    split = _split_tags(text, tags) if tags else Split("", text)
    frame = _ANSWER_START.match(split.answer)
    return split._replace(answer=split.answer[frame.end() :]) if frame else split


class FoundAnswer(NamedTuple):
    """Where a judge's answer starts in its reply, after the last thought; `open_tag` begins a
    thought that the answer never closes; `tags` are the spans of all tags of reasoning.
    """

    start: int
    open_tag: str
    tags: tuple[tuple[int, int], ...] = ()


def find_answer(text: str) -> FoundAnswer:
    """Find the answer of a judge.

    An opening tag begins a thought wherever it stands, unless it is quoted or called a tag. One
    with which the reply begins ends with a tag of its own family: thoughts mention others. Others
    end with any, because a thought whose opening tag a chat template pre-fills may mention them.
    Without an opening tag, the last closing one of the first family ends the thoughts."""
    opened = closed = None
    is_first = False
    start = 0
    tags = _tags_of_judge(text)
    for tag in tags:
        if tag.is_opening:
            if opened is None:
                is_first = not text[start : tag.start].strip()
                opened = tag
            continue
        expected = closed if opened is None else opened
        is_other = expected is not None and expected.family != tag.family
        if is_other and (opened is None or is_first):
            continue
        closed = tag
        opened = None
        start = tag.end
    frame = _ANSWER_START.match(text, start)
    start = frame.end() if frame else start
    spans = tuple([(tag.start, tag.end) for tag in tags])
    return FoundAnswer(start, text[opened.start : opened.end] if opened else "", spans)


class _ThoughtTag(NamedTuple):
    start: int
    end: int
    is_opening: bool
    family: str


def _tags_of_judge(text: str) -> Sequence[_ThoughtTag]:
    """Return the tags of a judge's reply that are not mentioned only."""
    found: Sequence[_ThoughtTag] = ()
    if _in_channels(text):
        found = list(_iter_channels(_CHANNEL_OR_END.finditer(text)))
    elif _in_bare_channels(text):
        found = list(_iter_channels(_BARE_CHANNEL.finditer(text)))
    if _may_have_tags(text):
        found = sorted((*found, *_iter_plain_tags(text)))
    if (leading := _LEADING.match(text)) is not None:
        start, end = leading.span(_thought_in(leading))
        marks = [_ThoughtTag(leading.start(), start, True, "leading")]
        if end < leading.end():
            marks.append(_ThoughtTag(end, leading.end(), False, "leading"))
        found = sorted((*found, *marks))
    return found


def _thought_in(leading: re.Match[str]) -> str:
    """Return the group of a match of `_LEADING` that holds the thought."""
    return next(name for name in ("said", "role", "tagged") if leading[name] is not None)


def _iter_channels(marks: Iterable[re.Match[str]]) -> Iterator[_ThoughtTag]:
    for mark in marks:
        is_opening = (mark["name"] or "").lower() == "analysis"
        yield _ThoughtTag(mark.start(), mark.end(), is_opening, "harmony")


def _find_tags(text: str) -> Iterator[re.Match[str]]:
    sign = _TAG_START if "[" in text or "◁" in text else _ANGLE
    starts = (found.start() for found in sign.finditer(text))
    return filter(None, (_TAG.match(text, start) for start in starts))


def _iter_plain_tags(text: str) -> Iterator[_ThoughtTag]:
    for tag in _find_tags(text):
        around = text[max(0, tag.start() - 1) : tag.end() + 1]
        is_opening = tag["open"] is not None
        if is_opening and (_QUOTED.fullmatch(around) or _NAMED.match(text, tag.end())):
            continue
        yield _ThoughtTag(tag.start(), tag.end(), is_opening, _NOT_FAMILY.sub("", tag[0].lower()))


# One sign is found many times as fast as a word, and most texts have none.


def _in_channels(text: str) -> bool:
    return "<" in text and "<|channel|>" in text


def _may_have_tags(text: str) -> bool:
    is_squared = "]" in text and ("THINK]" in text or "think]" in text)
    return is_squared or "<" in text or "◁" in text


def _in_bare_channels(text: str) -> bool:
    return text.startswith("analysis") and (
        "assistantfinal" in text or _BARE_ANALYSIS.match(text) is not None
    )


def _used_tags(text: str) -> list[re.Match[str]]:
    """Return the tags that are used, not those mentioned in quotes or code."""
    used: list[re.Match[str]] = []
    tags = list(_find_tags(text))
    quoted = _quoted_tags(text, tags)
    last_fence = max(text.rfind("```"), text.rfind("~~~"))
    is_open = in_fence = is_example = False  # an example opens and closes within one fence
    at = 0
    for tag in tags:
        in_fence ^= len(_FENCE.findall(text, at, tag.start())) % 2 == 1
        is_example &= in_fence
        at = tag.end()
        opens = tag["open"] is not None
        fenced = not is_open and in_fence and last_fence > at and (opens or is_example)
        if fenced or tag.start() in quoted:
            is_example |= fenced and opens
            continue
        used.append(tag)
        is_open = opens
        in_fence = False
    return used


def _quoted_tags(text: str, tags: Iterable[re.Match[str]]) -> set[int]:
    """Return where the tags between quotes begin: those with an odd number of one kind of quote
    before them on their line, and after them.
    """
    quoted = set()
    end = -1
    for tag in tags:
        if tag.start() < end:
            continue  # on a line that is read
        start = text.rfind("\n", 0, tag.start()) + 1
        end = text.find("\n", tag.end())
        end = len(text) if end < 0 else end
        totals = Counter(_QUOTE.findall(text, start, end))
        before = Counter[str]()
        for found in _TAG_OR_QUOTE.finditer(text, start, end):
            if found["quote"]:
                before[found["quote"]] += 1
            elif text.endswith(("“", "‘"), 0, found.start()) or any(
                count % 2 and totals[quote] % 2 == 0 for quote, count in before.items()
            ):
                quoted.add(found.start())
    return quoted


def _split_tags(text: str, tags: list[re.Match[str]]) -> Split:
    kept: list[str] = []
    thought: list[str] = []
    opened: re.Match[str] | None = None
    at = nested = 0  # nested: opening tags within the block
    for tag in tags:
        if tag["open"] is not None:
            if opened is None:
                kept.append(text[at : tag.start()])
                opened = tag
                at = tag.end()
            else:
                nested += 1
            continue
        if opened is None and tag is not tags[0] and not nested:
            continue
        is_mention = _NO_THOUGHT.fullmatch(text, at, tag.start()) is not None
        if opened is not None and is_mention and not _begins_line(text, opened.start()):
            # "between <think> and </think>": it hides nothing
            kept.append(text[opened.start() : tag.end()])
        else:
            thought.append(text[at : tag.start()])
        if opened is None:
            nested = max(0, nested - 1)
        opened = None
        at = tag.end()
    if opened is not None and not _begins_line(text, opened.start()) and not thought:
        return Split("", text)
    (kept if opened is None else thought).append(text[at:])
    return Split("".join(thought).strip(), "".join(kept).strip(), tags[0]["open"] is not None)


def _begins_line(text: str, at: int) -> bool:
    line_start = text.rfind("\n", 0, at) + 1
    return not text[line_start:at].strip()


def _split_channels(text: str, openings: list[re.Match[str]]) -> Split:
    """Split the channels of the Harmony format: `final` and `commentary` are the answer, `analysis`
    is reasoning.
    """
    thought: list[str] = []
    said: list[str] = []
    if not openings:
        return Split("", text)
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    for opening, end in zip(openings, ends, strict=True):
        body = strip_end_tokens(text[opening.end() : end])[0].strip()
        (thought if opening["name"].lower() == "analysis" else said).append(body)
    before = text[: openings[0].start()].strip()
    return Split("\n\n".join(thought), "\n\n".join(part for part in (before, *said) if part))
