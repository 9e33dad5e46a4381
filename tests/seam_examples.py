"""The examples at the head of a module, run as a user would write them."""

import doctest
from collections.abc import Mapping
from importlib import import_module


def run_examples(name: str, replaced: Mapping[str, str] | None = None) -> int:
    """Run the examples of a module with some of their texts replaced; return how many there are."""
    source = import_module(name).__doc__ or ""
    for text, other in (replaced or {}).items():
        assert text in source
        source = source.replace(text, other)
    examples = doctest.DocTestParser().get_doctest(source, {}, name, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=report.append)
    assert report == []
    return len(examples.examples)
