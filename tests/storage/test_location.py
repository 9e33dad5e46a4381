import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import UsageError
from genrm_cli.storage.location import (
    folder_of,
    is_rollout_file,
    parse_local_path,
    parse_s3_uri,
    render_place,
    require_rl_prefix,
    sibling,
    stem_of,
)

NAMES = st.text(st.sampled_from("ab.-_{} ü*"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
FOLDERS = st.lists(NAMES, max_size=3).map("/".join)
PLACES = st.sampled_from(["", "/", "s3://b/"])
RECORD_SUFFIXES = st.sampled_from([".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.zst"])
SIDE_SUFFIXES = (
    ".scored",
    ".comparisons",
    ".rejects",
    "_materialized_inputs",
    "_failures",
    "_aggregate_metrics",
)


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


@pytest.mark.parametrize(
    ("uri", "stem"),
    [
        ("s3://b/rl/run-7.scored.jsonl.gz", "s3://b/rl/run-7"),
        ("run.jsonl", "run"),
        ("run.json", "run"),
        ("run.v2.jsonl", "run.v2"),
        ("run", "run"),
        ("run.jsonl.jsonl", "run.jsonl"),
        ("d.jsonl/run.txt", "d.jsonl/run.txt"),
        ("d/.jsonl", "d/.jsonl"),
        (".gz", ".gz"),
    ],
)
def test_stem_drops_only_known_suffixes(uri: str, stem: str) -> None:
    """The stem is the URI less compression, record suffix and `.scored`, and never an empty
    name.
    """
    assert stem_of(uri) == stem


def test_nothing_stands_beside_a_stream() -> None:
    """A sibling of `-` is a usage error, not a file called `-.metrics.json`."""
    with pytest.raises(UsageError, match="name an output file"):
        sibling("-", ".metrics.json")


@pytest.mark.parametrize(
    "uri", ["s3://b/sft/x.jsonl", "s3://b/x/rl/y.jsonl", "s3://rl/x.jsonl", "s3://b/rlhf/x"]
)
def test_results_outside_the_rl_prefix_are_refused(uri: str) -> None:
    """The message says why, and how to do it anyway."""
    with pytest.raises(UsageError, match=r"kept separate from supervised data.*any_prefix"):
        require_rl_prefix(uri, any_prefix=False)
    require_rl_prefix(uri, any_prefix=True)


@given(PLACES, FOLDERS, NAMES, RECORD_SUFFIXES)
def test_rollouts_are_known_by_their_name(place: str, folders: str, name: str, suffix: str) -> None:
    """Any JSON lines file is a rollout file, in any folder, unless it is named like a side file."""
    folder = f"{place}{folders}/" if folders else place
    if not name.endswith(SIDE_SUFFIXES):
        assert is_rollout_file(f"{folder}{name}{suffix}")
    for side in SIDE_SUFFIXES:
        assert not is_rollout_file(f"{folder}{name}{side}{suffix}")


@pytest.mark.parametrize(
    "uri",
    [
        "run.json",
        "run.metrics.json",
        "run.lease-1",
        "run.jsonl.bz2",
        "run.JSONL",
        "d.jsonl/run",
        "d/.jsonl",
        "",
        "-",
    ],
)
def test_other_files_are_no_rollouts(uri: str) -> None:
    """Other suffixes, unfinished files, a folder with such a name, a suffix without a name."""
    assert not is_rollout_file(uri)


@given(PLACES, FOLDERS, NAMES)
def test_a_folder_and_a_name_make_the_file(place: str, folders: str, name: str) -> None:
    """The folder of a URI is what is left before its last name, `.` for a bare one."""
    uri = f"{place}{folders}/{name}" if folders else f"{place}{name}"
    folder = folder_of(uri)
    assert f"{folder.removesuffix('/')}/{name}" == (uri if "/" in uri else f"./{uri}")
    assert folder == "/" or not folder.endswith("/")


@given(PLACES, FOLDERS.filter(bool), FOLDERS, NAMES, RECORD_SUFFIXES)
def test_the_usual_place_is_beside_the_input(
    place: str, above: str, below: str, name: str, suffix: str
) -> None:
    """The default template gives the stem with `.scored.jsonl`, whatever folder was searched and
    whatever braces the names hold.
    """
    folder = f"{place}{above}/{below}".rstrip("/")
    uri = f"{folder}/{name}{suffix}"
    assert (
        render_place("{dir}/{stem}.scored.jsonl", uri, f"{place}{above}")
        == f"{stem_of(uri)}.scored.jsonl"
    )


@given(PLACES, FOLDERS.filter(bool), FOLDERS, NAMES, RECORD_SUFFIXES)
def test_a_place_elsewhere_keeps_the_folders_below(
    place: str, above: str, below: str, name: str, suffix: str
) -> None:
    """{path} is what lies between the folder that was searched and the file, and nothing for a file
    right in it.
    """
    folder = f"{place}{above}/{below}".rstrip("/")
    found = render_place(
        "s3://out/rl/{path}/{stem}.x", f"{folder}/{name}{suffix}", f"{place}{above}"
    )
    stem = stem_of(f"{name}{suffix}")
    assert found == (f"s3://out/rl/{below}/{stem}.x" if below else f"s3://out/rl/{stem}.x")


@pytest.mark.parametrize(
    ("template", "uri", "below", "place"),
    [
        ("{dir}/{stem}.s", "run.jsonl", ".", "run.s"),
        ("{dir}/{stem}.s", "/run.jsonl", "/", "/run.s"),
        ("{path}/{stem}.s", "run.jsonl", ".", "run.s"),
        ("/{path}/{stem}.s", "run.jsonl", ".", "/run.s"),
        ("s3://o/rl/{path}/{stem}.s", "s3://b/../run.jsonl", "s3://b", "s3://o/rl/../run.s"),
        ("out/{path}/{stem}.s", "x/run.jsonl", ".", "out/x/run.s"),
        ("out/{path}/{stem}.s", "/x/run.jsonl", "/", "out/x/run.s"),
        ("out/{path}/{stem}.s", "s3://b/x/run.jsonl", "s3://b", "out/x/run.s"),
        ("out/{path}/{stem}.s", "in/x/run.jsonl", "in/", "out/x/run.s"),
        (
            "{dir}/scored/{stem}.s",
            "s3://b/rl/run.scored.jsonl.gz",
            "s3://b/rl",
            "s3://b/rl/scored/run.s",
        ),
    ],
)
def test_places_at_the_edges(template: str, uri: str, below: str, place: str) -> None:
    """Bare names, the root, a whole bucket, a searched folder with a slash at its end."""
    assert render_place(template, uri, below) == place


@pytest.mark.parametrize("word", ["{name}", "{}", "{DIR}"])
def test_an_unknown_placeholder_is_refused(word: str) -> None:
    """The message says which words there are."""
    with pytest.raises(UsageError, match=r"unknown \{.*use \{dir\}, \{path\} and \{stem\}"):
        render_place(f"{{dir}}/{word}.jsonl", "run.jsonl", ".")


@pytest.mark.parametrize("key", ["../run.jsonl", "x/../../../etc/run.jsonl"])
def test_a_key_does_not_lead_out_of_a_local_folder(key: str) -> None:
    """Who may write to the bucket may not choose where files on this machine go."""
    with pytest.raises(UsageError, match=r"contains '\.\.'"):
        render_place("out/{path}/{stem}.scored.jsonl", f"s3://b/rl/{key}", "s3://b/rl")
