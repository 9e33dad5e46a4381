import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import orjson
import pytest

from genrm_cli.errors import UsageError
from genrm_cli.judging.client import CallError, JudgeClient, KeyMask, chat_url
from genrm_cli.judging.completion import parse_completion, parse_models
from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import FailureKind

KEY = "sk-local-0123456789abcdef"
BODY = orjson.dumps(
    {
        "model": "m",
        "messages": [{"role": "user", "content": "Say ok."}],
    }
)
TIMEOUT_S = 10.0


def client_of(server, **changes):
    """Return a client of the server."""
    fields = {
        "api_key": None,
        "connect_timeout_s": 2,
        "max_connections": 4,
    }
    return JudgeClient(server.base_url, **{**fields, **changes})


def complete(where, timeout_s=TIMEOUT_S):
    """Make one call."""

    async def call():
        async with where as client:
            return await client.complete(BODY, timeout_s)

    return asyncio.run(call())


def failed_call(where, timeout_s=TIMEOUT_S):
    """Make one call that must fail."""
    with pytest.raises(CallError) as caught:
        complete(where, timeout_s)
    return caught.value


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
        client = JudgeClient(f"http://{host}/v1", None, 2, 4, http_client=http_client)
        assert failed_call(client).failure.kind is FailureKind.CONNECTION


def test_a_reply_carries_text_and_tokens(judge_server):
    """Text, reasoning, finish reason and token counts arrive as the server gave them."""
    judge_server.behave(with_reasoning=True)
    reply = complete(client_of(judge_server))
    assert reply.text == "ok"
    assert reply.finish_reason == "stop"
    assert reply.refusal is None
    assert reply.reasoning.startswith("Let me")
    assert reply.prompt_tokens == 1
    assert reply.completion_tokens == 1


def test_a_status_is_a_failure_of_its_kind(judge_server):
    """Every status but 200 has a kind; what is wrong with the endpoint may pass, what is with the
    request cannot.
    """
    cases = [
        (400, FailureKind.REFUSED, False),
        (401, FailureKind.AUTH, True),
        (402, FailureKind.SPENT, True),
        (404, FailureKind.HTTP, True),
        (408, FailureKind.TIMEOUT, True),
        (413, FailureKind.REFUSED, False),
        (429, FailureKind.RATE_LIMITED, True),
        (500, FailureKind.HTTP, True),
        (503, FailureKind.HTTP, True),
        (302, FailureKind.HTTP, True),
    ]
    for status, kind, may_pass in cases:
        judge_server.behave(fault={"status": status})
        error = failed_call(client_of(judge_server))
        assert error.failure.kind == kind
        assert error.may_pass == may_pass
        assert str(status) in error.failure.detail
        assert error.overloaded == (status == 503)


def test_the_servers_own_words_are_told(judge_server):
    """The detail quotes the message of the usual error shapes, else the text in one line."""
    cases = [
        ('{"error": {"message": "context is too long"}}', "context is too long"),
        ('{"message": "context is too long"}', "context is too long"),
        ('{"detail": "context is too long"}', "context is too long"),
        ('{"error": "context is too long"}', "context is too long"),
        ("<html>\n <b>gone</b>\n</html>", "<html> <b>gone</b> </html>"),
        ("[1, 2]", "[1, 2]"),
        ("", "HTTP 400"),
    ]
    for body, words in cases:
        judge_server.behave(fault={"status": 400, "body": body})
        assert words in failed_call(client_of(judge_server)).failure.detail


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
    body = orjson.dumps(
        {
            "error": {
                "code": 400,
                "message": TRACE,
                "type": "invalid_request_error",
            }
        }
    ).decode()
    judge_server.behave(fault={"status": 400, "body": body})
    detail = failed_call(client_of(judge_server)).failure.detail
    assert detail.startswith("HTTP 400: Unable to generate parser")
    assert detail.endswith("Unknown role: response_1")
    assert "\n" not in detail
    assert len(detail) <= 300


def test_a_200_that_is_no_completion_is_a_bad_body(judge_server):
    """A page, torn JSON or another object is a failure that shows how it begins, and may pass."""
    cases = [
        "<html>Sign in</html>",
        "",
        "{",
        "null",
        "[]",
        '"text"',
        "{}",
        '{"choices": []}',
        '{"choices": [{}]}',
        '{"choices": [{"message": null}]}',
        '{"choices": {"0": 1}}',
    ]
    for body in cases:
        judge_server.behave(fault={"body": body})
        error = failed_call(client_of(judge_server))
        assert error.failure.kind == FailureKind.BAD_BODY
        assert error.may_pass is True
        assert body[:20] in error.failure.detail


def test_odd_counts_and_words_of_a_server_do_no_harm():
    """Token counts that are no counts are unknown, and so are a finish reason and a refusal that
    are no text.
    """
    for odd in ["many", -3, 10**12, float("nan"), True, None, [], [1], {}]:
        usage = {
            "prompt_tokens": odd,
            "completion_tokens": odd,
        }
        message = {
            "content": "ok",
            "refusal": odd,
            "reasoning": odd,
        }
        reply = parse_completion(
            {
                "choices": [{"message": message, "finish_reason": odd}],
                "usage": usage,
            }
        )
        told = odd if isinstance(odd, str) else None
        assert reply == Reply("ok", reasoning=told or "", finish_reason=told, refusal=told)
        choices = [{"message": {"content": "ok"}}]
        assert parse_completion({"choices": choices, "usage": odd}) == Reply("ok")


@pytest.mark.parametrize("clock_h", [None, -10, 10])
def test_retry_after_as_a_date(judge_server, clock_h):
    """Retry-After as a date is the seconds until then by the server's clock, if it tells the time,
    and 0 for one that has passed.
    """
    now = datetime.now(UTC) + timedelta(hours=clock_h or 0)
    told = {} if clock_h is None else {"Date": format_datetime(now, usegmt=True)}
    for hours, low_s, high_s in [(1, 3_000, 3_600), (-1, 0, 0)]:
        date = format_datetime(now + timedelta(hours=hours), usegmt=True)
        judge_server.behave(fault={"status": 429, "headers": {"Retry-After": date, **told}})
        wait_s = failed_call(client_of(judge_server)).retry_after_s
        assert wait_s is not None
        assert low_s <= wait_s <= high_s


def test_the_key_is_masked_in_every_failure(judge_server):
    """Whatever way a server repeats the key, neither it nor a piece of it is in the detail."""
    cases = [
        {"echo_authorization": True},
        {"status": 500, "body": f"<p>{KEY}</p>" * 40},
        {
            "status": 400,
            "body": '{"error": {"message": "bad KEY"}}'.replace("KEY", KEY.replace("-", "\\u002d")),
        },
        {"body": f"not JSON {'.' * 60} {KEY}"},  # the excerpt would end within the key
        {
            "status": 302,
            "headers": {"Location": f"https://elsewhere/?key={KEY}"},
        },
    ]
    for fault in cases:
        judge_server.behave(fault=fault)
        error = failed_call(client_of(judge_server, api_key=KEY))
        assert KEY[:10] not in error.failure.detail
        assert KEY[-8:] not in error.failure.detail
        assert KEY not in str(error)


def test_the_key_is_masked_in_answers(judge_server):
    """Answers are stored: an echoed key does not get there, plain or URL-encoded."""
    key = "sk-l/0123+456789"
    judge_server.behave(fault={"content": f"You sent {key} and ?key={quote(key, safe='')}."})
    assert complete(client_of(judge_server, api_key=key)).text == "You sent [key] and ?key=[key]."


@pytest.mark.parametrize("key", ["secret", "sk-l/0123+456789"])
def test_keys_of_any_length_and_of_gateways_are_masked_in_errors(judge_server, key):
    """A short key as a word of its own; and the value of any header that a gateway repeats."""
    message = f"{key} of Bearer up-stream-0123 or basic dXNlcjpwYXNz1; Bearer authentication failed"
    body = orjson.dumps({"error": {"message": message}}).decode()
    judge_server.behave(fault={"status": 401, "body": body})
    assert str(failed_call(client_of(judge_server, api_key=key))) == (
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


def test_tokens_are_counted_in_any_form_that_servers_report():
    """Numbers may be texts or floats; reasoning that is left out of the reply's tokens is in the
    total.
    """
    cases = [
        ({"prompt_tokens": "100", "completion_tokens": "20"}, (100, 20)),
        ({"prompt_tokens": 100.0, "completion_tokens": 19.5}, (100, 20)),
        ({"input_tokens": 100, "output_tokens": 20}, (100, 20)),
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 3_120}, (100, 3_020)),
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}, (100, 20)),
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 0}, (100, 20)),
        ({"prompt_tokens": 100, "total_tokens": "120"}, (100, 20)),
        ({"completion_tokens": 20, "total_tokens": 120}, (100, 20)),
        ({"total_tokens": 120}, (None, None)),
    ]
    for usage, tokens in cases:
        reply = parse_completion({"choices": [{"message": {"content": "ok"}}], "usage": usage})
        assert (reply.prompt_tokens, reply.completion_tokens) == tokens


def test_a_reply_that_reports_an_error_is_no_verdict(judge_server):
    """A 200 with an error object, or a choice that ended in an error, is a transient failure, with
    any text.
    """
    cases = [
        {"error": {"message": "upstream failed", "code": 502}},
        {
            "choices": [
                {
                    "message": {"content": "ok"},
                    "finish_reason": "error",
                }
            ]
        },
        {
            "choices": [
                {
                    "message": {"content": "ok"},
                    "error": {"message": "upstream failed"},
                }
            ]
        },
    ]
    for extra in cases:
        body = {
            "choices": [
                {
                    "message": {"content": "ok"},
                    "finish_reason": "stop",
                }
            ],
            **extra,
        }
        judge_server.behave(fault={"body": orjson.dumps(body).decode()})
        error = failed_call(client_of(judge_server))
        assert error.failure.kind == FailureKind.HTTP
        assert error.may_pass is True
        assert "the server reports an error" in error.failure.detail


def test_an_error_in_a_200_counts_as_the_status_that_it_names(judge_server):
    """A gateway's 200 shows its own words, with those of the provider behind it."""
    said = {
        "message": "Provider returned error",
        "code": 429,
        "metadata": {"raw": "model is at capacity"},
    }
    cases = [
        (said, FailureKind.RATE_LIMITED, "Provider returned error: model is at capacity"),
        ({"message": "no credit", "code": "402"}, FailureKind.SPENT, "no credit"),
        ({"message": "upstream failed", "code": 17}, FailureKind.HTTP, "upstream failed"),
        ("upstream failed", FailureKind.HTTP, "upstream failed"),
    ]
    for error, kind, words in cases:
        judge_server.behave(fault={"body": orjson.dumps({"error": error}).decode()})
        failure = failed_call(client_of(judge_server)).failure
        assert failure.kind == kind
        assert failure.detail == f"HTTP 200, and the server reports an error: {words}"


def test_a_spent_budget_is_told_from_other_refusals(judge_server):
    """Budgets and quotas are the account's state; a rate limit, a limit of the request and a text
    that is quoted are not.
    """
    litellm = {"message": "Budget has been exceeded! Max budget: 1.0", "type": "budget_exceeded"}
    openai = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    google = {"message": "You exceeded your current quota: 10 per minute", "code": 429}
    quoted = {"message": "invalid message content: " + "word " * 30 + "insufficient credits"}
    cases = [
        (402, {"message": "Payment required"}, FailureKind.SPENT),
        (400, litellm, FailureKind.SPENT),
        (429, openai, FailureKind.SPENT),
        (403, {"message": "Key limit exceeded (total limit)"}, FailureKind.SPENT),
        (400, {"message": "Your credit balance is too low"}, FailureKind.SPENT),
        (429, google, FailureKind.RATE_LIMITED),
        (400, {"message": "token budget of the reply is too small"}, FailureKind.REFUSED),
        (400, quoted, FailureKind.REFUSED),
        (422, {"message": "insufficient credits"}, FailureKind.REFUSED),
    ]
    for status, error, kind in cases:
        judge_server.behave(
            fault={"status": status, "body": orjson.dumps({"error": error}).decode()}
        )
        found = failed_call(client_of(judge_server))
        assert found.failure.kind == kind
        assert found.may_pass is (kind != FailureKind.REFUSED)


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
    thinking = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Hm."}],
    }
    content = [
        thinking,
        {"type": "text", "text": "o"},
        {"type": "image_url"},
        7,
        {"type": "text", "text": "k"},
    ]
    assert parse_completion({"choices": [{"message": {"content": content}}]}).text == "ok"


def test_the_context_of_a_model_is_read_as_servers_tell_it():
    """An adapter has that of its base model; a number that is no count of tokens is not told."""
    cards = [
        {"id": "vllm", "max_model_len": 32768},
        {
            "id": "lora",
            "parent": "vllm",
            "max_model_len": None,
        },
        {"id": "openrouter", "context_length": 131072},
        {"id": "groq", "context_window": 8192},
        {"id": "openai"},
        {"id": "odd", "max_model_len": "many"},
        {"id": "orphan", "parent": "gone"},
    ]
    told = {
        "vllm": 32768,
        "lora": 32768,
        "openrouter": 131072,
        "groq": 8192,
    }
    assert (
        parse_models({"data": cards})
        == {
            "openai": None,
            "odd": None,
            "orphan": None,
        }
        | told
    )
