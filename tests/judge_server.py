"""A real judge process for tests and benchmarks: HTTP/1.1 on loopback, fast, and able to misbehave.

`python judge_server.py --port 0` prints its port as the first line and ends on SIGTERM or when
stdin closes. POST /control/behaviour replaces what it does (fields of `judge_behaviour.Behaviour`),
GET /control/stats tells what it saw, POST /control/reset forgets both and cuts the connections that
wait for an answer."""

import argparse
import asyncio
import contextlib
import gc
import gzip
import hashlib
import os
import resource
import signal
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
from judge_behaviour import (
    NO_FAULT,
    Behaviour,
    Fault,
    Json,
    Refusal,
    content_share,
    iter_lognormal_s,
    parse_behaviour,
    read_request,
    render_completion,
    render_models,
)
from judge_wire import JSON_HEAD, error_body, header_value, parse_request, render_reply

RECENT_REQUESTS = 500


@dataclass(slots=True)
class Asking:
    """One request being worked on."""

    connection: "Connection"
    fault: Fault
    request: Json
    head: bytes
    digest: bytes
    latency_s: float
    timer: asyncio.TimerHandle | None = None
    working: bool = False


class Connection(asyncio.Protocol):
    """Read requests one after another and hand them to the judge."""

    def __init__(self, judge: "Judge") -> None:
        self.judge = judge
        self.transport: asyncio.Transport
        self.asking: Asking | None = None
        self.delivery: asyncio.Task[None] | None = None
        self._received = b""
        self._drained = asyncio.Event()
        self._drained.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.judge.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.judge.drop(self)
        self._drained.set()
        if self.delivery is not None:
            self.delivery.cancel()
        if self.asking is not None:
            self.judge.abandon(self.asking)

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if self._received[:1].isalpha():
            self.read_on()
        else:  # a TLS handshake, for instance
            self.transport.write(
                render_reply(400, "text/plain", b"Invalid HTTP request received.", {})
            )
            self.transport.close()

    def read_on(self) -> None:
        """Take the next whole request, unless one is being answered."""
        if not self._received or self.asking is not None or self.transport.is_closing():
            return
        parsed = parse_request(self._received)
        if parsed is None:
            return
        head, body, taken = parsed
        self._received = self._received[taken:]
        method, path, _ = head.split(b" ", 2)
        if path == b"/v1/chat/completions" and method == b"POST":
            self.judge.ask(self, head, body)
            return
        status, reply = self.judge.answer_other(self, method + b" " + path, body)
        self.send(status, reply)

    def send(self, status: int, body: bytes, extra: dict[str, str] | None = None) -> None:
        """Write a whole JSON reply and go on reading."""
        if status == 200 and not extra:
            self.transport.write(JSON_HEAD % len(body) + body)
        else:
            self.transport.write(render_reply(status, "application/json", body, extra or {}))
        self.read_on()

    def cut(self) -> None:
        """Reset the connection: the peer sees ECONNRESET, not an end of file."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def write_slowly(self, payload: bytes, step_bytes: int, gap_s: float) -> None:
        """Write in steps, no faster than the peer reads."""
        for start in range(0, len(payload), step_bytes):
            if self.transport.is_closing():
                return
            self.transport.write(payload[start : start + step_bytes])
            await self._drained.wait()
            await asyncio.sleep(
                gap_s
            )  # even 0: a loop that never yields would not see the peer leave


class Judge:
    """Answer requests under the present behaviour, and count."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.connections: set[Connection] = set()
        self.forget(Behaviour())

    def forget(self, behaviour: Behaviour) -> None:
        """Start over: counters at zero, this behaviour."""
        self.requests = self.in_flight = self.max_in_flight = self.working = 0
        self.hangs = self.abandoned = self.repeat_answers = 0
        self.by_status: Counter[int] = Counter()
        self.kept = set(self.connections)
        self.max_connections = 0
        self.recent: deque[tuple[bytes, bytes]] = deque(maxlen=RECENT_REQUESTS)
        self.answered: set[bytes] = set()
        self.faulted: Counter[bytes] = Counter()
        self.waiting: deque[Asking] = deque()
        self.behave(behaviour)

    def add(self, connection: Connection) -> None:
        """Take a connection; those that a server kept open from an earlier test are not counted."""
        self.connections.add(connection)
        self.max_connections = max(self.max_connections, len(self.connections) - len(self.kept))

    def drop(self, connection: Connection) -> None:
        """Forget a connection that ended."""
        self.connections.discard(connection)
        self.kept.discard(connection)

    def behave(self, behaviour: Behaviour) -> None:
        """Act like this from the next request on."""
        self.behaviour = behaviour
        self.script = deque(behaviour.script)
        self.loading = behaviour.loading
        self._latencies_s: Iterator[float] | None = None
        if behaviour.latency_lognormal is not None:
            self._latencies_s = iter_lognormal_s(**behaviour.latency_lognormal, seed=behaviour.seed)

    def ask(self, connection: Connection, head: bytes, body: bytes) -> None:
        """Take one chat completion request."""
        self.requests += 1
        self.recent.append((head, body))
        read = self._still_loading() or read_request(
            self.behaviour, header_value(head, b"authorization"), body, self.in_flight
        )
        if isinstance(read, Refusal):
            self.by_status[read.status] += 1
            connection.send(read.status, _refusal_body(read))
            return
        digest = hashlib.sha256(body).digest()
        fault = self._choose_fault(read, digest)
        asking = Asking(connection, fault, read, head, digest, self._latency_s(fault))
        connection.asking = asking
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        if self.behaviour.slots is not None and self.working >= self.behaviour.slots:
            self.waiting.append(asking)
        else:
            self._work(asking)

    def _still_loading(self) -> Refusal | None:
        if not self.loading:
            return None
        self.loading -= 1
        return Refusal(503, "unavailable_error", "Loading model")

    def _choose_fault(self, request: Json, digest: bytes) -> Fault:
        rules = self.behaviour
        if self.script:
            return self.script.popleft()
        if not rules.fault or not rules.fault_share:
            return NO_FAULT
        if rules.fault_times is not None:
            if self.faulted[digest] >= rules.fault_times:
                return NO_FAULT
            self.faulted[digest] += 1
        messages = request["messages"]
        assert isinstance(messages, list)
        if rules.fault_share >= 1:
            return rules.fault[0]
        share = content_share(messages, rules.seed)
        place = int(share / rules.fault_share) if rules.fault_share > 0 else len(rules.fault)
        return rules.fault[place] if place < len(rules.fault) else NO_FAULT

    def _latency_s(self, fault: Fault) -> float:
        if fault.latency_s is not None:
            return fault.latency_s
        return (
            next(self._latencies_s) if self._latencies_s is not None else self.behaviour.latency_s
        )

    def _work(self, asking: Asking) -> None:
        asking.working = True
        self.working += 1
        if asking.fault.hang:
            self.hangs += 1
        elif asking.latency_s > 0:
            asking.timer = self.loop.call_later(asking.latency_s, self._finish, asking)
        else:
            self._finish(asking)

    def _finish(self, asking: Asking) -> None:
        connection = asking.connection
        fault = asking.fault
        asking.timer = (
            None  # it refers back to the asking: a cycle that would keep every request in memory
        )
        if fault is NO_FAULT:
            body = self._render(asking)
            self._release(asking, 200)
            connection.send(200, body)
            return
        if fault.reset == "before":
            self._release(asking, None)
            connection.cut()
            return
        connection.delivery = self.loop.create_task(self._deliver(asking))

    async def _deliver(self, asking: Asking) -> None:
        """Send a reply that is odd in its content or in its delivery."""
        connection = asking.connection
        fault = asking.fault
        payload = self._faulty_payload(asking)
        if fault.reset == "mid_body":
            connection.transport.write(payload[: len(payload) - len(payload) // 4])
            await asyncio.sleep(0.02)  # a reset discards what the kernel has not sent yet
            self._release(asking, None)
            connection.cut()
            return
        await connection.write_slowly(payload, 1 if fault.trickle_s else 65_536, fault.trickle_s)
        self._release(asking, fault.status)
        connection.delivery = None
        connection.read_on()

    def _faulty_payload(self, asking: Asking) -> bytes:
        fault = asking.fault
        status = fault.status
        extra = dict(fault.headers)
        if fault.echo_authorization:
            status = 401 if status == 200 else status
            echoed = (header_value(asking.head, b"authorization") or b"").decode("latin-1")
            body = error_body(
                f"Incorrect API key provided: {echoed}", "AuthenticationError", status
            )
        elif fault.body is not None:
            body = fault.body.encode()
        elif status != 200:
            body = error_body(f"Told to answer {status}", "LocalJudgeError", status)
        else:
            body = self._render(asking)
        if fault.gzip:
            body = gzip.compress(body, 1)
            extra = extra | {"Content-Encoding": "gzip"}
        return render_reply(status, fault.content_type, body, extra, chunked=fault.chunked)

    def _render(self, asking: Asking) -> bytes:
        messages = asking.request["messages"]
        assert isinstance(messages, list)
        return render_completion(self.behaviour, asking.fault, asking.request, messages)

    def _release(self, asking: Asking, status: int | None) -> None:
        """Count the end of a request and start the next that waits for a slot."""
        asking.connection.asking = None
        self.in_flight -= 1
        if status is not None:
            self.by_status[status] += 1
        if status == 200:
            self.repeat_answers += asking.digest in self.answered
            self.answered.add(asking.digest)
        if asking.working:
            self.working -= 1
            if (
                self.waiting
                and self.behaviour.slots is not None
                and self.working < self.behaviour.slots
            ):
                self._work(self.waiting.popleft())

    def abandon(self, asking: Asking) -> None:
        """Note that the client went away before its answer."""
        self.abandoned += 1
        if asking.timer is not None:
            asking.timer.cancel()
        with contextlib.suppress(ValueError):
            self.waiting.remove(asking)
        self._release(asking, None)

    def answer_other(self, connection: Connection, route: bytes, body: bytes) -> tuple[int, bytes]:
        """Answer everything that is not a chat completion."""
        if route == b"GET /v1/models":
            loading = self._still_loading()
            if loading is not None:
                return loading.status, _refusal_body(loading)
            return 200, render_models(self.behaviour)
        if route == b"GET /control/stats":
            return 200, orjson.dumps(self.stats())
        if route == b"POST /control/behaviour":
            try:
                self.behave(parse_behaviour(body))
            except (TypeError, ValueError) as error:
                return 400, error_body(str(error), "BadBehaviour", 400)
            return 200, b"{}"
        if route == b"POST /control/reset":
            for other in self.connections - {connection}:
                if (
                    other.asking is not None
                ):  # a server may be about to use an idle one: cut, it fails its next call
                    other.cut()
            self.loop.call_soon(self.forget, Behaviour())
            return 200, b"{}"
        return 404, orjson.dumps({"detail": "Not Found"})

    def stats(self) -> Json:
        """Return the counters and the last requests."""
        return {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "max_connections": self.max_connections,
            "by_status": {str(status): count for status, count in sorted(self.by_status.items())},
            "hangs": self.hangs,
            "abandoned": self.abandoned,
            "distinct_answered": len(self.answered),
            "repeat_answers": self.repeat_answers,
            "recent": [_describe_request(head, body) for head, body in self.recent],
        }


def _refusal_body(refusal: Refusal) -> bytes:
    code = refusal.code or refusal.status
    return error_body(refusal.message, refusal.kind, code, refusal.param, refusal.more)


def _describe_request(head: bytes, body: bytes) -> Json:
    lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:])
    }
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = body.decode("utf-8", "replace")
    return {"headers": headers, "body": parsed}


def _stop_when_stdin_closes(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # os.read, not sys.stdin: a daemon thread that holds stdin's lock breaks the interpreter's
    # shutdown.
    while os.read(0, 4096):
        pass
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(stop.set)


async def serve(port: int) -> None:
    """Serve on loopback until SIGTERM or the end of stdin."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    judge = Judge(loop)
    server = await loop.create_server(lambda: Connection(judge), "127.0.0.1", port, backlog=8192)
    print(server.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=_stop_when_stdin_closes, args=(loop, stop), daemon=True).start()
    await stop.wait()
    server.close()
    for connection in list(judge.connections):
        connection.transport.abort()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.set_threshold(100_000, 50, 50)  # thousands of live connections make each collection slow
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
