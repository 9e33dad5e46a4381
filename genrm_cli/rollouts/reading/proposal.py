"""Propose which fields of unknown lines hold the prompt and the response.

Names suggest roles; what the fields hold decides. A response varies among the lines of one prompt,
a prompt and a known answer do not. A proposal must pass a trial: read as proposed, the first lines
form groups with a prompt and two different responses, and no other text could be either of them.
Otherwise there is none, and the user chooses: a wrong guess costs a training run."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.reading.account import is_prose, iter_texts_by_path
from genrm_cli.rollouts.reading.known_names import (
    Role,
    is_label,
    likely_role,
    part_named,
)
from genrm_cli.rollouts.reading.values import is_messages, values_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

Read = Callable[[Record], list[Rollout]]
MakeReader = Callable[[str, str | None], Read]
"""Returns a reader of lines from the path of the response and those of the prompt."""

SAMPLE_LINES = 64
_MAX_PROMPT_FIELDS = 3
_SHOWN_CHOICES = 4
_LEAST_WORDS = 9  # more than any name or title has
# One word with a digit or a sign between letters, or numbers.
_IDENTIFIER = re.compile(r"\S*[\d_/:]\S*|[\d\s.,:-]+")


@dataclass(frozen=True, slots=True)
class Proposal:
    """The fields that the first lines can be read by."""

    response_field: str
    prompt_field: str | None


@dataclass(frozen=True, slots=True)
class _ProposedField:
    """A field of the sample: the texts that it has in each line, and the role of its name."""

    path: str
    texts: tuple[tuple[str, ...], ...]
    role: Role | None
    is_conversation: bool

    @property
    def is_named_response(self) -> bool:
        return part_named(self.path.rpartition(".")[2]) == "response"

    @property
    def has_prose(self) -> bool:
        return any(is_prose(text) for line in self.texts for text in line)

    def is_within(self, other: "_ProposedField") -> bool:
        """Whether the other field repeats it in every line, as an extract or a copy."""
        pairs = zip(self.texts, other.texts, strict=True)
        return all(text in "\0".join(theirs) for ours, theirs in pairs for text in ours)


def propose(records: Sequence[Record], reader: MakeReader) -> Proposal | None:
    """Return the one way to read the first lines of a file that passes the trial; None if there is
    none, or more than one.
    """
    found = _fields_of(records)
    asking = _without_copies([each for each in found if each.role == "prompt"])
    asking = [each for each in asking if not each.is_conversation or len(asking) == 1]
    tries = [
        proposal
        for prompts in _prompts_among(asking, found)
        if (proposal := _with_response(records, reader, found, prompts)) is not None
    ]
    tries = tries or list(_conversations(records, reader, found))
    return tries[0] if len(set(tries)) == 1 else None


def describe_choices(records: Sequence[Record], paths: Sequence[str]) -> Message:
    """Return what the open fields of the first lines could be, the likeliest first.

    What varies among the lines of a prompt is the policy's, or about its response; what does not
    is the task's."""
    found = _fields_of(records)
    asking = _without_copies([each for each in found if each.role == "prompt"])
    asking = [each for each in asking if each.path not in paths and not each.is_conversation]
    keys = [tuple(field.texts[number] for field in asking) for number in range(len(records))]
    told = [
        _describe_choice(field, asking, is_varying=_varies(field, keys))
        for field in found
        if asking and field.path in paths
    ]
    return Message.of(*told[:_SHOWN_CHOICES])


def _describe_choice(
    field: _ProposedField, asking: Sequence[_ProposedField], *, is_varying: bool
) -> Message:
    path = field.path
    if is_varying:
        said = f"; {path} varies among the lines of a prompt: "
        settings = [SettingRef("response_field", path)]
    else:
        said = f"; {path} is the same in all lines of a prompt: "
        prompts = ",".join((*(each.path for each in asking), path))
        settings = [SettingRef("prompt_field", prompts), SettingRef("reference_field", path)]
        settings.sort(key=lambda each: (field.role == "reference") != (each.value == path))
    shown = [part for setting in settings for part in (setting, " or ")]
    return Message.of(said, *shown, SettingRef("ignore_fields", path))


def _fields_of(records: Sequence[Record]) -> list[_ProposedField]:
    texts: dict[str, list[list[str]]] = {}
    for number, record in enumerate(records):
        for each in iter_texts_by_path(record):
            texts.setdefault(each.path, [[] for _ in records])[number].append(each.text)
    fields = []
    for path, lines in texts.items():
        name = path.rpartition(".")[2]
        role = _role_of_path(path)
        is_about = role in ("verdict", "metadata", "reasoning") or _is_identifying(
            name, role, lines
        )
        if is_about or sum(map(bool, lines)) * 2 < len(records):
            continue
        if path in ("choices", "options") and any(len(line) == 1 for line in lines):
            continue
        is_talk = any(is_messages(values_at(record, path)) for record in records)
        fields.append(_ProposedField(path, tuple(map(tuple, lines)), role, is_talk))
    return fields


def _role_of_path(path: str) -> Role | None:
    """Return the role that the names on a path suggest, the last one first."""
    roles = (likely_role(name) for name in reversed(path.split(".")))
    return next((role for role in roles if role is not None), None)


def _is_identifying(name: str, role: Role | None, lines: Iterable[Sequence[str]]) -> bool:
    """Whether a field holds only identifiers, numbers and categories."""
    texts = [text for line in lines for text in line]
    if is_label(name):
        return all(len(text.split()) < _LEAST_WORDS for text in texts)
    return role is None and all(_IDENTIFIER.fullmatch(text) for text in texts)


def _without_copies(fields: Sequence[_ProposedField]) -> list[_ProposedField]:
    return [
        each
        for at, each in enumerate(fields)
        if not any(
            each.is_within(other) and (before < at or not other.is_within(each))
            for before, other in enumerate(fields)
            if other is not each
        )
    ]


def _prompts_among(
    asking: Sequence[_ProposedField], found: Sequence[_ProposedField]
) -> Iterable[tuple[_ProposedField, ...]]:
    """Yield the fields that could be the prompt together: those with the name of one, or each
    other text whose name says nothing.
    """
    if 0 < len(asking) <= _MAX_PROMPT_FIELDS:
        yield tuple(asking)
    elif not asking:
        unnamed = [each for each in found if each.role is None and each.has_prose]
        yield from ((each,) for each in unnamed if not each.is_conversation)


def _with_response(
    records: Sequence[Record],
    reader: MakeReader,
    found: Sequence[_ProposedField],
    prompts: tuple[_ProposedField, ...],
) -> Proposal | None:
    keys = [tuple(field.texts[number] for field in prompts) for number in range(len(records))]
    others = [each for each in found if each not in prompts and each.role != "prompt"]
    others = [each for each in others if not any(each.is_within(prompt) for prompt in prompts)]
    varying = [each for each in others if each.role != "reference" and _varies(each, keys)]
    varying = _without_copies(varying)
    named = [each for each in varying if each.role == "response"]
    candidates = named or varying
    if len(candidates) != 1:
        return None
    (response,) = candidates
    # Beside a conversation that waits for an answer, a text without a name may be about it.
    is_waiting = any(prompt.is_conversation for prompt in prompts) and response.role is None
    if response.is_conversation or is_waiting:
        return None
    is_named = all(prompt.role == "prompt" for prompt in prompts)
    for other in others:
        if other is response or other.role == "reference" or other.is_within(response):
            continue
        # The same for all lines of a prompt, a response is a known answer.
        is_gold = is_named and other.role == "response" and other not in varying
        is_short = response.is_named_response and not other.has_prose
        if not (is_gold or is_short):
            return None
    paths = ",".join(field.path for field in prompts)
    proposal = Proposal(response.path, paths)
    return proposal if passes_trial(records, reader(response.path, paths)) else None


def _varies(field: _ProposedField, keys: Sequence[object]) -> bool:
    """Whether lines of one prompt, or one line, have different texts in a field."""
    if any(len(set(line)) > 1 for line in field.texts) and not field.is_conversation:
        return True
    seen: dict[object, set[object]] = {}
    for key, line in zip(keys, field.texts, strict=True):
        seen.setdefault(key, set()).add(line)
    return any(len(each) > 1 for each in seen.values())


def _conversations(
    records: Sequence[Record], reader: MakeReader, found: Sequence[_ProposedField]
) -> Iterable[Proposal]:
    """Yield the one conversation that holds prompt and response, with a task beside it."""
    talks = [each for each in found if each.is_conversation]
    if len(talks) != 1:
        return
    (talk,) = talks
    others = [each for each in found if each is not talk and not each.is_within(talk)]
    tasks = [each for each in others if each.role == "prompt"]
    if any(each.has_prose for each in others if each.role not in ("prompt", "reference")):
        return
    paths = ",".join(field.path for field in tasks) or None
    if passes_trial(records, reader(talk.path, paths)):
        yield Proposal(talk.path, paths)


def passes_trial(records: Sequence[Record], read: Read) -> bool:
    """Whether lines are read as groups with a prompt, of which some have two different responses,
    and each rollout has a response.
    """
    groups: dict[str, set[str | None]] = {}
    try:
        for number, record in enumerate(records):
            for rollout in read(record):
                if not rollout.has_prompt:
                    return False
                answer = rollout.answer
                groups.setdefault(group_key(rollout, number), set()).add(answer)
    except UnreadableRecordError:
        return False
    return any(len(each - {None, ""}) > 1 for each in groups.values())
