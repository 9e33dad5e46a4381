"""Account for every text of a line: nothing that could be a prompt or a response is passed over.

A format takes its fields. Of all others, whatever their names and however deep they are nested,
numbers, identifiers, URLs, times and texts of one or two words describe the line. So does a text
whose name says that it is a known answer, reasoning, or what a judge or a test said. A text that
repeats what the format took holds nothing new. What is left is *open*: the policy may have written
it, or have answered it, so the line is refused until the user says what it is."""

import json
import re
from collections.abc import Collection, Iterator, Mapping

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.known_names import (
    REFERENCES,
    Fields,
    Role,
    is_label,
    is_messages,
    iter_texts,
    part_named,
    role_named,
)

# A sentence has three words, most names and categories have fewer.
_LEAST_WORDS = 3
_LABEL_WORDS = 5
_LONG_WORDS = 8  # of an answer that nobody repeats word by word
_SHOWN_CHARS = 40
_SHOWN_FIELDS = 4
_MAX_DEPTH = 60  # deeper values are no writer's, and recursion has a limit
_LETTERS = re.compile(r"[^\W\d_]")
# Scripts without spaces between words: two characters count as a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_CODE = re.compile(r"\S.*\n.*\S|\w\([^)]*\)|[;{]\s*\Z|\s\}\s*\Z", re.DOTALL)
_TIME = re.compile(r"(?:[A-Z][a-z]{2,8},? ){1,2}\d|\d{1,4}[-/. ](?:\d|[A-Z][a-z]{2})|\d{1,2}:\d\d")
_FRAME = re.compile(
    r"<[|｜][^<>]{1,40}[|｜]>|\b(?:system|user|human|assistant|model|ai|question|answer|q|a)\b",
    re.IGNORECASE,
)
_SETTLED: frozenset[Role | None] = frozenset(("reference", "reasoning", "verdict", "metadata"))


def is_prose(text: str) -> bool:
    """Whether a text is a sentence or code, not just an identifier, a time or a category."""
    if _CODE.search(text):
        return True
    words = sum(1 for word in text.split() if _LETTERS.search(word))
    words += len(_UNSPACED.findall(text)) // 2
    return words >= _LEAST_WORDS and not (len(text) < _SHOWN_CHARS and _TIME.match(text))


def iter_open(
    record: JsonObject, read: Fields, settled: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the dotted path and the text of what no format, name or content explains.

    `settled` are the paths of fields that the user has said something about."""
    taken = read.names()
    settled = {*settled, *taken}
    said: _FormatTexts | None = None
    for name, value in record.items():
        if name in taken or isinstance(value, int | float | None):
            continue
        for path, key, text, is_part in _iter_texts_at(value, name, settled):
            if not (is_part or is_prose(text)) or _is_label_text(key, text):
                continue
            said = said or _FormatTexts(record, read)
            if not said.repeats(text, part_named(key)):
                yield path, text


def open_fields(record: JsonObject, read: Fields, settled: Collection[str] = ()) -> dict[str, str]:
    """Return an example text of each field that is not accounted for, by path."""
    found: dict[str, str] = {}
    for path, text in iter_open(record, read, settled):
        found.setdefault(path, text)
    return found


def roles_of(record: JsonObject, read: Fields, settled: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the fields of a line by what they were taken for, metadata last; `settled` gives the
    roles by path that the user has set.
    """
    roles = {role: list(names) for role, names in read.roles().items() if role != "metadata"}
    for path, role in settled.items():
        if values_at(record, path) is not None:
            roles.setdefault(role, []).append(path)
    tops = {path.partition(".")[0] for names in roles.values() for path in names}
    left = {path.partition(".")[0] for path in open_fields(record, read, settled)}
    metadata: list[str] = []
    for name in record.keys() - tops:
        role = "not read" if name in left else _role_of(name, record[name])
        role = "metadata" if name in read.metadata else role
        (metadata if role == "metadata" else roles.setdefault(role, [])).append(name)
    order = list(record)
    return {role: names for role, names in roles.items() if names} | (
        {"metadata": sorted(metadata, key=order.index)} if metadata else {}
    )


def _role_of(name: str, value: object) -> str:
    role = role_named(name)
    if role in _SETTLED and role is not None:
        return role
    texts = [text for _, _, text, _ in _iter_texts_at(value, name, ())]
    return "repeated" if any(map(is_prose, texts)) else "metadata"


def repeated_reference(record: JsonObject, response: str) -> str | None:
    """Return the field of a known solution that the response of a conversation repeats word by
    word.

    Such messages are training data. A policy may well give a short answer as the known one is."""
    text = " ".join(response.split())
    for name in REFERENCES:
        least = _LEAST_WORDS if "solution" in name else _LONG_WORDS
        for known in iter_texts(record.get(name)):
            if len(known.split()) >= least and " ".join(known.split()) == text:
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
    return Message.of(
        SettingRef("prompt_field"),
        ", ",
        SettingRef("response_field"),
        ", ",
        SettingRef("reference_field"),
        " or ",
        SettingRef("ignore_fields"),
    )


class _FormatTexts:
    """The texts that a format takes from a line."""

    def __init__(self, record: JsonObject, read: Fields) -> None:
        shown = dict.fromkeys(
            (*read.prompt, *read.system, *read.history, *read.context, *read.response)
        )
        self._texts = {
            text
            for path in shown
            for _, _, text, _ in _iter_texts_at(values_at(record, path), path, (), settle=False)
        }
        self._whole = "\0".join(self._texts)
        self._long = sorted(filter(is_prose, self._texts), key=len, reverse=True)

    def repeats(self, text: str, part: str | None) -> bool:
        """Whether a text holds nothing but what was taken: as a whole, a part or a composition."""
        if text in self._texts:
            return True
        if (part != "response" or is_prose(text)) and text in self._whole:
            return True
        rest = text
        for each in self._long:
            rest = rest.replace(each, " ")
        return rest != text and not is_prose(" ".join(_FRAME.sub(" ", rest).split()))


def iter_texts_by_path(record: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and text of every text of a line, whatever the names."""
    for name, value in record.items():
        for path, key, text, _ in _iter_texts_at(value, name, (), settle=False):
            yield path, key, text


def values_at(record: JsonObject, path: str) -> object:
    """Return the value of a field, or at a dotted path that may go through lists; None if there is
    none.
    """
    if path in record:
        return record[path]
    value: object = record
    for part in path.split("."):
        if isinstance(value, list):
            value = [each.get(part) for each in value if isinstance(each, dict)]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _iter_texts_at(
    value: object,
    path: str,
    settled: Collection[str],
    key: str | None = None,
    *,
    is_part: bool = False,
    settle: bool = True,
    in_message: bool = False,
    depth: int = 0,
) -> Iterator[tuple[str, str, str, bool]]:
    """Yield path, name and text of each text in a value, and whether its name is that of a part.

    The text of messages and JSON has the path of the field that holds it."""
    key = path if key is None else key
    if path in settled or (settle and role_named(key) in _SETTLED):
        return
    if depth > _MAX_DEPTH:
        yield path, key, "(nested too deeply)", True
        return
    is_part = is_part or (part_named(key) is not None and not _is_plain_message(key, value))
    if isinstance(value, str):
        inner = json_in(value)
        if inner is not None:
            value = inner
        elif text := value.strip():
            yield path, key, text, is_part
            return
    if isinstance(value, list):
        if value and isinstance(value[0], int | float) and isinstance(value[-1], int | float):
            return  # token ids and logprobs, tens of thousands in a line
        for each in value:
            yield from _iter_texts_at(
                each,
                path,
                settled,
                key,
                is_part=is_part,
                settle=settle,
                in_message=in_message,
                depth=depth + 1,
            )
    elif isinstance(value, dict):
        in_message = in_message or is_messages([value])
        for name, each in value.items():
            if in_message and name in ("role", "type", "channel"):
                continue
            yield from _iter_texts_at(
                each,
                path if in_message else f"{path}.{name}",
                settled,
                name,
                is_part=is_part,
                settle=settle,
                in_message=in_message,
                depth=depth + 1,
            )


def iter_strings(value: object) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from iter_strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from iter_strings(each)


def json_in(text: str) -> object:
    """Return the list or object whose JSON text this is; None for any other text."""
    if not text.startswith(("[", "{")) or not text.rstrip().endswith(("]", "}")):
        return None
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # an escape may hold half a character
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _is_plain_message(key: str, value: object) -> bool:
    """Whether a value is the `message` of a log or an error: one of a chat is an object."""
    return key == "message" and isinstance(value, str)


def _is_label_text(key: str, text: str) -> bool:
    is_short = len(text.split()) <= _LABEL_WORDS and not text.endswith((".", "?", "!"))
    return is_label(key) and is_short and "\n" not in text


def shown_text(text: str) -> str:
    """Return the beginning of a text in quotes, on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 3] + "...")
