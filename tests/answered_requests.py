"""Answer files of requests as `vllm run-batch` or a provider's batch API would, by the judge of the
tests.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
Answer = Callable[[Json], tuple[int, Json]]


@contextmanager
def asking(base_url: str) -> Iterator[Answer]:
    """Keep a connection to a judge; yield a function that sends a body and returns the status and
    the reply.
    """
    place = urlsplit(base_url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=60)

    def ask(body: Json) -> tuple[int, Json]:
        connection.request(
            "POST", f"{place.path}/chat/completions", json.dumps(body, ensure_ascii=False).encode()
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    with closing(connection):
        yield ask


def openai_line(custom_id: str, status: int, body: Json) -> Json:
    """Return a line as OpenAI writes it: a failure has its reason in the body."""
    response = {"status_code": status, "request_id": "req", "body": body}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}


def vllm_line(custom_id: str, status: int, body: Json) -> Json:
    """Return a line as `vllm run-batch` writes it: a failure has its reason next to the
    response.
    """
    line = openai_line(custom_id, status, body)
    if status != 200:
        line["response"]["body"] = None
        line["error"] = body
    return line


def answer_file(
    path: Path, base_url: str, line: Callable[[str, int, Json], Json] = vllm_line
) -> list[Json]:
    """Return the lines that answer a file of requests by a judge."""
    requests = [json.loads(each) for each in path.read_bytes().splitlines()]
    with asking(base_url) as ask:
        return [line(each["custom_id"], *ask(each["body"])) for each in requests]
