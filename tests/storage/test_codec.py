import gzip
import io
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import InputError
from genrm_cli.storage.encoding.codec import iter_decoded, make_encoder

_SUFFIXES = ("x.jsonl", "x.jsonl.gz", "x.jsonl.zst")


def _encoded(pieces, uri):
    encoder = make_encoder(uri)
    return b"".join([*map(encoder.compress, pieces), encoder.flush()])


def _decoded(data, uri):
    return b"".join(iter_decoded(io.BytesIO(data), uri))


@given(pieces=st.lists(st.binary(max_size=300)), uri=st.sampled_from(_SUFFIXES))
def test_round_trip(pieces, uri):
    """Data encoded for a suffix is decoded for it, in chunks of any size."""
    assert _decoded(_encoded(pieces, uri), uri) == b"".join(pieces)


@given(
    members=st.lists(st.binary(max_size=20_000), min_size=1, max_size=4),
    uri=st.sampled_from(_SUFFIXES[1:]),
)
def test_joined_streams_are_read_to_the_end(members, uri):
    """Files appended to each other, as log shippers do, are all read."""
    assert _decoded(b"".join(_encoded([member], uri) for member in members), uri) == b"".join(
        members
    )


def test_other_tools_read_what_is_written():
    """The standard gzip and zstandard readers take the encoded bytes."""
    assert gzip.decompress(_encoded([b"abc"], "x.gz")) == b"abc"
    assert (
        zstandard.ZstdDecompressor().decompressobj().decompress(_encoded([b"abc"], "x.zst"))
        == b"abc"
    )


def test_gzip_has_no_time_in_it():
    """Equal data gives equal bytes, at any time: the time field of the header is zero."""
    assert _encoded([b"abc"], "x.gz")[4:8] == bytes(4)


def test_torn_compressed_input_is_an_error():
    """A compressed input that ends in the middle is refused by name, and never read as a short
    one.
    """
    for uri in _SUFFIXES[1:]:
        for kept in [0.02, 0.5, 0.999]:
            whole = _encoded([str(list(range(20_000))).encode()], uri)
            with pytest.raises(InputError, match=rf"^{uri}: the compressed data is truncated"):
                _decoded(whole[: int(len(whole) * kept)], uri)


def test_input_that_is_not_what_its_suffix_says_is_an_error():
    """Plain text, damaged bytes and trailing rubbish are refused by name."""
    for uri in _SUFFIXES[1:]:
        whole = _encoded([str(list(range(20_000))).encode()], uri)
        damaged = whole[:3000] + bytes(50) + whole[3050:]
        for data in (b'{"a":1}\n' * 10, damaged, whole + b"rubbish"):
            with pytest.raises(InputError, match=rf"^{uri}: "):
                _decoded(data, uri)


@pytest.mark.slow
@pytest.mark.parametrize("uri", _SUFFIXES[1:])
def test_repetitive_input_is_decoded_in_bounded_memory(uri):
    """Bytes that expand a thousandfold and more come out in pieces."""
    data = _encoded([bytes(1 << 20)] * 100, uri)
    total = 0
    tracemalloc.start()
    try:
        for chunk in iter_decoded(io.BytesIO(data), uri):
            total += len(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 100 << 20
    assert peak < 60 << 20
