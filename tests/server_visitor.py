"""A client that sends a server of rewards requests of every kind."""

import contextlib
import json
import re
import socket

import httpx
from forked_genrm import ForkedGenrm
from served import verify_row

IMAGE = "data:image/png;base64,iVBORw0KGgo="
ELSEWHERE = "https://images.example/cat.png"
_KNOWN = {
    "expected_answer": "one",
    "rubric": "Names the number.",
    "metadata": {"task": "t"},
    "remark": "A remark.",
}
_MEMBER = {"messages": "Why?", "text": "A member."}
_MESSAGE = {"id": "m", "type": "message", "role": "assistant"}
_LIMIT_S = 20.0
_WAIT_S = 1.0  # for what a server does by itself


def visit(place: str, server: ForkedGenrm, *, is_patient: bool) -> list[object] | None:
    """Send the requests, one after another; return the replies, or None if the server has ended.

    A patient visitor also waits for a cohort that no other member joins.
    """
    host, port = place.split(":")
    with httpx.Client(base_url=f"http://{place}", timeout=_LIMIT_S, trust_env=False) as client:
        if not _is_up(client, server):
            return None
        half = socket.create_connection((host, int(port)))
        half.sendall(b"POST /v1/groups HTTP/1.1\r\n")
        replies: list[object] = [_sent(client, *request) for request in _requests()]
        if is_patient:
            sized = {"size": 2, **_MEMBER}
            replies.append(_sent(client, "/v1/cohorts/open/members/0", sized, _WAIT_S))
            replies.append(_sent(client, "/verify", verify_row(0, "there")))
            replies.append(_sent(client, *_requests()[0]))
        half.settimeout(_WAIT_S if is_patient else 0.001)
        try:
            replies.append(half.recv(10).decode())
        except TimeoutError:
            replies.append("open")
        half.close()
        lines = client.get("/metrics").text.splitlines()
        return [*replies, [line for line in lines if re.match("genrm_(judge_cost|.*win)", line)]]


def _requests() -> list[tuple[object, ...]]:
    texts = ("one", "one two", "one two three four", "four", "five and more", " ")
    long = "Why? " + "All of it counts. " * 900
    group = {"id": "g", "messages": long, **_KNOWN, "responses": _responses(texts)}
    alone = {"id": "alone", "messages": "Why?", **_KNOWN, "responses": _responses(["Because."])}
    asked = {"id": "why", "messages": "Why?", "responses": _responses(["Because of it.", "No."])}
    remarked = verify_row(0, "here", remark="I liked it a lot.")
    seen = {"id": "seen", "messages": "Why?", "responses": _images()}
    return [
        ("/v1/groups", group),
        ("/v1/groups", alone),
        ("/v1/groups", asked),
        ("/v1/groups", {**asked, "id": "proxied"}, _LIMIT_S, "proxy.example"),
        ("/v1/groups", seen),
        ("/verify?size=1", remarked),
    ]


def _responses(texts):
    return [
        {"id": str(number), "text": text, "record": _KNOWN} for number, text in enumerate(texts)
    ]


def _images():
    """Return responses of which some hold images, and one is JSON."""
    contents = [
        [{"type": "output_text", "text": "here"}],
        [{"type": "output_text", "text": json.dumps({"result": {"text": "x"}})}],
        [{"type": "input_image", "image_url": IMAGE}],
        [{"type": "input_image", "image_url": ELSEWHERE}],
    ]
    return [
        {"id": str(number), "item": {"output": [{**_MESSAGE, "content": content}]}}
        for number, content in enumerate(contents)
    ]


def _is_up(client, server):
    while server.returncode is None:
        with contextlib.suppress(httpx.TransportError):
            client.get("/healthz")
            return True
    return False


def _sent(client, path, body, timeout_s=_LIMIT_S, host=None):
    headers = {} if host is None else {"Host": host}
    try:
        reply = client.post(path, json=body, headers=headers, timeout=timeout_s)
        return [reply.status_code, reply.json()]
    except (httpx.TransportError, ValueError) as error:
        return [type(error).__name__]
