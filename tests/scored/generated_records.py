"""Records of every kind a run writes, with any value that their types allow."""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec import Struct

from genrm_cli.groups.line_records import ComparisonRecord, ScoredLine
from genrm_cli.scored.run_record import RunRecord

KINDS = (ScoredLine, ComparisonRecord, RunRecord)

TEXTS = st.text(max_size=8)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = {
    str: TEXTS,
    int: INTEGERS,
    float: NUMBERS,
    bool: st.booleans(),
    type(None): st.none(),
    Any: st.none() | st.booleans() | INTEGERS | NUMBERS | TEXTS,
}


@cache
def records_of(kind: type) -> st.SearchStrategy[Any]:
    """Draw a record with every field, the optional ones included."""
    hints = get_type_hints(kind)
    hints.pop("name_of", None)
    return st.builds(kind, **{name: values_of(hint) for name, hint in hints.items()})


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Draw a value of a type."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*map(values_of, arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(TEXTS, values_of(arguments[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert issubclass(hint, tuple | Struct), hint
    return st.deferred(lambda: records_of(hint))
