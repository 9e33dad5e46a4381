import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import UsageError
from genrm_cli.storage.location import (
    folder_of,
    is_rollout_file,
    parse_local_path,
    parse_object_uri,
    render_place,
    require_rl_prefix,
    sibling,
    stem_of,
)
from genrm_cli.storage.places import place_of

NAMES = st.text(st.sampled_from("ab.-_{} ü*"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
FOLDERS = st.lists(NAMES, max_size=3).map("/".join)
PLACES = st.sampled_from(["", "/", "s3://b/"])
RECORD_SUFFIXES = st.sampled_from(
    [
        ".jsonl",
        ".ndjson",
        ".jsonl.gz",
        ".ndjson.zst",
    ]
)
SIDE_SUFFIXES = (
    ".scored",
    ".comparisons",
    ".rejects",
    "_materialized_inputs",
    "_failures",
    "_aggregate_metrics",
)


def test_incomplete_s3_uri_is_refused():
    """A URI without bucket or key is a usage error that names it."""
    cases = [
        "s3://",
        "s3://b",
        "s3://b/",
        "s3:///k",
    ]
    for uri in cases:
        with pytest.raises(UsageError, match="expected s3://bucket/key"):
            parse_object_uri(uri)


def test_other_schemes_are_not_taken_for_files():
    """A mistyped or foreign scheme is refused instead of looked up on disk, and before names of
    other files are made from it.
    """

    def beside(uri):
        return sibling(uri, ".metrics.json")

    def rendered(uri):
        return render_place("{dir}/{stem}.scored.jsonl", uri, "a")

    for uri in ["", "s3:/b/k", "https://host/x.jsonl", "gs://b/k"]:
        for use in (parse_local_path, place_of, beside, rendered):
            with pytest.raises(UsageError, match=f"{uri!r} cannot be opened|an empty file name"):
                use(uri)


def test_stem_drops_only_known_suffixes():
    """The stem is the URI less compression, record suffix and `.scored`, and never an empty
    name.
    """
    cases = [
        ("s3://b/rl/run-7.scored.jsonl.gz", "s3://b/rl/run-7"),
        ("run.jsonl", "run"),
        ("run.json", "run"),
        ("run.v2.jsonl", "run.v2"),
        ("run", "run"),
        ("run.jsonl.jsonl", "run.jsonl"),
        ("d.jsonl/run.txt", "d.jsonl/run.txt"),
        ("d/.jsonl", "d/.jsonl"),
        (".gz", ".gz"),
    ]
    for uri, stem in cases:
        assert stem_of(uri) == stem


def test_results_outside_the_rl_prefix_are_refused():
    """The message says why, and how to do it anyway."""
    cases = [
        "s3://b/sft/x.jsonl",
        "s3://b/x/rl/y.jsonl",
        "s3://rl/x.jsonl",
        "s3://b/rlhf/x",
    ]
    for uri in cases:
        with pytest.raises(UsageError, match=r"kept separate from supervised data.*any_prefix"):
            require_rl_prefix(uri, any_prefix=False)
        require_rl_prefix(uri, any_prefix=True)


@given(PLACES, FOLDERS, NAMES, RECORD_SUFFIXES)
def test_rollouts_are_known_by_their_name(place, folders, name, suffix):
    """Any JSON lines file is a rollout file, in any folder, unless it is named like a side file."""
    folder = f"{place}{folders}/" if folders else place
    if not name.endswith(SIDE_SUFFIXES):
        assert is_rollout_file(f"{folder}{name}{suffix}")
    for side in SIDE_SUFFIXES:
        assert not is_rollout_file(f"{folder}{name}{side}{suffix}")


def test_other_files_are_no_rollouts():
    """Other suffixes, unfinished files, a folder with such a name, a suffix without a name."""
    cases = [
        "run.json",
        "run.metrics.json",
        "run.lease-1",
        "run.jsonl.bz2",
        "run.JSONL",
        "d.jsonl/run",
        "d/.jsonl",
        "",
        "-",
    ]
    for uri in cases:
        assert not is_rollout_file(uri)


@given(PLACES, FOLDERS, NAMES)
def test_a_folder_and_a_name_make_the_file(place, folders, name):
    """The folder of a URI is what is left before its last name, `.` for a bare one."""
    uri = f"{place}{folders}/{name}" if folders else f"{place}{name}"
    folder = folder_of(uri)
    assert f"{folder.removesuffix('/')}/{name}" == (uri if "/" in uri else f"./{uri}")
    assert folder == "/" or not folder.endswith("/")


@given(PLACES, FOLDERS.filter(bool), FOLDERS, NAMES, RECORD_SUFFIXES)
def test_the_usual_place_is_beside_the_input(place, above, below, name, suffix):
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
def test_a_place_elsewhere_keeps_the_folders_below(place, above, below, name, suffix):
    """{path} is what lies between the folder that was searched and the file, and nothing for a file
    right in it.
    """
    folder = f"{place}{above}/{below}".rstrip("/")
    found = render_place(
        "s3://out/rl/{path}/{stem}.x", f"{folder}/{name}{suffix}", f"{place}{above}"
    )
    stem = stem_of(f"{name}{suffix}")
    assert found == (f"s3://out/rl/{below}/{stem}.x" if below else f"s3://out/rl/{stem}.x")


def test_places_at_the_edges():
    """Bare names, the root, a whole bucket, a searched folder with a slash at its end."""
    cases = [
        ("{dir}/{stem}.s", "run.jsonl", ".", "run.s"),
        ("{dir}/{stem}.s", "/run.jsonl", "/", "/run.s"),
        ("{path}/{stem}.s", "run.jsonl", ".", "run.s"),
        (
            "/{path}/{stem}.s",
            "run.jsonl",
            ".",
            "/run.s",
        ),
        (
            "s3://o/rl/{path}/{stem}.s",
            "s3://b/../run.jsonl",
            "s3://b",
            "s3://o/rl/../run.s",
        ),
        (
            "out/{path}/{stem}.s",
            "x/run.jsonl",
            ".",
            "out/x/run.s",
        ),
        (
            "out/{path}/{stem}.s",
            "/x/run.jsonl",
            "/",
            "out/x/run.s",
        ),
        (
            "out/{path}/{stem}.s",
            "s3://b/x/run.jsonl",
            "s3://b",
            "out/x/run.s",
        ),
        (
            "out/{path}/{stem}.s",
            "in/x/run.jsonl",
            "in/",
            "out/x/run.s",
        ),
        (
            "{dir}/scored/{stem}.s",
            "s3://b/rl/run.scored.jsonl.gz",
            "s3://b/rl",
            "s3://b/rl/scored/run.s",
        ),
    ]
    for template, uri, below, place in cases:
        assert render_place(template, uri, below) == place


def test_an_unknown_placeholder_is_refused():
    """The message says which words there are."""
    for word in ["{name}", "{}", "{DIR}", "{stem"]:
        with pytest.raises(UsageError, match=r"a word: \{dir\}, \{path\} or \{stem\}"):
            render_place(f"{{dir}}/{word}.jsonl", "run.jsonl", ".")


def test_a_key_does_not_lead_out_of_a_local_folder():
    """Who may write to the bucket may not choose where files on this machine go."""
    for key in ["../run.jsonl", "x/../../../etc/run.jsonl"]:
        with pytest.raises(UsageError, match=r"contains '\.\.'"):
            render_place("out/{path}/{stem}.scored.jsonl", f"s3://b/rl/{key}", "s3://b/rl")
