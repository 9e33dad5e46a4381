"""What stands between a trainer and its server, as a process of its own:

    python rude_network.py TARGET_PORT cut 2      a proxy that answers 504 after two silent seconds
    python rude_network.py TARGET_PORT forget 2   a network that forgets flows silent for that long
    python rude_network.py TARGET_PORT page 2     a proxy that holds requests and replies back until
                                                  they are whole, and answers each second request
                                                  itself: with the page of nginx or Cloudflare, in
                                                  turn, for a server that is away
    python rude_network.py 0 hole 0               an address that nobody answers

It prints its port. All but `page` pass bytes on and know nothing of HTTP but how to say 504."""

import asyncio
import contextlib
import itertools
import re
import socket
import sys
from collections.abc import Iterator

_GATEWAY_TIMEOUT = (
    b"HTTP/1.1 504 Gateway Timeout\r\nContent-Type: text/html\r\nContent-Length: 4\r\n"
    b"Connection: close\r\n\r\nslow"
)
_PAGE = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>\r\n"
_AWAY = tuple(
    b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n%b" % (status, len(_PAGE), _PAGE)
    for status in (b"502 Bad Gateway", b"521 Web Server Is Down")
)


async def _pass_on(
    target: int,
    kind: str,
    limit_s: float,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Pass one connection on until either side ends it, or it is silent for too long."""
    try:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target)
    except OSError:
        writer.write(_GATEWAY_TIMEOUT.replace(b"504 Gateway Timeout", b"502 Bad Gateway"))
        writer.close()
        return
    moved = asyncio.Event()
    is_forgotten = False

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            moved.set()
            if is_forgotten:  # neither side is told
                continue
            sink.write(data)
            await sink.drain()

    ways = [
        asyncio.ensure_future(copy(reader, up_writer)),
        asyncio.ensure_future(copy(up_reader, writer)),
    ]
    while not any(way.done() for way in ways):
        moved.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.wait(
                    {*ways, asyncio.ensure_future(moved.wait())},
                    return_when=asyncio.FIRST_COMPLETED,
                )
                continue
        if kind == "cut":
            writer.write(_GATEWAY_TIMEOUT)
            break
        is_forgotten = True
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    for each in (writer, up_writer):
        each.close()


async def _answer_whole(
    target: int, page: bytes | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the only request of a connection: with the page, or else the whole reply."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if page is not None:
        writer.write(page)
    else:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target)
        line, rest = head.split(b"\r\n", 1)
        up_writer.write(line + b"\r\nConnection: close\r\n" + rest + body)
        writer.write(await up_reader.read())
        up_writer.close()
    await writer.drain()
    writer.close()


async def _serve(target: int, kind: str, limit_s: float) -> None:
    others = (None,) * (int(limit_s) - 1)
    pages = itertools.cycle((*others, _AWAY[0], *others, _AWAY[1]))

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if kind == "page":
                await _answer_whole(target, next(pages), reader, writer)
            else:
                await _pass_on(target, kind, limit_s, reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def hole() -> Iterator[int]:
    """Listen without accepting: once the queue is full, the kernel drops every SYN. Yield the
    port.
    """
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            each = opened.enter_context(socket.socket())
            each.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                each.connect(listening.getsockname())
        yield listening.getsockname()[1]


if __name__ == "__main__":
    if sys.argv[2] == "hole":
        with hole() as port:
            print(port, flush=True)
            sys.stdin.read()
    else:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
