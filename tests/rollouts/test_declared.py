"""What a record must declare before it may be judged."""

import pytest

from genrm_cli.errors import UsageError
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.rollout import UnreadableRecordError


def refusal(record, *required):
    """Return why a record is refused; None if it is not."""
    try:
        check_declared(record, [parse_requirement(text) for text in required])
    except UnreadableRecordError as error:
        return str(error)
    return None


def test_a_record_that_declares_it_is_admitted():
    """Scalars compare as JSON or as text, at a dotted path in the record or below its metadata."""
    cases = [
        ({"synthetic": True}, "synthetic=true"),
        ({"synthetic": "true"}, "synthetic=true"),
        ({"consent": None}, "consent=null"),
        ({"level": 1.0}, "level=1"),
        ({"level": "1"}, "level=1"),
        ({"level": -2500}, "level=-2.5e3"),
        ({"source": "made up"}, " source = made up "),
        ({"formula": "a=b"}, "formula=a=b"),
        ({"metadata": {"synthetic": True}}, "synthetic=true"),
        ({"metadata": {"origin": {"kind": "x"}}}, "metadata.origin.kind=x"),
        (
            {
                "origin": {"other": 1},
                "metadata": {"origin": {"kind": "x"}},
            },
            "origin.kind=x",
        ),
        ({"huge": 10**40}, f"huge={10**40}"),
    ]
    for record, required in cases:
        assert refusal(record, required) is None


def test_a_record_that_does_not_is_refused_with_the_reason():
    """The reason names the field, what was found and what was expected, and the flag."""
    cases = [
        ({}, "synthetic=true", "does not declare synthetic=true"),
        ({"metadata": None}, "synthetic=true", "does not declare synthetic=true"),
        ({"synthetic": False}, "synthetic=true", "declares synthetic=false, not true"),
        ({"synthetic": "True"}, "synthetic=true", "declares synthetic='True', not true"),
        ({"level": True}, "level=1", "declares level=true, not 1"),
        ({"level": 0}, "level=false", "declares level=0, not false"),
        ({"tags": ["synthetic"]}, "tags=synthetic", "declares tags=a list, not synthetic"),
        ({"a": "x"}, "a=", "declares a='x', not an empty text"),
        ({"a": "b"}, "a.b=1", "does not declare a.b=1"),
        (
            {
                "synthetic": False,
                "metadata": {"synthetic": True},
            },
            "synthetic=true",
            "declares synthetic=false, not true",
        ),
    ]
    for record, required, reason in cases:
        assert refusal(record, required) == f"{reason} (require_metadata)"


def test_every_requirement_must_be_met():
    """One of two is not enough, whichever is missing; none at all admits everything."""
    record = {"synthetic": True, "licence": "none"}
    assert refusal(record, "synthetic=true", "licence=none") is None
    assert refusal(record, "synthetic=true", "licence=open") is not None
    assert refusal(record, "synthetic=false", "licence=none") is not None
    assert refusal({}) is None


def test_a_long_value_is_shown_in_part():
    """The reason does not repeat a text that may be private in full."""
    assert len(refusal({"a": "x" * 1000}, "a=y")) < 100


def test_what_is_no_field_with_a_value_is_a_usage_error():
    """There must be an equals sign, and before it a path without empty parts."""
    for text in ["", "synthetic", "=true", " = ", ".=1", "a.=1", "a..b=1"]:
        with pytest.raises(UsageError, match="not FIELD=VALUE"):
            parse_requirement(text)
