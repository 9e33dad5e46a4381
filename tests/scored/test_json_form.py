"""A record is written and read back as it was, and its JSON Schema accepts what the reader does."""

import copy
import json
from functools import cache
from typing import Any

import pytest
from generated_records import KINDS, records_of
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from scored_lines import verdict

from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.scored.json_form import json_schemas, to_json
from genrm_cli.scored.run_record import output_schema
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.typed_json import FormError, from_json, parse_json

Json = dict[str, Any]

# No whole numbers with a point: to a schema 1.0 is an integer, to the reader a number.
OTHER_VALUES = st.sampled_from(
    [
        None,
        True,
        False,
        7,
        -1.5,
        "a text",
        [],
        ["x"],
        [0.5],
        {},
    ]
)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_record_is_read_back_as_it_was_written(kind: type, data: st.DataObject) -> None:
    """As a line and as an indented document, with every field, null where its type allows it."""
    record = data.draw(records_of(kind))
    written = to_json(record)
    assert parse_json(kind, render_record(written)) == record
    assert parse_json(kind, render_document(written)) == record
    assert from_json(kind, json.loads(render_record(written))) == record


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_the_schema_accepts_what_the_reader_accepts(kind, data):
    """A record with up to two changes: members removed, added, or replaced by values of other
    types, at any depth.
    """
    value = json.loads(render_record(to_json(data.draw(records_of(kind)))))
    for _ in range(data.draw(st.integers(0, 2))):
        change(value, data)
    assert validator_of(kind).is_valid(value) == is_readable(kind, value), value


def change(record: Json, data: st.DataObject) -> None:
    """Remove, add or replace a member of the record or of an object or list in it."""
    holder = data.draw(st.sampled_from(holders_in(record)))
    other = copy.deepcopy(data.draw(OTHER_VALUES))
    if isinstance(holder, list):
        holder.insert(0, other)
        return
    action = data.draw(st.sampled_from(["remove", "add", "replace"]))
    if action == "add" or not holder:
        holder["another"] = other
        return
    name = data.draw(st.sampled_from(sorted(holder)))
    if action == "remove":
        del holder[name]
    else:
        holder[name] = other


def holders_in(value: Any) -> list[Any]:
    """Return all objects and lists in a value."""
    if isinstance(value, dict):
        members = list(value.values())
    elif isinstance(value, list):
        members = value
    else:
        return []
    found = [value]
    for member in members:
        found += holders_in(member)
    return found


def is_readable(kind: type, value: Json) -> bool:
    """Whether the reader takes the value for a record of the kind."""
    try:
        from_json(kind, value)
    except FormError:
        return False
    return True


@cache
def validator_of(kind: type) -> Draft202012Validator:
    """Return what checks a record against its JSON Schema."""
    return Draft202012Validator({"$defs": json_schemas([kind]), "$ref": f"#/$defs/{kind.__name__}"})


def test_the_published_schema_describes_every_kind():
    """A scored line holds its reward outside of the `genrm` object; nothing else differs."""
    published = output_schema()["$defs"]
    expected = json_schemas(KINDS)
    line = expected["ScoredLine"]
    del line["properties"]["reward"]
    line["required"].remove("reward")
    assert published == expected
    Draft202012Validator.check_schema(output_schema())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_is_finite(number):
    """NaN is no score, and a member that may be null does not take it for one."""
    raw = json.dumps(verdict(0, 1, 5, 2) | {"score_1": "here"}).replace('"here"', number)
    with pytest.raises(ValueError, match=r"JSON is malformed|out of range"):
        parse_json(ComparisonRecord, raw.encode())
