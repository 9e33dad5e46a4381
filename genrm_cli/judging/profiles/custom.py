"""A profile of the user's own, from a table: message templates, and where the verdict stands in a reply."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import partial

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles import scales
from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_prose
from genrm_cli.judging.profiles.json_objects import iter_objects
from genrm_cli.judging.profiles.profile import Message, Profile, freeze
from genrm_cli.judging.profiles.prompt import DEFAULT_PRINCIPLE, NOT_RECORDED
from genrm_cli.judging.profiles.scales import verdict_of_scores
from genrm_cli.judging.profiles.tags import parse_decimal
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import MAX_RANKING, MIN_RANKING, Failure, FailureKind, Verdict

WORDS = ("conversation", "response_1", "response_2", "principle")
OPINIONS = {
    "much_better": scales.MUCH_BETTER,
    "better": scales.BETTER,
    "slightly_better": scales.SLIGHTLY_BETTER,
    "tie": scales.TIE,
    "slightly_worse": scales.SLIGHTLY_WORSE,
    "worse": scales.WORSE,
    "much_worse": scales.MUCH_WORSE,
}
"""What a label can say of the first response."""

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([a-z]\w*)\}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_WEDGES = (" ", "_", *map(chr, range(0xA1, 0x2000)))
_READING = 3  # grows whenever replies are read or texts are shown otherwise than before
_FIELDS = ("score_1", "score_2", "ranking")
_TOP, _VERDICT = (
    {"name", "about", "request", "messages", "delimiters", "verdict"},
    {
        *("pattern", "json", "scale", "direction", "labels"),
    },
)

Found = Mapping[str, str]
"""What a reply gives for `score_1`, `score_2`, `ranking` or `label`."""


def parse_own_profile(table: Mapping[str, object], where: str) -> Profile:
    """Make a profile of a table, as a TOML file holds it.

    Its version is made of its content: another content is another profile, for journals and outputs alike.

    Args:
        table: `messages`, `verdict`, and if wanted `name`, `about`, `request`, `delimiters`.
        where: the file, for messages.

    Raises:
        UsageError: something is missing, unknown or cannot be; names it.
    """
    refuse_unknown(table, _TOP, where)
    name = parse_name(table, where)
    delimiters = _delimiters_of(table, where)
    request, about = table.get("request", {}), table.get("about", f"from {where}")
    if not isinstance(request, Mapping) or {"model", "messages", "stream", "n"} & set(request):
        raise UsageError(f"{where}: [request] holds fields such as temperature, and not model, messages, stream or n.")
    return Profile(
        name=name,
        version=_version_of(table),
        about=str(about),
        request_fields={key: freeze(value) for key, value in request.items()},
        render_messages=partial(_render_messages, _templates_of(table, where), delimiters),
        parse_reply=partial(_parse_reply, _reading_of(table.get("verdict"), where)),
        count_neutralised=partial(_count_neutralised, delimiters),
    )


def _version_of(table: Mapping[str, object]) -> int:
    content = json.dumps([_READING, table], sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4])


def _render_messages(templates: list[Message], delimiters: list[str], exhibit: PairwisePrompt) -> list[Message]:
    safe = {word: _neutralise(text, delimiters)[0] for word, text in _texts_of(exhibit).items()}

    def fill(match: re.Match[str]) -> str:
        return safe[match[2]] if match[2] else "{" + match[1] + "}"

    # One pass: what a response holds is never looked at again.
    return [{"role": message["role"], "content": _PLACE.sub(fill, message["content"])} for message in templates]


def _texts_of(exhibit: PairwisePrompt) -> dict[str, str]:
    """Return what the words in braces stand for."""
    return {
        "conversation": "\n\n".join(f"{role}: {text}" for role, text in exhibit.conversation) or NOT_RECORDED,
        "response_1": exhibit.response_1,
        "response_2": exhibit.response_2,
        "principle": DEFAULT_PRINCIPLE if exhibit.principle is None else exhibit.principle,
    }


def _count_neutralised(delimiters: list[str], exhibit: PairwisePrompt) -> dict[str, int]:
    counts = {word: _neutralise(text, delimiters)[1] for word, text in _texts_of(exhibit).items()}
    return {word: count for word, count in counts.items() if count}


def _neutralise(text: str, delimiters: list[str]) -> tuple[str, int]:
    """Break every delimiter in a text after its first character; return how many there were, too.

    What breaks them stands in none of them, so breaking one (`---` in `----`) cannot make another.
    """
    if not delimiters:
        return text, 0
    wedge = next(mark for mark in _WEDGES if not any(mark in delimiter for delimiter in delimiters))
    beginning = re.compile(f"(?={'|'.join(map(re.escape, delimiters))})(.)", re.DOTALL)
    return beginning.subn(lambda found: found[1] + wedge, text)


def _templates_of(table: Mapping[str, object], where: str) -> list[Message]:
    messages = table.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{where}: there are no [[messages]]; each has a role and a content.")
    templates: list[Message] = []
    for message in messages:
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            raise UsageError(f"{where}: each of [[messages]] has a role and a content, and nothing else.")
        templates.append({"role": str(message["role"]), "content": str(message["content"])})
    used = {found[2] for template in templates for found in _PLACE.finditer(template["content"]) if found[2]}
    if unknown := used - set(WORDS):
        raise UsageError(
            f"{where}: there is no {{{min(unknown)}}}; known are {', '.join(WORDS)}. Write {{{{{min(unknown)}}}}} for "
            "the word in braces."
        )
    if missing := {"response_1", "response_2"} - used:
        raise UsageError(f"{where}: no message shows {{{min(missing)}}}.")
    return templates


def _delimiters_of(table: Mapping[str, object], where: str) -> list[str]:
    delimiters = table.get("delimiters", [])
    if not isinstance(delimiters, list) or not all(isinstance(text, str) and len(text) > 1 for text in delimiters):
        raise UsageError(f"{where}: delimiters are texts of two characters and more, as in ['<answer_a>'].")
    return delimiters


Reading = tuple[Callable[[str, bool], Found | None], Callable[[Found], Verdict | Failure]]


def _reading_of(verdict: object, where: str) -> Reading:
    if not isinstance(verdict, Mapping):
        raise UsageError(f"{where}: there is no [verdict]; it says where the verdict stands, by pattern or json.")
    refuse_unknown(verdict, _VERDICT, f"{where}: [verdict]")
    if ("pattern" in verdict) == ("json" in verdict):
        raise UsageError(f"{where}: [verdict] has either a pattern or a table json.")
    find, fields = _find_by_pattern(verdict, where) if "pattern" in verdict else _find_by_keys(verdict, where)
    if "label" in fields:
        return find, partial(_verdict_of_label, _labels_of(verdict, where))
    if not {"score_1", "score_2"} <= fields:
        raise UsageError(f"{where}: [verdict] finds neither a label nor both score_1 and score_2.")
    low, high = _scale_of(verdict, where)
    direction = verdict.get("direction", "higher")
    if direction not in ("higher", "lower"):
        raise UsageError(f"{where}: direction {direction!r} is not higher (is better) or lower.")
    return find, partial(_verdict_of_scores, low, high, direction == "lower")


def _find_by_pattern(verdict: Mapping[str, object], where: str) -> tuple[Callable[[str, bool], Found | None], set[str]]:
    try:
        pattern = re.compile(str(verdict["pattern"]), re.MULTILINE)
    except re.error as error:
        raise UsageError(f"{where}: the pattern is no regular expression: {error}.") from error

    def find(answer: str, cut_off: bool) -> Found | None:
        matches = list(pattern.finditer(answer))
        # What stands at the cut may go on: `B=1` was to be `B=10`.
        if not matches or (cut_off and matches[-1].end() >= len(answer.rstrip())):
            return None
        return {group: text for group, text in matches[-1].groupdict().items() if text is not None}

    return find, set(pattern.groupindex)


def _find_by_keys(verdict: Mapping[str, object], where: str) -> tuple[Callable[[str, bool], Found | None], set[str]]:
    keys = verdict["json"]
    if not isinstance(keys, Mapping) or not all(isinstance(key, str) for key in keys.values()):
        raise UsageError(f"{where}: json says which key holds what, as in {{ score_1 = 'a', score_2 = 'b' }}.")
    refuse_unknown(keys, {*_FIELDS, "label"}, f"{where}: json")
    names = {str(field): str(key) for field, key in keys.items()}
    named = re.compile(rf'(?<!\\)"(?:{"|".join(map(re.escape, names.values()))})"\s*+:')

    def find(answer: str, cut_off: bool) -> Found | None:
        del cut_off  # an object that is closed is complete
        for found in reversed(list(iter_objects(answer, tuple(names.values())))):
            values = dict(found.pairs or ())
            if set(names.values()) <= set(values):
                # What follows with such a key is the judge's own verdict, torn, after one that it quoted.
                is_last = not named.search(answer, found.end)
                return {field: _text_of(values[key]) for field, key in names.items()} if is_last else None
        return None

    return find, set(names)


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else f"{value:.17g}" if isinstance(value, float) else ""


def _labels_of(verdict: Mapping[str, object], where: str) -> dict[str, Verdict]:
    labels = verdict.get("labels")
    if not isinstance(labels, Mapping) or not labels or not set(labels.values()) <= set(OPINIONS):
        raise UsageError(f"{where}: labels says what each label means for the first response: {', '.join(OPINIONS)}.")
    return {str(label): OPINIONS[str(opinion)] for label, opinion in labels.items()}


def _scale_of(verdict: Mapping[str, object], where: str) -> tuple[float, float]:
    scale = verdict.get("scale")
    numbers = [float(end) for end in scale if isinstance(end, int | float)] if isinstance(scale, list) else []
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise UsageError(f"{where}: scale is the least and the greatest score, as in [1, 10].")
    return numbers[0], numbers[1]


def parse_name(table: Mapping[str, object], where: str) -> str:
    """Return the name that a table gives itself, else that of its file.

    Raises:
        UsageError: it is no name.
    """
    name = table.get("name", where.rpartition("/")[2].removesuffix(".toml").lower())
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{where}: name {name!r} is not made of small letters, digits and hyphens; choose another one."
        )
    return name


def refuse_unknown(table: Mapping[str, object], known: set[str], where: str) -> None:
    """Refuse a key that says nothing, most likely a misspelt one.

    Raises:
        UsageError: names it, and those that are known.
    """
    if unknown := set(table) - known:
        raise UsageError(f"{where}: there is no {min(unknown)!r}; known are {', '.join(sorted(known))}.")


def _parse_reply(reading: Reading, reply: Reply) -> Verdict | Failure:
    find, understand = reading

    def read(answer: str, cut_off: bool) -> Verdict | Failure:
        found = find(answer, cut_off)
        if found is None:
            return make_failure(
                FailureKind.NO_VERDICT, f"nothing is where it should be; ends with {excerpt(answer[-40:])}"
            )
        return understand(found)

    return parse_prose(reply, read)


def _verdict_of_label(labels: Mapping[str, Verdict], found: Found) -> Verdict | Failure:
    label = found.get("label", "").strip()
    if label not in labels:
        return make_failure(FailureKind.NO_VERDICT, f"{excerpt(label)} is none of {', '.join(labels)}")
    return labels[label]


def _verdict_of_scores(low: float, high: float, lower_is_better: bool, found: Found) -> Verdict | Failure:
    numbers = {field: parse_decimal(found[field]) for field in _FIELDS if field in found}
    first, second = numbers.get("score_1"), numbers.get("score_2")
    if first is None or second is None or None in numbers.values():
        return make_failure(FailureKind.NO_VERDICT, f"not numbers: {', '.join(map(excerpt, found.values()))}")
    if lower_is_better:
        first, second = low + high - first, low + high - second
    verdict = verdict_of_scores(first, second, low, high)
    ranking = numbers.get("ranking")
    if ranking is None or isinstance(verdict, Failure):
        return verdict
    if not MIN_RANKING <= ranking <= MAX_RANKING:
        return make_failure(
            FailureKind.OUT_OF_RANGE, f"ranking is {ranking:g}, expected {MIN_RANKING:g} to {MAX_RANKING:g}"
        )
    return Verdict(verdict.score_1, verdict.score_2, ranking)
