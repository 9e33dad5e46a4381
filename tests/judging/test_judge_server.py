import http.client
import json
import socket
import threading
import time
from typing import Any

import pytest
from judge_behaviour import find_responses
from judge_families import PAIR_PROFILES
from judge_server_fixture import JudgeServer

from genrm_cli.judging.requests import PairwisePrompt

SHORT, LONG = "A word.", "A full answer that explains itself, step by step, with care."


def comparison(first: str = SHORT, second: str = LONG, question: str = "Why?") -> dict[str, Any]:
    """Build a request that compares two responses."""
    turns = [("user", question), ("response_1", first), ("response_2", second)]
    return {"model": "m", "messages": [{"role": role, "content": text} for role, text in turns]}


def post(server: JudgeServer, request: Any, timeout_s: float = 5, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send one request; returns status, headers by lower-case name, and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(request), headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def choice(body: bytes) -> dict[str, Any]:
    """Return the only choice of a completion."""
    picked: dict[str, Any] = json.loads(body)["choices"][0]
    return picked


def verdict(body: bytes) -> tuple[float, float, float]:
    """Return the three numbers in the fenced block."""
    content = choice(body)["message"]["content"]
    fields = json.loads(content.split("```json\n")[1].split("```")[0])
    return fields["score_1"], fields["score_2"], fields["ranking"]


def test_the_longer_response_wins_and_a_swap_turns_the_verdict_round(judge_server: JudgeServer) -> None:
    """By default length decides: scores swap with the responses, and ranking becomes 7 - ranking."""
    assert verdict(post(judge_server, comparison(SHORT, LONG))[2]) == (1, 5, 6)
    assert verdict(post(judge_server, comparison(LONG, SHORT))[2]) == (5, 1, 1)
    score_1, score_2, ranking = verdict(post(judge_server, comparison("same", "size"))[2])
    assert (score_1, score_2) == (3, 3)
    assert verdict(post(judge_server, comparison("size", "same"))[2]) == (3, 3, 7 - ranking)


@pytest.mark.parametrize("name", sorted(PAIR_PROFILES))
@pytest.mark.parametrize("texts", [(SHORT, LONG), ("", LONG), ("two\n\nlines", "")])
def test_the_responses_of_every_profile_are_found(name: str, texts: tuple[str, str]) -> None:
    """Whatever way a profile asks, the judge sees the two texts that were shown."""
    prompt = PairwisePrompt([("user", "Why?"), ("assistant", "Because."), ("user", "Really?")], *texts)
    assert find_responses(PAIR_PROFILES[name].render_messages(prompt)) == texts


def test_usage_counts_the_prompt_and_what_was_cached_of_it(judge_server: JudgeServer) -> None:
    """Tokens are characters // 4; with a prefix cache a shared beginning counts as cached."""
    judge_server.behave(prefix_cache=100)
    first = json.loads(post(judge_server, comparison("a" * 400, "b" * 400, "q" * 400))[2])["usage"]
    second = json.loads(post(judge_server, comparison("a" * 400, "c" * 400, "q" * 400))[2])["usage"]
    assert first["prompt_tokens"] == second["prompt_tokens"] == 300
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["prompt_tokens_details"]["cached_tokens"] == 200


def test_unknown_roles_are_refused_or_silently_dropped(judge_server: JudgeServer) -> None:
    """Dropped roles leave few prompt tokens and a verdict that does not follow a swap."""
    judge_server.behave(unknown_roles="reject")
    assert post(judge_server, comparison())[0] == 400
    judge_server.behave(unknown_roles="ignore")
    one, two = (post(judge_server, comparison(*pair))[2] for pair in [(SHORT, LONG), (LONG, SHORT)])
    assert verdict(one) == verdict(two)
    assert json.loads(one)["usage"]["prompt_tokens"] == len("Why?") // 4


def ask_at_once(server: JudgeServer, count: int) -> list[int]:
    """Send as many requests together; returns the statuses, sorted."""
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(post(server, comparison())[0])) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(statuses)


def test_requests_above_the_limit_are_refused_at_once(judge_server: JudgeServer) -> None:
    """With three calls in flight, the others get 429; the maximum in flight confirms it."""
    judge_server.behave(reject_above_in_flight=3, latency_s=0.5)
    assert ask_at_once(judge_server, 8) == [200] * 3 + [429] * 5
    assert judge_server.stats()["max_in_flight"] == 3


def test_requests_above_the_slots_wait_silently(judge_server: JudgeServer) -> None:
    """A full judge refuses no call; it only takes longer."""
    judge_server.behave(slots=2, latency_s=0.1)
    began = time.monotonic()
    assert ask_at_once(judge_server, 6) == [200] * 6
    assert time.monotonic() - began >= 0.3


def test_requests_split_anywhere_and_chunked_ones_are_understood(judge_server: JudgeServer) -> None:
    """The byte stream decides, not the packets; one connection serves several requests."""
    body = json.dumps(comparison()).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = head + b"5\r\n" + body[:5] + b"\r\n%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", judge_server.port), timeout=5) as client:
        for cuts in [(3, 60, len(wire) - 2), (len(head) + 4, len(wire) - 20)]:
            for start, end in zip((0, *cuts), (*cuts, len(wire)), strict=True):
                client.sendall(wire[start:end])
                time.sleep(0.005)
            received = b""
            while not received.endswith(b"}"):
                received += client.recv(65_536)
            assert b'"chat.completion"' in received


def test_a_client_that_speaks_tls_is_told_at_once(judge_server: JudgeServer) -> None:
    """A handshake on the plain port gets an HTTP error, as from a real server, and the connection ends."""
    with socket.create_connection(("127.0.0.1", judge_server.port), timeout=5) as client:
        client.sendall(b"\x16\x03\x01\x00\x05hello")
        assert client.recv(65_536).startswith(b"HTTP/1.1 400 ")
        assert client.recv(65_536) == b""
