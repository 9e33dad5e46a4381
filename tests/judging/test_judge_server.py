import gzip
import http.client
import json
import socket
import threading
import time
from typing import Any

import pytest
from judge_behaviour import find_responses, iter_lognormal_s
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


def test_hash_verdicts_are_the_same_in_every_process(judge_server: JudgeServer) -> None:
    """A verdict by hash depends on the messages alone, so a restarted judge says the same."""
    judge_server.behave(verdict="hash")
    requests = [comparison(question=str(number)) for number in range(8)]
    before = [verdict(post(judge_server, request)[2]) for request in requests]
    judge_server.kill()
    with pytest.raises(ConnectionRefusedError):
        post(judge_server, requests[0])
    judge_server.restart()
    assert [verdict(post(judge_server, request)[2]) for request in requests] == before
    assert len(set(before)) > 1


def test_a_fixed_verdict_is_told_as_it_was_given(judge_server: JudgeServer) -> None:
    """Whatever three numbers a test asks for, the reply holds them."""
    judge_server.behave(verdict={"score_1": 2, "score_2": 4.5, "ranking": 5})
    assert verdict(post(judge_server, comparison())[2]) == (2, 4.5, 5)


@pytest.mark.parametrize("name", sorted(PAIR_PROFILES))
@pytest.mark.parametrize("texts", [(SHORT, LONG), ("", LONG), ("two\n\nlines", "")])
def test_the_responses_of_every_profile_are_found(name: str, texts: tuple[str, str]) -> None:
    """Whatever way a profile asks, the judge sees the two texts that were shown."""
    exhibit = PairwisePrompt([("user", "Why?"), ("assistant", "Because."), ("user", "Really?")], *texts)
    assert find_responses(PAIR_PROFILES[name].render_messages(exhibit)) == texts


def test_messages_without_responses_get_a_short_answer(judge_server: JudgeServer) -> None:
    """A probe that compares nothing gets text, not a verdict."""
    _, _, body = post(judge_server, {"model": "m", "messages": [{"role": "user", "content": "hello"}]})
    assert choice(body)["message"]["content"] == "ok"


def test_usage_counts_the_prompt_and_what_was_cached_of_it(judge_server: JudgeServer) -> None:
    """Tokens are characters // 4; with a prefix cache a shared beginning counts as cached."""
    judge_server.behave(prefix_cache=100)
    first = json.loads(post(judge_server, comparison("a" * 400, "b" * 400, "q" * 400))[2])["usage"]
    second = json.loads(post(judge_server, comparison("a" * 400, "c" * 400, "q" * 400))[2])["usage"]
    assert first["prompt_tokens"] == second["prompt_tokens"] == 300
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["prompt_tokens_details"]["cached_tokens"] == 200


@pytest.mark.parametrize("request_body", [{"messages": []}, {"model": "m"}, {"model": "m", "messages": []}, []])
def test_a_request_without_model_or_messages_is_refused(judge_server: JudgeServer, request_body: Any) -> None:
    """The judge does not answer what a real server would refuse."""
    status, _, body = post(judge_server, request_body)
    assert status == 400
    assert json.loads(body)["error"]["type"] == "BadRequestError"


def test_key_and_model_are_checked_when_told_so(judge_server: JudgeServer) -> None:
    """A wrong key is 401, an unknown model 404 in vLLM's words, and the model list says what is served."""
    judge_server.behave(require_key="k1", models=["real"])
    assert post(judge_server, comparison())[0] == 401
    assert post(judge_server, comparison(), Authorization="Bearer k2")[0] == 401
    status, _, body = post(judge_server, comparison(), Authorization="Bearer k1")
    assert (status, json.loads(body)["error"]["message"]) == (404, "The model `m` does not exist.")
    assert post(judge_server, comparison() | {"model": "real"}, Authorization="Bearer k1")[0] == 200


def test_unknown_roles_are_refused_or_silently_dropped(judge_server: JudgeServer) -> None:
    """Dropped roles leave few prompt tokens and a verdict that does not follow a swap."""
    judge_server.behave(unknown_roles="reject")
    assert post(judge_server, comparison())[0] == 400
    judge_server.behave(unknown_roles="ignore")
    one, two = (post(judge_server, comparison(*pair))[2] for pair in [(SHORT, LONG), (LONG, SHORT)])
    assert verdict(one) == verdict(two)
    assert json.loads(one)["usage"]["prompt_tokens"] == len("Why?") // 4


def test_a_script_is_played_once_a_request_then_the_default_returns(judge_server: JudgeServer) -> None:
    """Each step serves one request: status and headers as told, and an empty step is a usual answer."""
    judge_server.behave(script=[{"status": 429, "headers": {"Retry-After": "1"}}, {}, {"status": 500, "body": "oops"}])
    replies = [post(judge_server, comparison()) for _ in range(4)]
    assert [status for status, _, _ in replies] == [429, 200, 500, 200]
    assert replies[0][1]["retry-after"] == "1"
    assert replies[2][2] == b"oops"
    assert judge_server.stats()["by_status"] == {"200": 2, "429": 1, "500": 1}


def test_a_shared_fault_hits_the_same_contents_every_time(judge_server: JudgeServer) -> None:
    """Content and seed alone decide who gets the fault, so two runs see the same failures."""
    judge_server.behave(fault={"status": 503}, fault_share=0.5, seed=3)
    requests = [comparison(question=str(number)) for number in range(40)]
    once, again = ([post(judge_server, request)[0] for request in requests] for _ in range(2))
    assert once == again
    assert 8 <= once.count(503) <= 32


def test_a_limited_fault_lets_the_same_body_through_later(judge_server: JudgeServer) -> None:
    """With fault_times 2 the third asking of a body succeeds."""
    judge_server.behave(fault={"status": 500}, fault_times=2)
    assert [post(judge_server, comparison())[0] for _ in range(3)] == [500, 500, 200]


def test_a_reset_breaks_the_connection_before_or_within_the_body(judge_server: JudgeServer) -> None:
    """Before: no byte arrives. Mid-body: the head arrives, then the connection is reset."""
    judge_server.behave(script=[{"reset": "before"}, {"reset": "mid_body"}])
    with pytest.raises(ConnectionResetError):
        post(judge_server, comparison())
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        post(judge_server, comparison())
    assert judge_server.stats()["resets"] == 2


def test_a_hanging_request_stays_in_flight_until_the_client_leaves(judge_server: JudgeServer) -> None:
    """Nothing is ever sent; the counters tell that it hangs, then that it was abandoned."""
    judge_server.behave(fault={"hang": True})
    with pytest.raises(TimeoutError):
        post(judge_server, comparison(), timeout_s=0.1)
    stats = judge_server.wait_until(lambda stats: stats["in_flight"] == 0)
    assert (stats["hangs"], stats["abandoned"]) == (1, 1)


def test_a_trickling_reply_comes_byte_by_byte(judge_server: JudgeServer) -> None:
    """The reply is whole in the end, but each byte takes its time."""
    judge_server.behave(fault={"trickle_s": 0.001, "status": 200, "body": "{}"})
    began = time.monotonic()
    assert post(judge_server, comparison())[2] == b"{}"
    assert time.monotonic() - began > 0.05


def test_odd_contents_are_sent_as_told(judge_server: JudgeServer) -> None:
    """Null content with reasoning and finish_reason length, free text, and HTML with status 200."""
    judge_server.behave(
        script=[
            {"content": None, "finish_reason": "length", "reasoning": "hm"},
            {"content": "I cannot say."},
            {"body": "<html>", "content_type": "text/html"},
        ]
    )
    truncated = choice(post(judge_server, comparison())[2])
    assert truncated["message"] == {"role": "assistant", "content": None, "reasoning_content": "hm"}
    assert truncated["finish_reason"] == "length"
    assert choice(post(judge_server, comparison())[2])["message"]["content"] == "I cannot say."
    _, headers, body = post(judge_server, comparison())
    assert (headers["content-type"], body) == ("text/html", b"<html>")


@pytest.mark.parametrize("chunked", [False, True])
def test_gzip_and_huge_bodies_unpack_to_a_valid_completion(judge_server: JudgeServer, chunked: bool) -> None:
    """A small compressed body may unpack to a huge one, with or without a Content-Length."""
    judge_server.behave(fault={"gzip": True, "huge_bytes": 3_000_000, "chunked": chunked})
    _, headers, body = post(judge_server, comparison())
    assert ("content-length" in headers, headers["content-encoding"]) == (not chunked, "gzip")
    assert len(body) < 100_000
    assert verdict(gzip.decompress(body)) == (1, 5, 6)
    assert len(gzip.decompress(body)) > 3_000_000


def test_an_echoed_key_stands_in_the_error(judge_server: JudgeServer) -> None:
    """The 401 holds the Authorization header, as careless proxies do."""
    judge_server.behave(fault={"echo_authorization": True})
    status, _, body = post(judge_server, comparison(), Authorization="Bearer topsecret")
    assert status == 401
    assert b"topsecret" in body


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


def test_lognormal_latencies_have_the_stated_mean_and_repeat() -> None:
    """The mean is arithmetic, and a seed fixes the sequence."""
    one, two = iter_lognormal_s(0.5, 0.8, 7), iter_lognormal_s(0.5, 0.8, 7)
    drawn = [next(one) for _ in range(20_000)]
    assert drawn[:50] == [next(two) for _ in range(50)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, rel=0.05)


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


def test_a_client_that_leaves_a_huge_reply_is_noticed(judge_server: JudgeServer) -> None:
    """A reply that nobody reads to the end counts as abandoned, not as answered."""
    judge_server.behave(fault={"huge_bytes": 40_000_000})
    body = json.dumps(comparison()).encode()
    with socket.create_connection(("127.0.0.1", judge_server.port), timeout=5) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        client.recv(1000)
    stats = judge_server.wait_until(lambda stats: stats["in_flight"] == 0)
    assert (stats["abandoned"], stats["by_status"]) == (1, {})


def test_stats_remember_the_last_fifty_requests(judge_server: JudgeServer) -> None:
    """A test can read what was sent: headers by lower-case name, body as JSON; repeats are counted."""
    for number in range(60):
        post(judge_server, comparison(question=str(number)), Authorization="Bearer k")
    post(judge_server, comparison(question="59"))
    stats = judge_server.stats()
    assert (stats["requests"], len(stats["recent"])) == (61, 50)
    assert (stats["distinct_answered"], stats["repeat_answers"]) == (60, 1)
    assert stats["recent"][0]["headers"]["authorization"] == "Bearer k"
    assert stats["recent"][-1]["body"] == comparison(question="59")


def test_a_behaviour_that_does_not_exist_is_an_error(judge_server: JudgeServer) -> None:
    """A typo in a test must not leave a judge that behaves well."""
    with pytest.raises(ValueError, match="latencys"):
        judge_server.behave(latencys=1)
    with pytest.raises(ValueError, match="satus"):
        judge_server.behave(fault={"satus": 500})
    with pytest.raises(ValueError, match="by_lenght"):
        judge_server.behave(verdict="by_lenght")


def test_other_routes_answer_as_a_server_does(judge_server: JudgeServer) -> None:
    """The models are listed, and an unknown path is 404."""
    connection = http.client.HTTPConnection("127.0.0.1", judge_server.port, timeout=5)
    try:
        connection.request("GET", "/v1/models")
        response = connection.getresponse()
        assert json.loads(response.read())["data"][0]["id"] == "local-judge"
        connection.request("POST", "/chat/completions", "{}")
        response = connection.getresponse()
        response.read()
        assert response.status == 404
    finally:
        connection.close()
