import contextlib
import io
import json
import os
import random
import struct
import sys
import tracemalloc
import zipfile
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import GenrmError, InputError
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.encoding.containers import iter_as_lines
from genrm_cli.storage.encoding.records import iter_lines
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store

_LIMIT = 1 << 20
_RECORDS = [{"n": 1, "t": 'a "b" ]}, \\'}, {"n": [{"x": []}], "t": "\n[{,"}, {}]
_TEXTS = st.text(st.sampled_from('a"\\[]{},:\n ü'), max_size=6)
_VALUES = st.recursive(
    _TEXTS, lambda value: st.lists(value, max_size=2) | st.dictionaries(_TEXTS, value, max_size=2)
)
_ITEMS = st.lists(st.dictionaries(_TEXTS, _VALUES, max_size=2), min_size=1, max_size=4)


def _read(path, content=None, limit=_LIMIT):
    if content is not None:
        path.write_bytes(content)
    with open_source(str(path), Store(), InputSettings(max_line_bytes=limit)) as source:
        lines = list(source.iter_lines())
        assert list(source.iter_lines()) == lines
        assert source.unit == "item"
        source.verify_unchanged()
    return [(line.number, line.oversize or json.loads(line.raw)) for line in lines]


def _refusal(path, content):
    path.write_bytes(content)
    with (
        open_source(str(path), Store(), InputSettings()) as source,
        pytest.raises(InputError) as caught,
    ):
        list(source.iter_lines())
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def _archive(samples, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in samples.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _zstandard_archive(samples):
    """Write the archive that inspect_ai writes: the samples stored as zstandard frames, declared as
    method 93.
    """
    data = bytearray(
        _archive({name: _frames(content) for name, content in samples.items()}, zipfile.ZIP_STORED)
    )
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    at = archive.start_dir
    for entry in entries:
        content = samples[entry.filename]
        method = struct.pack("<H", 93)
        checksum = struct.pack("<L", zlib.crc32(content))
        for place, start in ((entry.header_offset, 8), (at, 10)):
            data[place + start : place + start + 2] = method
            data[place + start + 6 : place + start + 10] = checksum
            data[place + start + 14 : place + start + 18] = struct.pack("<L", len(content))
        at += 46 + len(entry.filename)
    return bytes(data)


def _frames(content):
    half = len(content) // 2
    return zstandard.compress(content[:half]) + zstandard.compress(content[half:])


def test_the_items_of_an_array_are_records(tmp_path):
    """An array on one line or on many yields its items, numbered from 1."""
    for indent in [None, 2]:
        for before in ["", "\n  ", "\ufeff"]:
            content = (before + json.dumps(_RECORDS, indent=indent) + "\n").encode()
            assert _read(tmp_path / "x.json", content) == list(enumerate(_RECORDS, 1))


def test_iterations_over_one_archive_run_side_by_side(tmp_path):
    """Overlapping iterations of a log keep their own positions."""
    path = tmp_path / "x.eval"
    path.write_bytes(_archive({f"samples/{n}_epoch_1.json": b"%d" % n * 50_000 for n in range(9)}))
    with open_source(str(path), Store(), InputSettings()) as source:
        for one, other in zip(source.iter_lines(), source.iter_lines(), strict=True):
            assert one == other


def test_a_pretty_printed_object_is_one_record(tmp_path):
    """An object that spans lines is one record; several, as jq prints them, are as many."""
    printed = json.dumps({"samples": [1], "eval": {}}, indent=2)
    assert _read(tmp_path / "x.json", printed.encode()) == [(1, {"samples": [1], "eval": {}})]
    records = [
        number for number, _ in _read(tmp_path / "y.json", f"{printed}\n{printed}\n".encode())
    ]
    assert records == [1, 2]


@given(
    records=_ITEMS,
    indent=st.sampled_from([None, 0, 3]),
    size=st.integers(1, 50),
    in_array=st.booleans(),
)
def test_chunk_borders_do_not_matter(records, indent, size, in_array):
    """Any JSON in any chunks is split into its items."""
    texts = [records] if in_array else records
    data = "\n".join(json.dumps(text, indent=indent) for text in texts).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    lines = iter_lines(iter_as_lines(chunks, "x", in_array=in_array), _LIMIT)
    assert [json.loads(line.raw) for line in lines] == records


def test_a_truncated_array_is_refused(tmp_path):
    """An array or object without an end raises an error once its complete items are read."""
    for ending in ["", ",", ", {", ', {"a": "b', ', {"a": "\\']:
        assert "in the middle of a JSON array" in _refusal(
            tmp_path / "x.json", ('[{"n": 1}' + ending).encode()
        )
        assert "in the middle of a JSON object" in _refusal(tmp_path / "y.json", b'{\n "n": 1')


def test_a_bad_item_keeps_its_number(tmp_path):
    """Items that are not JSON, a raw line break in a string and text after the array stay as bad
    lines.
    """
    path = tmp_path / "x.json"
    path.write_bytes(b'[{"n": 1}, {"n": nan}, {"n": "a\nb"}, {"n": 4}] more')
    with open_source(str(path), Store(), InputSettings()) as source:
        lines = list(source.iter_lines())
    assert [line.number for line in lines] == [1, 2, 3, 4, 5]
    assert [line.raw.strip() for line in lines[1:3]] == [b'{"n": nan}', b'{"n": "a\rb"}']
    assert lines[4].raw == b" more"


def test_an_oversize_item_is_not_held(tmp_path):
    """An item over the limit is marked, and its neighbours are read."""
    content = json.dumps([{"n": 1}, {"t": "x" * 2_000}, {"n": 3}]).encode()
    assert _read(tmp_path / "x.json", content, 100) == [
        (1, {"n": 1}),
        (2, 2_010),
        (3, {"n": 3}),
    ]


def test_an_empty_array_has_no_records(tmp_path):
    """An array without items is an empty input, not an error."""
    assert _read(tmp_path / "x.json", b"[ ]\n") == []


def test_lines_stay_lines(tmp_path):
    """A file of lines is read as lines, though its first one is a list or torn."""
    cases = [
        b'{"n": 1}\n{"n": 2}',
        b'[1, 2]\n{"n": 2}',
        b'{"n": \n{"n": 2}',
        b'{"n": 1,\n{"n": 2}',
        b'{\n{"n": 2}',
        b"{",
        b"nothing\n{}",
        b"",
    ]
    for content in cases:
        path = tmp_path / "x.jsonl"
        path.write_bytes(content)
        with open_source(str(path), Store(), InputSettings()) as source:
            assert source.unit == "line"
            assert [line.raw for line in source.iter_lines()] == content.splitlines()


_SAMPLES = {
    "header.json": b"{}",
    "samples/b_epoch_1.json": json.dumps({"id": "b"}, indent=2).encode(),
    "samples/a/x_epoch_1.json": b'{"id": "a/x"}',
    "summaries.json": b"[]",
}


def test_the_samples_of_an_eval_log_are_records(tmp_path):
    """Each sample of the archive is a record, also in zstandard frames, as inspect_ai writes
    them.
    """
    for method in [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93]:
        content = _zstandard_archive(_SAMPLES) if method == 93 else _archive(_SAMPLES, method)
        assert _read(tmp_path / "x.eval", content) == [
            (1, {"id": "b"}),
            (2, {"id": "a/x"}),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 93])
def test_a_zip_bomb_stays_small(tmp_path, method):
    """A sample that expands beyond the limit is marked oversize and not decompressed to its end."""
    samples = {"samples/a_epoch_1.json": b'"' + b" " * (64 << 20), "samples/b_epoch_1.json": b"{}"}
    path = tmp_path / "x.eval"
    path.write_bytes(_zstandard_archive(samples) if method == 93 else _archive(samples))
    with open_source(str(path), Store(), InputSettings(max_line_bytes=1_000)) as source:
        tracemalloc.start()
        try:
            lines = list(source.iter_lines())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert [(line.number, line.oversize) for line in lines] == [(1, (64 << 20) + 1), (2, None)]
    assert len(lines[0].raw) == 200
    assert peak < 24 << 20


def test_an_encrypted_archive_is_refused(tmp_path):
    """A sample that needs a password is named as such."""
    data = bytearray(_archive({"samples/a_epoch_1.json": b"{}"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in _refusal(tmp_path / "x.eval", bytes(data))


def test_damaged_archives_are_refused(tmp_path):
    """A cut or changed archive is an `InputError`, or its samples are read; nothing else is
    raised.
    """
    path = tmp_path / "x.eval"
    for whole in (_archive(_SAMPLES), _zstandard_archive(_SAMPLES)):
        assert "not a complete zip archive" in _refusal(path, whole[:-30])
        for at in range(4, len(whole), 3):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
            with open_source(str(path), Store(), InputSettings()) as source:
                try:
                    assert len(list(source.iter_lines())) <= 2
                except GenrmError as error:
                    assert isinstance(error, InputError)  # noqa: PT017


def test_other_files_are_refused_with_a_remedy(tmp_path):
    """The message names the kind of file and how to convert it."""
    cases = [
        ("x.jsonl", b"\x1f\x8b\x08\x00", "rename it: mv"),
        ("x.jsonl", zstandard.compress(b"{}"), "rename it: mv"),
        ("x.jsonl", "{}".encode("utf-16"), "iconv -f UTF-16 "),
        ("x.jsonl", '{"n": 1}'.encode("utf-16-le"), "iconv -f UTF-16LE "),
        ("x.jsonl", '[{"n": 1}]'.encode("utf-16-be"), "iconv -f UTF-16BE "),
        ("x.jsonl", "{}".encode("utf-32"), "iconv -f UTF-32 "),
        ("x.jsonl", '{"n": 1}'.encode("utf-32-le"), "iconv -f UTF-32LE "),
        ("x.jsonl", '[{"n": 1}]'.encode("utf-32-be"), "iconv -f UTF-32BE "),
        ("x.pt", _archive({"archive/data.pkl": b"", "archive/data/0": b""}), "torch.load"),
        ("x.pt", b"\x80\x02}q\x00.", "pickle"),
        ("x.csv", b"prompt,completion\nWhy?,So.,Or.\n", "row 1 has 3 fields"),
        ("x.csv", b"prompt,\nWhy?,So.\n", "need a name each"),
        ("x.csv", b"prompt,completion\n\xff,So.\n", "UTF-8"),
        ("x.jsonl", b"\n<!DOCTYPE html><html>", "HTML"),
        ("x.jsonl", b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "XML"),
        ("x.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        ("x.zip", _archive({"rollouts.jsonl": b"{}"}), "extract it"),
        ("x.eval", _archive({"samples/a_epoch_1/sample.json": b"{}"}), "inspect log convert"),
        ("x.eval", b"PK\x03\x04 nothing else", "not a complete zip archive"),
        ("x.parquet", b"PAR1 nothing else", "Parquet"),
    ]
    for name, content, says in cases:
        assert says in _refusal(tmp_path / name, content)


@pytest.fixture
def parquet(tmp_path):
    """Write 200 rows in three row groups."""
    import pyarrow
    from pyarrow import parquet as written

    path = tmp_path / "x.parquet"
    columns = {
        "prompt": [[{"role": "user", "content": f"q{n}"}] for n in range(200)],
        "reward": [float("nan"), *range(199)],
        "blob": [b"\x00"] * 200,
    }
    written.write_table(pyarrow.table(columns), path, row_group_size=70)
    return path


def test_the_rows_of_parquet_are_records(parquet):
    """Rows come in order over all row groups, NaN as null and bytes as base64."""
    rows = _read(parquet)
    assert [number for number, _ in rows] == list(range(1, 201))
    assert rows[0][1] == {
        "prompt": [{"role": "user", "content": "q0"}],
        "reward": None,
        "blob": "AA==",
    }
    assert rows[199][1] == {
        "prompt": [{"role": "user", "content": "q199"}],
        "reward": 198.0,
        "blob": "AA==",
    }


def test_parquet_without_its_library_names_the_extra(parquet, monkeypatch):
    """Without pyarrow the error says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install '.[parquet]'" in _refusal(parquet, parquet.read_bytes())


def test_a_damaged_parquet_file_is_refused(parquet):
    """It is cut off, or holds texts that no encoding can represent; the error names it."""
    content = parquet.read_bytes()
    os.truncate(parquet, parquet.stat().st_size // 2)
    assert "cannot be read as Parquet" in _refusal(parquet, parquet.read_bytes())
    chosen = random.Random(0)
    for _ in range(150):
        damaged = bytearray(content)
        damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        parquet.write_bytes(damaged)
        with (
            contextlib.suppress(InputError),
            open_source(str(parquet), Store(), InputSettings()) as source,
        ):
            list(source.iter_lines())
