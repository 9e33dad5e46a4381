"""Account for every text of a line: nothing that could be a prompt or a response is passed over.

A format takes its fields. Of all others, whatever their names and however deep they are nested,
numbers, identifiers, URLs, times and texts of one or two words describe the line. So does a text
whose name says that it is a known answer, reasoning, or what a judge or a test said. A text that
repeats what the format took holds nothing new. What is left is *open*: the policy may have written
it, or have answered it, so the line is refused until the user says what it is."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import JsonObject, first_name
from genrm_cli.rollouts.reading.known_names import (
    REFERENCES,
    Fields,
    Role,
    is_label,
    part_named,
    role_named,
)
from genrm_cli.rollouts.reading.values import is_messages, iter_texts, json_in, values_at
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.texts.late_pattern import late_pattern

# A sentence has three words, most names and categories have fewer.
_LEAST_WORDS = 3
# Of a title or a list of categories under the name of a label.
_LABEL_WORDS = 5
_LONG_WORDS = 8  # of an answer that nobody repeats word by word
# An example in a message should fit on a line beside its path.
_SHOWN_CHARS = 40
_SHOWN_FIELDS = 4
_MAX_DEPTH = 60  # deeper values are no writer's, and recursion has a limit
# A word has a letter: numbers and signs alone are none.
_LETTERS = late_pattern(r"[^\W\d_]")
# Scripts without spaces between words: two characters count as a word.
_UNSPACED = late_pattern(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
# Arguments are JSON texts.
_ESCAPE = late_pattern(r'\\[nrt"\\]')
_TOKEN = late_pattern(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")
_CALL = late_pattern(r"\w\(")  # without what closes it: looking for that takes quadratic time
# Dates and times have three words or more, such as `Mon Nov 24 10:00`.
_TIME = late_pattern(
    r"(?:[A-Z][a-z]{2,8},? ){1,2}\d|\d{1,4}[-/. ](?:\d|[A-Z][a-z]{2})|\d{1,2}:\d\d"
)
# What a template or a writer puts around texts that the format took.
_FRAME = late_pattern(
    r"<[|｜][^<>]{1,40}[|｜]>|\b(?:system|user|human|assistant|model|ai|question|answer|q|a)\b",
    re.IGNORECASE,
)
# A text of one of these roles needs no further account.
_SETTLED: tuple[Role | None, ...] = ("reference", "reasoning", "verdict", "metadata")


class FoundText(NamedTuple):
    """A text of a line: its path, the name of its field, and whether a name on its path is that of
    a part of the prompt or the response.

    The text of messages and JSON has the path of the field that holds it."""

    path: str
    name: str
    text: str
    is_part: bool


def is_prose(text: str) -> bool:
    """Whether a text is a sentence or code, not just an identifier, a time or a category."""
    if _is_code(text):
        return True
    words = sum(1 for word in text.split() if _LETTERS.search(word))
    words += len(_UNSPACED.findall(text)) // 2
    return words >= _LEAST_WORDS and not (len(text) < _SHOWN_CHARS and _TIME.match(text))


def _is_code(text: str) -> bool:
    """Whether a text has two lines, a call, or the end of a statement or a block."""
    ending = text.rstrip()
    is_block = ending.endswith("}") and ending[-2:-1].isspace()
    if is_block or ending.endswith((";", "{")) or "\n" in text.strip():
        return True
    return _CALL.search(text, 0, max(0, text.rfind(")"))) is not None


def iter_texts_by_path(
    record: JsonObject, settled: Collection[str] | None = None
) -> Iterator[FoundText]:
    """Yield the texts of a line that neither `settled` nor a known name explains; without paths,
    every text.
    """

    def walk(
        value: object,
        path: str,
        name: str,
        is_part: bool,
        in_message: bool,
        depth: int,
        is_whole: bool = False,
    ) -> Iterator[FoundText]:
        if settled is not None and (path in settled or role_named(name) in _SETTLED):
            return
        # The `message` of a log or an error is a text; one of a chat is an object.
        is_log = name == "message" and isinstance(value, str)
        is_part = is_part or (part_named(name) is not None and not is_log)
        inner = json_in(value) if isinstance(value, str) else value
        is_whole = is_whole or inner is not value
        if depth > _MAX_DEPTH:
            yield FoundText(path, name, "(nested too deeply)", True)
        elif isinstance(inner, list):
            if inner and isinstance(inner[0], (int, float)) and isinstance(inner[-1], (int, float)):
                return  # token ids and logprobs, tens of thousands in a line
            for each in inner:
                yield from walk(each, path, name, is_part, in_message, depth + 1, is_whole)
        elif isinstance(inner, dict):
            in_message = in_message or is_messages([inner])
            # What a text holds has no path of its own.
            is_whole = is_whole or in_message
            for key, each in inner.items():
                if in_message and key in ("role", "from", "type", "channel"):
                    continue
                below = path if is_whole else f"{path}.{key}"
                yield from walk(each, below, key, is_part, in_message, depth + 1, is_whole)
        elif isinstance(value, str) and (text := value.strip()):
            yield FoundText(path, name, text, is_part)

    for name, value in record.items():
        yield from walk(value, name, name, False, False, 0)


def open_fields(record: JsonObject, read: Fields, settled: Collection[str] = ()) -> dict[str, str]:
    """Return an example text of each field that no format, name or content explains, by path.

    `settled` are the paths of fields that the user has said something about."""
    found: dict[str, str] = {}
    said: _FormatTexts | None = None
    for each in iter_texts_by_path(record, {*settled, *read.names()}):
        if not (each.is_part or is_prose(each.text)) or _is_label_text(each):
            continue
        said = said or _FormatTexts(record, read)
        if not said.repeats(each):
            found.setdefault(each.path, each.text)
    return found


def top_of(record: JsonObject, path: str) -> str:
    """Return the field of a line that a path begins with; its own name may have dots."""
    return first_name([record], path)[0]


def roles_of(record: JsonObject, read: Fields, settled: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the fields of a line by what they were taken for, metadata last; `settled` gives the
    roles by path that the user has set. The same line gives the same order in every run.
    """
    roles = {role: list(names) for role, names in read.roles().items() if role != "metadata"}
    for path, role in settled.items():
        if values_at(record, path) is not None:
            roles.setdefault(role, []).append(path)
    tops = {top_of(record, path) for names in roles.values() for path in names}
    left = {top_of(record, path) for path in open_fields(record, read, settled)}
    metadata: list[str] = []
    for name in record:
        if name in tops:
            continue
        texts = iter_texts_by_path({name: record[name]}, ())
        named = role_named(name)
        role = "repeated" if any(is_prose(each.text) for each in texts) else "metadata"
        if name in left:
            role = "not read"
        elif named is not None and named in _SETTLED:
            role = named
        is_metadata = name in read.metadata or role == "metadata"
        (metadata if is_metadata else roles.setdefault(role, [])).append(name)
    roles["metadata"] = metadata
    return {role: names for role, names in roles.items() if names}


def unread_text(texts: Iterable[FoundText], rollouts: Iterable[Rollout]) -> FoundText | None:
    """Return the first sentence that the rollouts of a line do not hold; None without one.

    Reading splits texts and removes markup, so a sentence counts as held if most of its triples of
    neighbouring words are."""
    prose = [each for each in texts if is_prose(each.text)]
    if not prose:
        return None
    held = {triple for each in rollouts for text in _texts_of(each) for triple in _triples(text)}
    for each in prose:
        own = _triples(each.text)
        if 2 * len(own & held) < len(own):
            return each
    return None


def _texts_of(rollout: Rollout) -> Iterator[str]:
    for turn in rollout.prompt:
        yield turn.text
    yield from rollout.tools
    for item in rollout.response or ():
        for name in ("text", "name", "arguments"):
            yield getattr(item, name, "")


def _triples(text: str) -> set[tuple[str, ...]]:
    found = _TOKEN.findall(_ESCAPE.sub(" ", text))
    return set(zip(found, found[1:], found[2:], strict=False))


def repeated_reference(record: JsonObject, response: str) -> str | None:
    """Return the field of a known solution that the response of a conversation repeats word by
    word.

    Such messages are training data. A policy may well give a short answer as the known one is."""
    words = response.split()
    for name in REFERENCES:
        least = _LEAST_WORDS if "solution" in name else _LONG_WORDS
        if len(words) >= least and words in [text.split() for text in iter_texts(record.get(name))]:
            return name
    return None


def describe_open(left: Mapping[str, str], taker: str) -> Message:
    """Return a message that names the open fields of a line with an example of each, and the
    settings that say what they are.
    """
    shown = [f"{path} ({shown_text(text)})" for path, text in list(left.items())[:_SHOWN_FIELDS]]
    more = f" and {len(left) - _SHOWN_FIELDS} more" if len(left) > _SHOWN_FIELDS else ""
    return Message.of(
        f"{', '.join(shown)}{more} could be part of the prompt or a response, but {taker}; "
        "say what each is with ",
        settings_of_roles(),
    )


def settings_of_roles() -> Message:
    """Return the settings that say what a field is."""
    names = ("prompt_field", "response_field", "reference_field", "ignore_fields")
    first, second, third, last = map(SettingRef, names)
    return Message.of(first, ", ", second, ", ", third, " or ", last)


class _FormatTexts:
    """The texts that a format takes from a line."""

    def __init__(self, record: JsonObject, read: Fields) -> None:
        shown = {*read.prompt, *read.context, *read.response}
        taken = {path: values_at(record, path) for path in shown}
        self._texts = {each.text for each in iter_texts_by_path(taken)}
        self._whole = "\0".join(self._texts)
        self._long = sorted(filter(is_prose, self._texts), key=lambda text: (-len(text), text))

    def repeats(self, found: FoundText) -> bool:
        """Whether a text holds nothing but what was taken: as a whole, a part or a composition."""
        text = found.text
        if text in self._texts:
            return True
        if (part_named(found.name) != "response" or is_prose(text)) and text in self._whole:
            return True
        rest = text
        for each in self._long:
            rest = rest.replace(each, " ")
        return rest != text and not is_prose(" ".join(_FRAME.sub(" ", rest).split()))


def _is_label_text(found: FoundText) -> bool:
    text = found.text
    is_short = len(text.split()) <= _LABEL_WORDS and not text.endswith((".", "?", "!"))
    return is_label(found.name) and is_short and "\n" not in text


def shown_text(text: str) -> str:
    """Return the beginning of a text in quotes, on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 3] + "...")
