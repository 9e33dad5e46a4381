"""Propose which fields of unknown lines hold the prompt and the response.

Names suggest roles; what the fields hold decides. A response varies among the lines of one prompt,
a prompt and a known answer do not. A proposal must pass a trial: read as proposed, the first lines
form groups with a prompt and two different responses, and no other text could be either of them.
Otherwise there is none, and the user chooses: a wrong guess costs a training run."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.reading.all_texts import (
    is_prose,
    iter_texts_by_path,
    unread_text,
)
from genrm_cli.rollouts.reading.known_names import (
    Role,
    is_label,
    likely_role,
    part_named,
    plain_name,
)
from genrm_cli.rollouts.reading.values import distinct, is_messages, values_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.texts.late_pattern import late_pattern

Read = Callable[[Record], list[Rollout]]
MakeReader = Callable[[str, str | None], Read]
"""Returns a reader of lines from the path of the response and those of the prompt."""

# Enough for several groups of a shuffled file, and read at once.
SAMPLE_LINES = 64
# More fields with the name of a prompt are a table of something else.
_MAX_PROMPT_FIELDS = 3
# The likeliest; `genrm validate` shows all.
_SHOWN_CHOICES = 4
_LEAST_WORDS = 9  # more than any name or title has
# One word with a digit or a sign between letters, or numbers.
_IDENTIFIER = late_pattern(r"\S*[\d_/:]\S*|[\d\s.,:-]+")


class Proposal(NamedTuple):
    """The fields that the first lines can be read by."""

    response_field: str
    prompt_field: str | None


class _SampledField(NamedTuple):
    """A field of the sample: the texts that it has in each line, and the role of its name."""

    path: str
    lines: tuple[tuple[str, ...], ...]
    role: Role | None
    is_conversation: bool

    @property
    def has_prose(self) -> bool:
        return any(is_prose(text) for line in self.lines for text in line)

    def covers(self, other: "_SampledField") -> bool:
        """Whether the other field repeats it in every line, as an extract or a copy."""
        pairs = zip(self.lines, other.lines, strict=True)
        return all(text in "\0".join(ours) for ours, theirs in pairs for text in theirs)

    def varies_within(self, prompts: Sequence["_SampledField"]) -> bool:
        """Whether lines of one prompt, or one line, have different texts in the field."""
        if any(len(set(line)) > 1 for line in self.lines) and not self.is_conversation:
            return True
        seen: dict[object, set[object]] = {}
        for number, line in enumerate(self.lines):
            seen.setdefault(tuple(each.lines[number] for each in prompts), set()).add(line)
        return any(len(each) > 1 for each in seen.values())


class _SampledLines:
    """The fields of the first lines that could be a part of the prompt or the response."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        texts: dict[str, list[list[str]]] = {}
        for number, record in enumerate(records):
            for each in iter_texts_by_path(record):
                texts.setdefault(each.path, [[] for _ in records])[number].append(each.text)
        read = (_read_field(records, path, lines) for path, lines in texts.items())
        self.fields = [each for each in read if each is not None]
        asking = [each for each in self.fields if each.role == "prompt"]
        self.asking = distinct(asking, _SampledField.covers)
        if len(self.asking) > 1:
            self.asking = [each for each in self.asking if not each.is_conversation]

    def proposals(self, reader: MakeReader) -> list[Proposal]:
        """Return the ways to read the lines that pass the trial."""
        unnamed = [each for each in self.fields if each.role is None and each.has_prose]
        choices = [[each] for each in unnamed if not each.is_conversation]
        prompts = [self.asking] if self.asking else choices
        tries = [self._with_response(each) for each in prompts if len(each) <= _MAX_PROMPT_FIELDS]
        for proposed in (tries, [self._conversation()]):
            passed = [each for each in proposed if each is not None and self._passes(each, reader)]
            if passed:
                return passed
        return []

    def _passes(self, proposed: Proposal, reader: MakeReader) -> bool:
        """Whether lines are read as groups with a prompt, of which some have two different
        responses, each rollout has a response, and no text of a prompt is left out.
        """
        read = reader(proposed.response_field, proposed.prompt_field)
        groups: dict[str, set[str | None]] = {}
        asking = {each.path for each in self.fields if each.role == "prompt"}
        try:
            for number, record in enumerate(self.records):
                rollouts = read(record)
                asked = (each for each in iter_texts_by_path(record) if each.path in asking)
                if unread_text(asked, rollouts) is not None:
                    return False
                for rollout in rollouts:
                    if not rollout.has_prompt:
                        return False
                    groups.setdefault(group_key(rollout, number), set()).add(rollout.answer)
        except UnreadableRecordError:
            return False
        return any(len(each - {None, ""}) > 1 for each in groups.values())

    def _with_response(self, prompts: list[_SampledField]) -> Proposal | None:
        """Return the one field that varies within the prompt, if no other could be the response."""
        others = [
            each
            for each in self.fields
            if each not in prompts and each.role != "prompt"
            # A known answer is the same for all lines of a prompt; `answer` may be the policy's.
            if each.role != "reference" or each.varies_within(prompts)
            if not any(prompt.covers(each) for prompt in prompts)
        ]
        varying = [each for each in others if each.varies_within(prompts)]
        varying = distinct(varying, _SampledField.covers)
        candidates = [each for each in varying if each.role == "response"] or varying
        if len(candidates) != 1 or candidates[0].is_conversation:
            return None
        (response,) = candidates
        # Beside a conversation that waits for an answer, a text without a name may be about it.
        if response.role is None and any(prompt.is_conversation for prompt in prompts):
            return None
        is_named = all(prompt.role == "prompt" for prompt in prompts)
        is_response = part_named(response.path.rpartition(".")[2]) == "response"
        for other in others:
            # The same for all lines of a prompt, a response is a known answer; `response_a` beside
            # `response_b` is one of a pair.
            is_pair = other != response and plain_name(other.path) == plain_name(response.path)
            is_gold = is_named and other.role == "response" and other not in varying
            is_short = is_response and not other.has_prose
            if is_pair or not (is_gold or is_short or response.covers(other)):
                return None
        return _propose(response, prompts)

    def _conversation(self) -> Proposal | None:
        """Return the one conversation that holds prompt and response, with a task beside it."""
        talks = [each for each in self.fields if each.is_conversation]
        if len(talks) != 1:
            return None
        (talk,) = talks
        others = [each for each in self.fields if each is not talk and not talk.covers(each)]
        is_open = any(
            each.has_prose and each.role not in ("prompt", "reference") for each in others
        )
        tasks = [each for each in others if each.role == "prompt"]
        return None if is_open else _propose(talk, tasks)


def _propose(response: _SampledField, prompts: Iterable[_SampledField]) -> Proposal:
    return Proposal(response.path, ",".join(field.path for field in prompts) or None)


def propose(records: Sequence[Record], reader: MakeReader) -> Proposal | None:
    """Return the one way to read the first lines of a file that passes the trial; None if there is
    none, or more than one.
    """
    found = set(_SampledLines(records).proposals(reader))
    return found.pop() if len(found) == 1 else None


def describe_choices(records: Sequence[Record], paths: Sequence[str]) -> Message:
    """Return what the open fields of the first lines could be, the likeliest first.

    What varies among the lines of a prompt is the policy's, or about its response; what does not
    is the task's."""
    sample = _SampledLines(records)
    prompts = [each for each in sample.asking if each.path not in paths]
    prompts = [each for each in prompts if not each.is_conversation]
    told: list[str | SettingRef] = []
    asked = [each for each in sample.fields if prompts and each.path in paths]
    for field in asked[:_SHOWN_CHOICES]:
        path = field.path
        varies = field.varies_within(prompts)
        how = "varies among the" if varies else "is the same in all"
        told.append(f"; {path} {how} lines of a prompt: ")
        parts = ",".join((*(each.path for each in prompts), path))
        roles = [SettingRef("prompt_field", parts), SettingRef("reference_field", path)]
        if varies:
            roles = [SettingRef("response_field", path)]
        elif field.role == "reference":
            roles.reverse()
        for role in roles:
            told += [role, " or "]
        told.append(SettingRef("ignore_fields", path))
    return Message(tuple(told))


def _read_field(
    records: Sequence[Record], path: str, lines: Sequence[Sequence[str]]
) -> _SampledField | None:
    """Return a field of the sample; None if it is about the line, or in less than half of the
    lines.
    """
    # The role that the names on a path suggest, the last one first.
    names = path.split(".")[::-1]
    role = next((role for role in map(likely_role, names) if role is not None), None)
    texts = [text for line in lines for text in line]
    is_identifying = role is None and all(map(_IDENTIFIER.fullmatch, texts))
    if is_label(names[0]):
        is_identifying = all(len(text.split()) < _LEAST_WORDS for text in texts)
    if role in ("verdict", "metadata", "reasoning") or is_identifying:
        return None
    # A lone choice is the known answer.
    is_lone = names[0] in ("choices", "options") and any(len(line) == 1 for line in lines)
    if is_lone or sum(map(bool, lines)) * 2 < len(records):
        return None
    is_talk = any(is_messages(values_at(record, path)) for record in records)
    return _SampledField(path, tuple(map(tuple, lines)), role, is_talk)
