"""The client of judges: one request to an OpenAI-compatible judge gives one reply or one reason.

The folder `http` sends the requests, over pyreqwest or httpx."""

import contextlib
import json
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import quote, urlsplit

import orjson

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.json_types import whole_characters
from genrm_cli.judging.completion import ReportedError, parse_completion, parse_models
from genrm_cli.judging.context.too_long import parse_too_long
from genrm_cli.judging.http.choice import AUTO, open_http_client
from genrm_cli.judging.http.interface import (
    HttpError,
    HttpOptions,
    HttpReply,
    HttpRequest,
    Write,
    find_proxy,
)
from genrm_cli.judging.request_form import RefusedField
from genrm_cli.judging.requests import Reply
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import Failure, FailureKind

_MAX_DETAIL_CHARS = 300  # a line or two of a terminal, with the ends of a longer message
_MASK = "[key]"
# "x" and "EMPTY" are for servers that need no key, and may well be part of an answer.
_LEAST_SECRET_CHARS = 8
# A key has digits and eight characters or more, unlike the word after "Bearer authentication".
_CREDENTIALS = r"(?i:(?<=Bearer )|(?<=Basic ))(?=[\w.~+/=-]*[\dA-Z=])[\w.~+/=-]{8,}"
_CHAT_PATH = "/chat/completions"
_UNSUPPORTED_CODES = ("unsupported_parameter", "unsupported_value")
_PROXY = r"(?:[\w.]+: )*(?:\w+ - )?"
_UNSUPPORTED = late_pattern(_PROXY + r"Unsupported (?:parameter|value): '([^']+)'")
_UNKNOWN = late_pattern(
    _PROXY + r"(?:Unknown parameter: '|Unrecognized request arguments? supplied: )(\w+)"
)
_INSTEAD = late_pattern(r"Use '([a-z_]+)' instead")


class KeyMask:
    """Masks a key in texts of a server, as it is and URL-encoded."""

    def __init__(self, key: str | None) -> None:
        forms = [] if key is None else [re.escape(key), re.escape(quote(key, safe=""))]
        is_secret = key is not None and len(key) >= _LEAST_SECRET_CHARS
        self._anywhere = re.compile("|".join(forms)) if is_secret else None
        # Of a short key, only whole words: it may well be a part of others.
        words = [rf"(?<!\w)(?:{form})(?!\w)" for form in forms if len(key or "") > 1]
        self._in_errors = late_pattern("|".join([*(forms if is_secret else words), _CREDENTIALS]))

    def mask(self, text: str) -> str:
        """Return an answer without the key; missing and short keys are not masked."""
        return text if self._anywhere is None else self._anywhere.sub(_MASK, text)

    def mask_error(self, text: str) -> str:
        """Return the text of an error without the key, however short, and without the value of any
        `Authorization` header: that of a gateway is somebody's key, too.
        """
        return self._in_errors.sub(_MASK, text)


NO_KEY = KeyMask(None)


@dataclass(eq=False)
class CallError(Exception):
    """A call that got no reply.

    Attributes:
        failure: what happened, with the key masked.
        may_pass: whether the same call may work later (429, 5xx, auth, timeouts, connection
            faults).
        overloaded: whether the server reported overload (503).
        status: of the reply; None without one.
        refused: the field of the request that the server refuses, if it names one.
    """

    failure: Failure
    may_pass: bool = field(kw_only=True)
    retry_after_s: float | None = field(default=None, kw_only=True)
    overloaded: bool = field(default=False, kw_only=True)
    status: int | None = field(default=None, kw_only=True)
    refused: RefusedField | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        return self.failure.detail


class JudgeClient(AbstractAsyncContextManager["JudgeClient"]):
    """A shared client of one endpoint, with a connection pool as large as the concurrency.

    Redirects are not followed, so the key never travels to another host.

    Attributes:
        library: the library that sends the requests.
        sends_key: whether requests carry an API key.
        host: the host that is called.
        proxy: the proxy of the environment that the calls go through, without its user; None
            without one.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        connect_timeout_s: float,
        max_connections: int,
        http_client: str = AUTO,
    ) -> None:
        """Prepare the client; open no connection yet.

        Raises:
            UsageError: the URL is not http(s), or the certificates or the HTTP client cannot be
                used.
        """
        self._key = KeyMask(api_key)
        self._url = chat_url(base_url)
        self._base_url = self._url.removesuffix(_CHAT_PATH)
        self.host = urlsplit(self._url).hostname or ""
        proxy = find_proxy(self._url)
        self.proxy = None if proxy is None else _without_user(proxy)
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": "genrm",
        }
        self.sends_key = bool(api_key)
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        options = HttpOptions(self._base_url, headers, connect_timeout_s, max_connections)
        self._http = open_http_client(http_client, options)
        self.library = self._http.library

    async def __aexit__(self, *_: object) -> None:
        """Close the client. Cancelled calls may continue until the process ends."""
        await self._http.close()

    async def complete(self, body: bytes, timeout_s: float) -> Reply:
        """Send one chat completion request and return the reply.

        With pyreqwest, a cancelled call continues on the server: it ends only at its timeout.

        Raises:
            CallError: there was no reply, or it is not a chat completion.
        """
        content = await self._send(HttpRequest("POST", self._url, timeout_s, body))
        try:
            # Answers are stored. Mask them after parsing, as JSON has several ways to write the
            # characters of the key.
            return parse_completion(_parse_json(content)).masked(self._key.mask)
        except ReportedError as error:
            raise reported_error(error.status, error.said, self._key, error.introduced) from error
        except ValueError as error:
            raise self._body_error(f"not a chat completion ({error})", content) from error

    async def list_models(self, timeout_s: float) -> dict[str, int | None]:
        """Return the models that the server lists, sorted, each with its context length; None if it
        is not reported.

        Raises:
            CallError: there was no reply, or it is not a list of models.
        """
        content = await self._send(HttpRequest("GET", self._base_url + "/models", timeout_s))
        try:
            models = parse_models(orjson.loads(content))
            return {self._key.mask(name): length for name, length in models.items()}
        except ValueError as error:
            raise self._body_error("not a list of models", content) from error

    async def call(
        self,
        method: str,
        path: str,
        timeout_s: float,
        body: bytes = b"",
        *,
        upload: tuple[str, BinaryIO] | None = None,
        write: Write | None = None,
    ) -> bytes:
        """Make a request of the batch API; return the body of the reply.

        Args:
            path: path and query below the base URL.
            upload: name and content of a file to send in a form, for a batch.
            write: takes the body piece by piece, however long it is, instead of this method
                returning it.

        Raises:
            CallError: there was no reply with status 200.
        """
        url = self._base_url + path
        content = await self._send(HttpRequest(method, url, timeout_s, body, upload, write))
        return self._key.mask(content.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )

    async def _send(self, request: HttpRequest) -> bytes:
        """Return the body of a reply with status 200."""
        try:
            reply = await self._http.send(request)
        except HttpError as error:
            if error.timed_out:
                found = f"no reply within {request.timeout_s:.3g} s ({error})"
                raise self._error(FailureKind.TIMEOUT, found) from error
            raise self._error(FailureKind.CONNECTION, f"{error}{self._through()}") from error
        if reply.status != HTTPStatus.OK:
            raise self._status_error(reply)
        if reply.fault is not None:
            raise self._error(FailureKind.BAD_BODY, reply.fault)
        return reply.body

    def _through(self) -> str:
        return "" if self.proxy is None else f" (through the proxy {self.proxy} of the environment)"

    def _status_error(self, reply: HttpReply) -> CallError:
        said = None
        if self.proxy is not None and not _is_json_object(reply.body):
            # The judge's server would say it in JSON. A proxy's 403 is not about the key.
            page = _message_in(reply.body, self._key)
            said = f"HTTP {reply.status}: {page}{self._through()}"
            return self._error(FailureKind.CONNECTION, said)
        if 300 <= reply.status < 400:
            said = f"redirect to {reply.headers.get('location', 'nowhere')}, not followed"
        error = _error_of(reply.status, reply.body, self._key, said)
        error.retry_after_s = _retry_after_s(
            reply.headers.get("retry-after", ""), reply.headers.get("date", "")
        )
        return error

    def _body_error(self, found: str, content: bytes) -> CallError:
        start = self._key.mask_error(content.decode("utf-8", "replace"))[:80]
        # A proxy's HTML page with status 200 disappears once the server behind it is back.
        return self._error(FailureKind.BAD_BODY, f"{found}: {start!r}{self._through()}")

    def _error(self, kind: FailureKind, detail: str) -> CallError:
        return CallError(Failure(kind, _cut(self._key.mask_error(detail))), may_pass=True)


# Keys, routes (and redirects to a login) and models can be fixed while a run waits; a fault of one
# request cannot.
_PASSING_STATUSES = (401, 402, 403, 404, 408, 409, 425, 429)
# Statuses under which gateways report that a budget is used up, besides 402.
_SPENT_STATUSES = (400, 403, 429)
# In `code` or `type`: OpenAI and its followers, LiteLLM, Moonshot, one-api.
_SPENT_CODES = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "budget_exceeded",
    "exceeded_current_quota_error",
    "insufficient_user_quota",
    "insufficient_balance",
    "insufficient_credits",
)
# LiteLLM; DeepSeek and others; Anthropic; xAI; OpenRouter. Google says "exceeded your current
# quota" of a rate limit, too, so that these words alone mean nothing.
_SPENT_WORDS = late_pattern(
    r"budget (?:has been |was |is )?exceeded|exceeded ?budget|over budget"
    r"|insufficient (?:balance|credit|funds|quota)|credit balance is too low"
    r"|(?:out of|not enough|doesn't have any|no remaining|no more) credits?|credit limit exceeded"
    r"|key limit exceeded|spend(?:ing)? limit|余额不足",
    re.IGNORECASE,
)
_SPENT_CHARS = 150  # of a message, which may go on with a request that it quotes
_KIND_OF_STATUS = {
    400: FailureKind.REFUSED,
    401: FailureKind.AUTH,
    402: FailureKind.SPENT,
    403: FailureKind.AUTH,
    408: FailureKind.TIMEOUT,
    413: FailureKind.REFUSED,
    422: FailureKind.REFUSED,
    429: FailureKind.RATE_LIMITED,
}


def _parse_json(content: bytes) -> object:
    """Parse a reply. A model may write half a surrogate pair, which orjson refuses."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        try:
            return whole_characters(json.loads(content))
        except RecursionError:
            raise error from None


def chat_url(base_url: str) -> str:
    """Return the URL of chat completions below a base URL such as http://localhost:8000/v1.

    Raises:
        UsageError: it is not an http(s) URL.
    """
    expected = "expected something like http://localhost:8000/v1"
    try:
        parts = urlsplit(base_url)
        _ = parts.port
        host = (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise UsageError(
            SettingRef("base_url", base_url), f" is not a URL: {error}; {expected}."
        ) from error
    if not host or parts.scheme not in ("http", "https") or not base_url.isprintable():
        raise UsageError(SettingRef("base_url", base_url), f" is not an http(s) URL; {expected}.")
    return base_url.rstrip("/").removesuffix(_CHAT_PATH) + _CHAT_PATH


def _without_user(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _is_json_object(content: bytes) -> bool:
    try:
        return isinstance(orjson.loads(content), dict)
    except orjson.JSONDecodeError:
        return False


def _message_in(content: bytes, key: KeyMask) -> str:
    """Find the server's own words in an error body, in one line: OpenAI's, vLLM's or FastAPI's
    shape, with what OpenRouter was told by the provider, else the text.
    """
    # Mask it before it is cut: half a key would be harder to find.
    text = key.mask_error(content[:20_000].decode("utf-8", "replace"))[:2_000].strip()
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return " ".join(text.split())
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        metadata = error.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        error = error.get("message") or error.get("detail") or text
        if raw:
            error = f"{error}: {raw}"
    return key.mask_error(" ".join(str(error).split()))


def reported_error(
    status: int | None, error: object, key: KeyMask = NO_KEY, introduced: str | None = None
) -> CallError:
    """Return the error that a server reports in a reply with status 200, or of a request that it
    made for itself, as a call would report it.

    Args:
        status: HTTP status; None without a response.
        error: the body of the reply, or the error in it.
        key: masks the key in it.
        introduced: how its words are introduced, in place of the status.
    """
    content = orjson.dumps(
        error if isinstance(error, dict) and "error" in error else {"error": error}
    )
    return _error_of(status, content, key, introduced=introduced)


def _error_of(
    status: int | None,
    content: bytes,
    key: KeyMask,
    said: str | None = None,
    introduced: str | None = None,
) -> CallError:
    """Return the error that a status and the body of a reply report; `said` replaces the server's
    words, `introduced` the status before them.
    """
    kind = _KIND_OF_STATUS.get(status or 0, FailureKind.HTTP)
    detail = _message_in(content, key) if said is None else said
    too_long = None
    if status in _SPENT_STATUSES and _is_spent(content, detail):
        kind = FailureKind.SPENT
    elif (too_long := parse_too_long(status, _error_in(content), detail)) is not None:
        kind = FailureKind.REFUSED
    if introduced is None and status is not None:
        introduced = f"HTTP {status}"
    detail = detail if introduced is None else f"{introduced}: {detail}"
    return CallError(
        Failure(kind, _cut(key.mask_error(detail)), too_long=too_long),
        may_pass=kind is FailureKind.SPENT
        or (
            too_long is None
            and status is not None
            and (status in _PASSING_STATUSES or status >= 500 or 300 <= status < 400)
        ),
        overloaded=status == HTTPStatus.SERVICE_UNAVAILABLE,
        status=status,
        refused=_refused_field(content) if kind == FailureKind.REFUSED else None,
    )


def _is_spent(content: bytes, message: str) -> bool:
    """Whether an error says that the budget or quota of the account is used up."""
    error = _error_in(content)
    is_named = error.get("code") in _SPENT_CODES or error.get("type") in _SPENT_CODES
    return is_named or _SPENT_WORDS.search(message[:_SPENT_CHARS]) is not None


def _error_in(content: bytes) -> dict[str, object]:
    """Return the error object in a body, or the body itself; empty for anything else."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    error = body.get("error", body) if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _cut(text: str) -> str:
    """Cut the middle out of a long text: the error comes first or, after a trace, last."""
    kept_chars = (_MAX_DETAIL_CHARS - 3) // 2
    return text if len(text) <= _MAX_DETAIL_CHARS else f"{text[:kept_chars]}...{text[-kept_chars:]}"


def _refused_field(content: bytes) -> RefusedField | None:
    """Find the field that an error body of OpenAI's API, or of a proxy before it, names as `param`
    or in its message.

    Some name it in one of the two only, or send no code. The message is matched from its beginning,
    because it may quote the request."""
    try:
        error = orjson.loads(content)["error"]
        code = error.get("code")
        message = str(error.get("message"))
        named = _UNSUPPORTED.match(message) or _UNKNOWN.match(message)
        name = error.get("param") or (named and named[1])
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    is_unsupported = code in _UNSUPPORTED_CODES or _UNSUPPORTED.match(message) is not None
    instead = _INSTEAD.search(message)
    return (
        RefusedField(name, is_unsupported, instead and instead[1])
        if isinstance(name, str)
        else None
    )


def _retry_after_s(value: str, sent_at: str) -> float | None:
    """Read Retry-After, as seconds or as a date; None if it is missing or unreadable."""
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        # By the server's own clock, if it tells: this machine's may be wrong.
        now = datetime.now(UTC)
        with contextlib.suppress(ValueError):
            now = parsedate_to_datetime(sent_at)
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    return None
