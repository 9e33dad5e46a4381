from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.storage.encoding.records import EXCERPT_BYTES, Line, iter_lines

_MARK = b"\xef\xbb\xbf"
_PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b" ",
        b"a",
        b"bcd",
        "\u2028".encode(),
        _MARK,
        b"x" * 7,
        b'{"k":1}',
    ]
)


def _in_chunks(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


def _expected(data, limit):
    """Read the lines the plain way, all at once."""
    lines = []
    for number, piece in enumerate(data.split(b"\n"), 1):
        skip = len(_MARK) if number == 1 and piece.startswith(_MARK) else 0
        text = piece[skip:]
        if len(piece) > limit:
            lines.append(Line(number, text[:EXCERPT_BYTES], len(piece)))
        elif text.removesuffix(b"\r").strip():
            lines.append(Line(number, text.removesuffix(b"\r")))
    return lines


@given(
    data=st.lists(_PIECES, max_size=60).map(b"".join),
    size=st.integers(1, 40),
    limit=st.integers(1, 40),
)
def test_chunk_borders_do_not_matter(data, size, limit):
    """However the bytes arrive, the lines are those of a plain split on newlines."""
    assert list(iter_lines(_in_chunks(data, size), limit)) == _expected(data, limit)


@given(
    lengths=st.lists(st.integers(0, 900), max_size=6),
    size=st.integers(1, 500),
    limit=st.integers(1, 600),
)
def test_long_lines_keep_their_excerpt_in_any_chunks(lengths, size, limit):
    """An oversize line's excerpt is its first 200 bytes, even when it spans many chunks."""
    alphabet = bytes(range(48, 122))
    data = b"\n".join((alphabet * 13)[:length] for length in lengths)
    assert list(iter_lines(_in_chunks(data, size), limit)) == _expected(data, limit)


def test_only_newlines_end_a_line():
    """U+2028, U+0085, form feeds and lone carriage returns stay inside their line."""
    text = '{"a":"x\u2028y\u0085z\u2029"}\x0c\x1c\r{"b":1}'.encode()
    assert list(iter_lines([text + b"\r\nnext"], 1000)) == [Line(1, text), Line(2, b"next")]


def test_oversize_line_is_never_held():
    """A line of 64 MB against a limit of 1 MB is read in flat memory."""
    import tracemalloc

    chunks = (b"x" * (1 << 20) for _ in range(64))
    tracemalloc.start()
    try:
        (line,) = iter_lines(chunks, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert line.oversize == 64 << 20
    assert peak < 8 << 20
