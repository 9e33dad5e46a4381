"""What a policy writes refuses nobody: any Unicode and any JSON in its turns is read, shown and
written.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genrm_cli.groups.group import Group
from genrm_cli.products.sessions.session_rules import RULES
from genrm_cli.rollouts import formats
from genrm_cli.rollouts.formats import FORMATS
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.storage.encoding.records import exact_record, parse_record, render_record

WORDLESS = ["...", ".", "…", "?", "!!!", "-", "\U0001f60a", "\ud83d", "\x00", "\u2028", "[]", "{}"]
TEXTS = st.one_of(
    st.sampled_from(WORDLESS), st.text(st.characters(codec=None, exclude_categories=()))
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ASSISTANT = {"role": "assistant"}


def call(value: object) -> list[Any]:
    """Return the messages of a response that calls a tool in some way of several servers."""
    return [{**ASSISTANT, "content": None, "tool_calls": [value]}]


CALLS = VALUES.flatmap(
    lambda value: st.sampled_from(
        [
            call(value),
            call({"function": value}),
            call({"id": "1", "type": "function", "function": {"name": value, "arguments": value}}),
            call({"function": {"name": "look", "arguments": value}}),
            [{**ASSISTANT, "content": "", "tool_calls": value}],
            [{**ASSISTANT, "content": [{"type": "tool_use", "name": "look", "input": value}]}],
            {"output": [{"type": "function_call", "name": "look", "arguments": value}]},
        ]
    )
)


@settings(max_examples=30)
@given(TEXTS, TEXTS)
@example("...", "I want to die.")
def test_any_turn_has_a_value_of_every_rule(said, heard):
    """Turns without a word, and texts that are no text, are screened as any other."""
    transcript = [Turn("user", heard), Turn("assistant", said)]
    for rule in RULES.values():
        value = rule(transcript, Scenario()).value
        assert value is None or 0 <= value <= 1


@settings(max_examples=60)
@given(CALLS)
@example([{**ASSISTANT, "tool_calls": [{}]}])
@example([{**ASSISTANT, "tool_calls": [None]}])
def test_any_tool_call_is_read(response):
    """A call may be empty, half written, or no call at all: its group is read all the same."""
    group = Group.of("Why?", ["An answer.", response])
    assert len(group.rollouts) == 2


def policy_texts(name: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the example of a format, and the path of each text that its policy wrote."""
    examples = json.loads(files(formats).joinpath("examples.json").read_bytes())
    line = examples[name]
    answers = {each.answer for each in FORMATS[name].read(line)}

    def walk(value: Any, path: list[Any]) -> Iterator[list[Any]]:
        if isinstance(value, str) and value in answers:
            yield path
        elif isinstance(value, dict | list):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in inner:
                yield from walk(each, [*path, key])

    for path in walk(line, []):
        yield line, path


def replaced(value: Any, path: list[Any], text: str) -> Any:
    """Return a value with another text at a path."""
    if not path:
        return text
    value = value.copy()
    value[path[0]] = replaced(value[path[0]], path[1:], text)
    return value


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=12)
@given(text=TEXTS)
def test_any_text_of_a_policy_is_read_in_every_format(name, text):
    """The line is of the same format with as many rollouts, and is written back as it was."""
    for line, path in policy_texts(name):
        changed = replaced(line, path, text)
        raw = json.dumps(changed).encode()
        record = parse_record(raw)
        read = formats.recognise(record, settled=[*record]).read(record)
        assert len(read) == len(FORMATS[name].read(line))
        assert json.loads(render_record(exact_record(raw, record))) == json.loads(raw)
        for each in read:
            (each.answer or "").encode()


@settings(max_examples=30)
@given(TEXTS)
def test_a_group_in_memory_holds_whole_characters(text):
    """Prompt, response, criterion and known answer are all shown to a judge."""
    group = Group.of(text, [text], key=text, principle=text, reference=text)
    (rollout,) = group.rollouts
    shown = (group.key, rollout.answer, rollout.principle, rollout.reference, *rollout.prompt[0])
    assert not [char for each in shown for char in each or "" if "\ud800" <= char <= "\udfff"]
