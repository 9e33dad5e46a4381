"""What a client reads of a server's answers: replies, tokens and failures; and what it masks."""

import json
import tomllib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from calling import KEY, complete, failed_call, open_client

from genrm_cli.errors import UsageError
from genrm_cli.judging.client import KeyMask, chat_url
from genrm_cli.judging.completion import parse_completion, parse_models
from genrm_cli.judging.context.too_long import parse_too_long
from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import FailureKind, TooLong

SERVERS = tomllib.loads(Path(__file__).with_name("servers.toml").read_text(encoding="utf-8"))


def failed(server, api_key=None, **fault):
    """Make one call of a server with a fault."""
    server.behave(fault=fault)
    return failed_call(open_client(server.base_url, api_key=api_key))


def test_the_url_of_chat_completions():
    """A base URL may end in a slash, or be the whole URL already."""
    cases = [
        ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1/chat/completions"),
        ("https://host/a/b/v1/chat/completions", "https://host/a/b/v1/chat/completions"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions"),
    ]
    for given, url in cases:
        assert chat_url(given) == url


def test_what_is_no_http_url_is_a_usage_error():
    """Anything else is refused before a connection is tried."""
    cases = [
        "",
        "localhost:8000/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://[::1/v1",
        "/v1",
        "http://a\x1bb/v1",
        "http://a\nb/v1",
        "http://host/v\x01",
        "http://a\udcff/v1",
        "http://ä..b/v1",
        "http://" + "ä" * 80 + "/v1",
        "http://\u202ea/v1",
    ]
    for given in cases:
        with pytest.raises(UsageError, match="base_url"):
            chat_url(given)


@pytest.mark.parametrize("http_client", ["pyreqwest", "httpx"])
def test_a_host_that_cannot_exist_is_a_failed_call(http_client):
    """Nobody can be reached under such a name, whichever library says so."""
    for host in ("xn--0", "xn--", "1.2.3.4.5", "256.1.1.1", "a b", "[v1.x]"):
        client = open_client(f"http://{host}/v1", http_client)
        assert failed_call(client).failure.kind is FailureKind.CONNECTION


def test_a_reply_carries_text_and_tokens(judge_server):
    """Text, reasoning, finish reason and token counts arrive as the server gave them."""
    judge_server.behave(fault={"reasoning": "Let me weigh the two responses."})
    reply = complete(open_client(judge_server.base_url))
    assert reply.text == "ok"
    assert reply.finish_reason == "stop"
    assert reply.refusal is None
    assert reply.reasoning.startswith("Let me")
    assert reply.prompt_tokens == 1
    assert reply.completion_tokens == 1


@pytest.mark.parametrize("subject", SERVERS["failures"])
def test_what_fails_is_a_failure_of_its_kind_in_the_servers_words(judge_server, subject):
    """By status, by the shapes of errors and completions, and by what is said of the account. What
    is wrong with the endpoint may pass, what is with the request cannot.
    """
    for status, kind, words, *bodies in SERVERS["failures"][subject]:
        error = failed(judge_server, status=status, **dict(zip(["body"], bodies, strict=False)))
        assert error.failure.kind == kind, bodies
        assert error.may_pass is (kind != "refused")
        assert words in error.failure.detail
        assert error.overloaded == (status == 503)


TRACE = (
    "Unable to generate parser for this template. Automatic parser generation failed: "
    "\n------------\n"
    "While executing CallExpression at line 2, column 78 in source:\n"
    "...ser', 'assistant') -%}{{ raise_exception('Unknown role: ' + m['role']) }}{%- end...\n"
    "                                           ^\nError: Jinja Exception: Unknown role: response_1"
)


def test_a_trace_is_told_in_one_line_with_its_end(judge_server):
    """As with llama.cpp and a template that refuses a role, the cause comes last and is not cut
    off.
    """
    body = json.dumps({"error": {"code": 400, "message": TRACE, "type": "invalid_request_error"}})
    detail = failed(judge_server, status=400, body=body).failure.detail
    assert detail.startswith("HTTP 400: Unable to generate parser")
    assert detail.endswith("Unknown role: response_1")
    assert "\n" not in detail
    assert len(detail) <= 300


def test_odd_counts_and_words_of_a_server_do_no_harm():
    """Token counts that are no counts are unknown, and so are a finish reason and a refusal that
    are no text.
    """
    for odd in ["many", -3, 10**12, float("nan"), True, None, [], [1], {}]:
        message = {"content": "ok", "refusal": odd, "reasoning": odd}
        choices = [{"message": message, "finish_reason": odd}]
        usage = {"prompt_tokens": odd, "completion_tokens": odd}
        told = odd if isinstance(odd, str) else None
        assert parse_completion({"choices": choices, "usage": usage}) == Reply(
            "ok", reasoning=told or "", finish_reason=told, refusal=told
        )
        assert completion(usage=odd) == Reply("ok")


@pytest.mark.parametrize("clock_h", [None, -10, 10])
def test_retry_after_as_a_date(judge_server, clock_h):
    """Retry-After as a date is the seconds until then by the server's clock, if it tells the time,
    and 0 for one that has passed.
    """
    now = datetime.now(UTC) + timedelta(hours=clock_h or 0)
    told = {} if clock_h is None else {"Date": format_datetime(now, usegmt=True)}
    for hours, low_s, high_s in [(1, 3_000, 3_600), (-1, 0, 0)]:
        date = format_datetime(now + timedelta(hours=hours), usegmt=True)
        headers = {"Retry-After": date, **told}
        wait_s = failed(judge_server, status=429, headers=headers).retry_after_s
        assert wait_s is not None
        assert low_s <= wait_s <= high_s


def test_the_key_is_masked_in_every_failure(judge_server):
    """Whatever way a server repeats the key, neither it nor a piece of it is in the detail."""
    escaped = KEY.replace("-", "\\u002d")
    cases = [
        {"echo_authorization": True},
        {"status": 500, "body": f"<p>{KEY}</p>" * 40},
        {"status": 400, "body": f'{{"error": {{"message": "bad {escaped}"}}}}'},
        {"body": f"not JSON {'.' * 60} {KEY}"},  # the excerpt would end within the key
        {"status": 302, "headers": {"Location": f"https://elsewhere/?key={KEY}"}},
    ]
    for fault in cases:
        error = failed(judge_server, KEY, **fault)
        assert KEY[:10] not in error.failure.detail
        assert KEY[-8:] not in error.failure.detail
        assert KEY not in str(error)


def test_the_key_is_masked_in_answers(judge_server):
    """Answers are stored: an echoed key does not get there, plain or URL-encoded."""
    key = "sk-l/0123+456789"
    judge_server.behave(fault={"content": f"You sent {key} and ?key={quote(key, safe='')}."})
    assert (
        complete(open_client(judge_server.base_url, api_key=key)).text
        == "You sent [key] and ?key=[key]."
    )


@pytest.mark.parametrize("key", ["secret", "sk-l/0123+456789"])
def test_keys_of_any_length_and_of_gateways_are_masked_in_errors(judge_server, key):
    """A short key as a word of its own; and the value of any header that a gateway repeats."""
    message = f"{key} of Bearer up-stream-0123 or basic dXNlcjpwYXNz1; Bearer authentication failed"
    body = json.dumps({"error": {"message": message}})
    assert str(failed(judge_server, key, status=401, body=body)) == (
        "HTTP 401: [key] of Bearer [key] or basic [key]; Bearer authentication failed"
    )


def test_a_key_in_any_text_of_a_reply_is_masked():
    """The reason of a refusal, the name of a model and the reasoning are shown and stored, too."""
    reply = Reply(KEY, KEY, KEY, KEY, model=KEY).masked(KeyMask(KEY).mask)
    assert KEY not in repr(reply)


def test_an_answer_without_the_key_stays_as_it_is():
    """Short keys are no secrets, and pieces of a key may well be part of an answer."""
    assert KeyMask("EMPTY").mask("EMPTY") == "EMPTY"
    assert KeyMask("token-abc123").mask("token-based, not token-abc123") == "token-based, not [key]"


def completion(content="ok", **more):
    """Read a completion with this content."""
    return parse_completion({"choices": [{"message": {"content": content}}], **more})


def test_tokens_are_counted_in_any_form_that_servers_report():
    """Numbers may be texts or floats; reasoning that is left out of the reply's tokens is in the
    total.
    """
    for *counts, usage in SERVERS["usage"]:
        reply = completion(usage=json.loads(usage))
        assert [reply.prompt_tokens or "unknown", reply.completion_tokens or "unknown"] == counts


def test_the_choice_with_index_0_is_read():
    """Choices may come in any order; without an index the first counts, and another index alone is
    no answer.
    """
    first, second = ({"index": index, "message": {"content": str(index)}} for index in (0, 1))
    bare = {"message": {"content": "bare"}}
    assert parse_completion({"choices": [second, first]}).text == "0"
    assert parse_completion({"choices": [bare, bare | {"message": {}}]}).text == "bare"
    with pytest.raises(ValueError, match="no choice has index 0"):
        parse_completion({"choices": [second]})
    with pytest.raises(ValueError, match="two choices have index 0"):
        parse_completion({"choices": [first, second, first]})


def test_text_parts_are_read():
    """The text parts of a content list are the answer; other parts are not."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    said = [{"type": "text", "text": text} for text in "ok"]
    assert completion([thinking, said[0], {"type": "image_url"}, 7, said[1]]).text == "ok"


def test_the_context_of_a_model_is_read_as_servers_tell_it():
    """An adapter has that of its base model; a number that is no count of tokens is not told."""
    cards = [
        {"id": "vllm", "max_model_len": 32768},
        {"id": "lora", "parent": "vllm", "max_model_len": None},
        {"id": "openrouter", "context_length": 131072},
        {"id": "groq", "context_window": 8192},
        {"id": "openai"},
        {"id": "odd", "max_model_len": "many"},
        {"id": "orphan", "parent": "gone"},
    ]
    contexts = parse_models({"data": cards})
    assert [contexts[card["id"]] for card in cards] == [
        32768,
        32768,
        131072,
        8192,
        None,
        None,
        None,
    ]


def test_the_context_is_read_in_the_words_of_each_server():
    """The limit is told from the request's own numbers; without one, length is still the cause."""
    for status, words, *context in SERVERS["too_long"]:
        assert parse_too_long(status, {"message": words}, words) == TooLong(*context), words


def test_a_refusal_for_another_reason_says_nothing_about_length():
    """Tokens, limits and numbers occur in other errors, too."""
    for status, words in SERVERS["other"]:
        assert parse_too_long(status, {"message": words}, words) is None, words


def test_numbers_in_the_body_come_before_words():
    """llama.cpp names context and prompt in fields, whatever its message says."""
    error = {"type": "exceed_context_size_error", "n_prompt_tokens": 5_000, "n_ctx": 4_096}
    assert parse_too_long(400, error, "request refused") == TooLong(4_096, 5_000)
