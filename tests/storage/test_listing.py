import glob
import os
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genrm_cli.errors import InputError, UsageError
from genrm_cli.storage.patterns import literal_folder, names_many
from genrm_cli.storage.store import Store

STORE = Store()
_TREE = (
    "a.jsonl",
    "a.jsonl.gz",
    "a/b.jsonl",
    "a/b/c.jsonl",
    "a-b.jsonl",
    "run-1/x.jsonl",
    "run-2/sub/x.jsonl",
)
_HIDDEN = (".x.jsonl", "a/.x.jsonl", ".genrm/x.jsonl")


def _uris(uri):
    return [found.identity.uri for found in STORE.at(uri).iter_found()]


def _make_files(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}\n")


def _put(bucket, keys):
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda key: bucket.client.put_object(Bucket=bucket.name, Key=key, Body=b"{}\n"),
                keys,
            )
        )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Make an empty folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


_PATTERNS = """
a/ *.jsonl a?b.jsonl a.jsonl* */b.jsonl **/b.jsonl **/*.jsonl a/** a/**/c.jsonl run-*/ run-[13]/*
run-[!1]/**/x.jsonl .* .genrm/* */none
"""


def test_patterns_find_the_same_on_s3(here, s3_bucket):
    """For any pattern, the same tree as objects gives the same names in the same order; a key with
    wildcards is found under its own name, too.
    """
    names = [*_TREE, *_HIDDEN, "x[1].jsonl"]
    _make_files(here, names)
    _put(s3_bucket, [*(f"rl/{name}" for name in (*names, "", "a/")), "rl-other/a.jsonl", "a.jsonl"])
    bucket = f"s3://{s3_bucket.name}"
    for pattern in ("", *_PATTERNS.split()):
        expected = [f"{bucket}/rl/{name}" for name in _uris(pattern or ".")]
        assert _uris(f"{bucket}/rl/{pattern}") == expected
    assert _uris(f"{bucket}/rl/x[1].jsonl") == [f"{bucket}/rl/x[1].jsonl"]
    assert len(_uris(bucket)) == len(_uris(f"{bucket}/")) == len(_TREE) + 3
    assert _uris(f"{bucket}/*.jsonl") == [f"{bucket}/a.jsonl"]
    assert _uris(f"{bucket}/nothing/") == []


_NAMES = st.text("ab.[", min_size=1, max_size=3).filter(lambda name: name.strip("."))
_PARTS = st.one_of(st.just("**"), st.text("ab.*?[]!", min_size=1, max_size=4)).filter(
    lambda part: part.strip(".")
)


@given(
    st.lists(st.lists(_NAMES, min_size=1, max_size=3), max_size=8),
    st.lists(_PARTS, min_size=1, max_size=3),
)
@example([["a", "b", "a"], [".a", "b"], ["a"]], ["**", "**"])
@example([["a", "a", "b"], ["a", "b"]], ["**", "a", "**", "b"])
@example([["a", ".b"], ["b"]], ["**", ".*"])
def test_patterns_mean_what_they_mean_in_the_standard_library(paths, parts):
    """Any pattern finds the files that `glob` finds, each once, in the order of their names."""
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                _make_files(Path(folder), ("/".join(path),))
        pattern = "/".join([glob.escape(folder), *parts])
        expected = {path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)}
        found = []
        with suppress(InputError):  # the folder before the wildcards is missing
            found = _uris("/".join([folder, *parts]))
        if not os.path.isdir("/".join([folder, *parts])):  # it is a folder of that very name
            assert set(found) == expected
        assert found == sorted(set(found), key=os.fsencode)


def test_inputs_that_name_many_files(here):
    """A folder, a prefix and a pattern name many files; a local file with brackets in its name is
    one.
    """
    cases = [
        ("-", False),
        ("s3://b", True),
        ("s3://b/rl/", True),
        ("s3://b/rl/*.jsonl", True),
        ("*.jsonl", True),
        ("missing.jsonl", False),
        ("folder", True),
        ("folder/x[1].jsonl", False),
        ("folder/x[2].jsonl", True),
        (".", True),
    ]
    for uri, many in cases:
        _make_files(here, ("folder/x.jsonl", "folder/x[1].jsonl"))
        assert names_many(uri) is many


def test_literal_folder_is_what_precedes_the_wildcards(here):
    """The place relative to which files are named has no wildcard, unless a folder is called so."""
    cases = [
        ("s3://b/rl/env/*.jsonl.gz", "s3://b/rl/env"),
        ("s3://b/rl/env/x.jsonl", "s3://b/rl/env"),
        ("s3://b/rl/env-*/x.jsonl", "s3://b/rl"),
        ("s3://b", "s3://b"),
        ("data/*/x.jsonl", "data"),
        ("data/", "data"),
        ("run[1]", "run[1]"),
        ("*.jsonl", "."),
        (".", "."),
        ("/", "/"),
    ]
    for uri, folder in cases:
        _make_files(here, ("data/x.jsonl", "run[1]/x.jsonl"))
        assert literal_folder(uri) == folder


def test_found_files_are_named_as_the_user_writes_them(here):
    """Relative stays relative, without a leading `./` of its own, and a file called as a stream
    stays a file.
    """
    _make_files(here, ("data/x.jsonl", "-", "y[1].jsonl"))
    assert (
        _uris("data") == _uris("data/") == _uris("data/*") == _uris("*/x.jsonl") == ["data/x.jsonl"]
    )
    assert _uris("./data/*") == ["./data/x.jsonl"]
    assert _uris("../" + here.name + "/data//") == [f"../{here.name}/data/x.jsonl"]
    assert _uris(".") == _uris("./") == _uris("**") == ["./-", "data/x.jsonl", "y[1].jsonl"]
    assert _uris("y[1].jsonl") == ["y[1].jsonl"]


def _page(keys, following, modified="2026-01-01T00:00:00.000Z"):
    entries = "".join(
        f"<Contents><Key>{quote(key)}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>3</Size></Contents>"
        for key in keys
    )
    more = (
        "" if following is None else f"<NextContinuationToken>{following}</NextContinuationToken>"
    )
    truncated = str(following is not None).lower()
    return (
        f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{truncated}</IsTruncated>"
        f"{more}{entries}</ListBucketResult>"
    ).encode()


def test_age_on_s3_is_by_the_clock_of_s3(scripted_s3):
    """A machine whose clock is years off still knows that an object is ninety seconds old."""
    clock = {"Date": "Fri, 01 Jan 2010 00:01:30 GMT"}
    for modified, age_s in (("00:00", 90), ("01:00", 0)):  # the second is in its future
        page = _page(["rl/x"], None, f"2010-01-01T{modified}:00.000Z")
        scripted_s3.answer = lambda request, page=page: (200, clock, page)
        listed = scripted_s3.store.at("s3://b/rl/").iter_found()
        assert [found.age_s for found in listed] == [age_s]


def test_pages_are_fetched_as_they_are_needed(scripted_s3):
    """Reading n pages of keys takes n requests: a listing never holds more than a page."""

    def answer(request):
        page = int(parse_qs(urlsplit(request.path).query).get("continuation-token", ["0"])[0])
        return (
            200,
            {},
            _page(
                [f"rl/{page}{place}.jsonl" for place in range(5)], page + 1 if page < 3 else None
            ),
        )

    scripted_s3.answer = answer
    listing = scripted_s3.store.at("s3://b/rl/*.jsonl").iter_found()
    requests_before = [(next(listing), len(scripted_s3.requests))[1] for _ in range(20)]
    assert requests_before == [1] * 5 + [2] * 5 + [3] * 5 + [4] * 5
    query = parse_qs(urlsplit(scripted_s3.requests[0].path).query)
    assert query["prefix"] == ["rl/"]
    assert query["delimiter"] == ["/"]


def test_listing_starts_from_the_longest_literal_prefix(scripted_s3):
    """S3 is asked for no more than the wildcard leaves open, and for one level only where the
    pattern has one.
    """
    scripted_s3.answer = lambda request: (200, {}, _page([], None))
    asked = []
    for pattern in ("rl/env/run-*.jsonl", "rl/*/x", "rl/env/"):
        assert list(scripted_s3.store.at(f"s3://b/{pattern}").iter_found()) == []
        query = parse_qs(urlsplit(scripted_s3.requests[-1].path).query)
        asked.append((query["prefix"], query.get("delimiter")))
    assert asked == [
        (["rl/env/run-"], ["/"]),
        (["rl/"], None),
        (["rl/env/"], None),
    ]


_ODD = [
    "a b",
    "ü",
    "a%20b",
    "a+b",
    "[x]",
    "a&b",
    "a#b",
    "a?b",
    "a*",
    "'\"",
    "🙂",
    "a;b=c",
    "~",
    "a\\b",
]


def test_odd_characters_come_back_as_they_are(here, s3_bucket):
    """A key or file name may hold nearly anything, and what is found can be opened under the name
    given.
    """
    _make_files(here, tuple(f"data/{name}.jsonl" for name in _ODD))
    _put(s3_bucket, [f"rl/{name}.jsonl" for name in _ODD])
    for start in ("data/", f"s3://{s3_bucket.name}/rl/"):
        found = list(STORE.at(start).iter_found())
        assert sorted(each.identity.uri for each in found) == sorted(
            f"{start}{name}.jsonl" for name in _ODD
        )
        assert {STORE.at(each.identity.uri).read() for each in found} == {b"{}\n"}
    assert [STORE.at(each.identity.uri).identify() for each in found] == [
        each.identity for each in found
    ]


def test_only_files_are_found(here):
    """Links to files count; links to folders, links to nowhere or to themselves, pipes and sockets
    do not.
    """
    _make_files(here, ("data/x.jsonl", "other/y.jsonl"))
    os.symlink("../other/y.jsonl", "data/link.jsonl")
    os.symlink("../other", "data/folder")
    os.symlink("..", "data/up")
    os.symlink("nowhere", "data/broken")
    os.symlink("loop", "data/loop")
    os.mkfifo("data/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("data/socket")
        assert _uris("data") == _uris("data/*") == ["data/link.jsonl", "data/x.jsonl"]
    os.symlink("data", "named")
    assert _uris("named/*") == ["named/link.jsonl", "named/x.jsonl"]


def test_missing_folder_is_an_error(here):
    """A mistyped folder is named, while a pattern without a match in one that exists just finds
    nothing.
    """
    cases = [
        ("missing/", "missing/: the folder missing does not exist; check the path"),
        ("missing/*/x", "the folder missing does not exist"),
        ("x.jsonl/*", "the folder x.jsonl does not exist"),
        ("sub/missing.jsonl", "the folder sub does not exist"),
    ]
    for uri, message in cases:
        _make_files(here, ("x.jsonl",))
        with pytest.raises(InputError, match=message):
            _uris(uri)
        assert _uris("y*") == []


def test_other_places_cannot_be_listed():
    """A pattern needs a bucket without wildcards, or a local path."""
    cases = [
        "s3://",
        "s3:///x/",
        "s3://b*/x/",
        "https://host/x/",
        "gs://b/*",
    ]
    for uri in cases:
        with pytest.raises(UsageError):
            _uris(uri)


def test_unfinished_outputs_have_no_beginning_of_a_name(here):
    """Files of the current folder are found by what they begin with, but not unfinished outputs."""
    _make_files(here, ("x.jsonl", ".genrm-1.part"))
    assert [each.identity.uri for each in STORE.at("x.j").iter_named()] == ["x.jsonl"]
    assert list(STORE.at(".genrm").iter_named()) == []
    assert list(STORE.at("nowhere/x").iter_named()) == []
