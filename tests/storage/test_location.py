import pytest

from genrm_cli.errors import UsageError
from genrm_cli.storage.location import (
    is_s3,
    parse_local_path,
    parse_s3_uri,
    require_rl_prefix,
    sibling,
    stem_of,
)


def test_s3_uri_splits_at_the_first_slash_only() -> None:
    """A key keeps its own slashes, spaces and query-like characters."""
    assert parse_s3_uri("s3://b/rl/a b/run?7#x.jsonl") == ("b", "rl/a b/run?7#x.jsonl")


@pytest.mark.parametrize("uri", ["s3://", "s3://b", "s3://b/", "s3:///k", "rl/x.jsonl", "gs://b/k"])
def test_incomplete_s3_uri_is_refused(uri: str) -> None:
    """A URI without scheme, bucket or key is a usage error that names it."""
    with pytest.raises(UsageError, match="expected s3://bucket/key"):
        parse_s3_uri(uri)


@pytest.mark.parametrize("uri", ["", "s3:/b/k", "https://host/x.jsonl", "gs://b/k"])
def test_other_schemes_are_not_taken_for_files(uri: str) -> None:
    """A mistyped or foreign scheme is refused instead of looked up on disk."""
    with pytest.raises(UsageError):
        parse_local_path(uri)


@pytest.mark.parametrize("path", ["a:b.jsonl", "rl/x.jsonl", "/x/s3.jsonl", "./s3:/x"])
def test_odd_local_names_stay_local(path: str) -> None:
    """A bare `rl/x.jsonl` or a colon in a name makes no S3 URI."""
    assert not is_s3(path)
    assert parse_local_path(path) == path


@pytest.mark.parametrize(
    ("uri", "stem"),
    [
        ("s3://b/rl/run-7.scored.jsonl.gz", "s3://b/rl/run-7"),
        ("run.jsonl", "run"),
        ("run.ndjson.zst", "run"),
        ("run.json", "run"),
        ("run.v2.jsonl", "run.v2"),
        ("run", "run"),
        ("run.gz", "run"),
        ("run.jsonl.jsonl", "run.jsonl"),
        ("d.jsonl/run.txt", "d.jsonl/run.txt"),
        ("d/.jsonl", "d/.jsonl"),
        (".gz", ".gz"),
    ],
)
def test_stem_drops_only_known_suffixes(uri: str, stem: str) -> None:
    """The stem is the URI less compression, record suffix and `.scored`, and never an empty name."""
    assert stem_of(uri) == stem


def test_sibling_stands_in_the_same_folder() -> None:
    """A sibling has the stem's folder and name, whatever the output's suffixes were."""
    assert sibling("s3://b/rl/run-7.scored.jsonl.gz", ".metrics.json") == "s3://b/rl/run-7.metrics.json"
    assert sibling("d/run.jsonl", ".scored.jsonl") == "d/run.scored.jsonl"


def test_nothing_stands_beside_a_stream() -> None:
    """A sibling of `-` is a usage error, not a file called `-.metrics.json`."""
    with pytest.raises(UsageError, match="name an output file"):
        sibling("-", ".metrics.json")


@pytest.mark.parametrize("uri", ["s3://b/sft/x.jsonl", "s3://b/x/rl/y.jsonl", "s3://rl/x.jsonl", "s3://b/rlhf/x"])
def test_results_outside_the_rl_prefix_are_refused(uri: str) -> None:
    """The message says why, and how to do it anyway."""
    with pytest.raises(UsageError, match=r"kept apart from supervised data.*--any-prefix"):
        require_rl_prefix(uri, any_prefix=False)
    require_rl_prefix(uri, any_prefix=True)


@pytest.mark.parametrize("uri", ["s3://b/rl/x.jsonl", "x.jsonl", "-"])
def test_results_under_rl_and_local_results_are_allowed(uri: str) -> None:
    """The rule is about S3 keys only."""
    require_rl_prefix(uri, any_prefix=False)
