"""What the local judge of the tests says, and how it misbehaves when told to. No I/O here."""

import hashlib
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import cast

import orjson

Json = dict[str, object]
Texts = tuple[str, str]

LABEL = re.compile(r'"([A-Z]{2}\d)": <1 to 10>')
PLAIN_EMPTY = "[=== THIS RESPONSE IS EMPTY ===]"
CHARS_PER_TOKEN = 4
USUAL_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class Unset(Enum):
    """Tell "the reply is as usual" from a content that is null."""

    UNSET = "unset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to answer badly; fields combine (a gzip body can be huge and trickle)."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    content_type: str = "application/json"
    reset: str | None = None  # "before" the reply, or "mid_body": a TCP reset, not a clean close
    hang: bool = False  # the reply never comes; the connection stays open
    trickle_s: float = 0.0  # seconds between two bytes of the reply
    content: str | Unset | None = Unset.UNSET
    finish_reason: str = "stop"
    reasoning: str | None = None
    gzip: bool = False
    chunked: bool = False  # no Content-Length
    huge_bytes: int = 0  # at least this long before compression, and still a valid completion
    echo_authorization: bool = False
    latency_s: float | None = None


NO_FAULT = Fault()


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the judge acts until told otherwise."""

    latency_s: float = 0.0
    latency_lognormal: Mapping[str, float] | None = (
        None  # mean_s, sigma; drawn in the order of asking
    )
    seed: int = 0
    verdict: str | Mapping[str, float] = "by_length"
    script: Sequence[Fault] = ()  # one step a request, then the rest of this behaviour
    fault: Sequence[Fault] = ()  # one, or several
    fault_share: float = (
        1.0  # the share of messages (by content, whoever asks and when) that get each fault
    )
    fault_times: int | None = (
        None  # the same body gets the fault at most this often, then a good answer
    )
    reject_above_in_flight: int | None = None
    slots: int | None = (
        None  # at most this many are worked on; others wait silently, as in a full vLLM
    )
    unknown_roles: str = "accept"
    is_reasoning_model: bool = False  # refuses what OpenAI's refuse, and roles as OpenAI does
    refuses: str | None = None  # a text that no prompt may contain
    require_key: str | None = None
    models: Sequence[str] | None = None  # None: any model is served
    max_model_len: int | None = None  # tokens of prompt and reply; told for each model
    hides_context: bool = False  # does not tell it, as gateways and older versions of llama.cpp
    is_llamacpp: bool = False  # lists, refuses and replies as llama.cpp's server
    loading: int = 0  # of the first requests, answered with 503, as by llama.cpp
    takes: Sequence[str] = ()  # fields of requests that only this server knows
    usage: Json | None = None  # members of a reply that tell its tokens, if not the usual ones
    chat: Sequence[
        str
    ] = ()  # what it says where nothing is judged: one line, chosen by all messages
    analysis_chars: int = 80
    quotes: str | None = None  # where it repeats the responses: in thoughts, or around its verdict


def parse_behaviour(text: bytes) -> Behaviour:
    """Read a behaviour from JSON.

    Raises:
        ValueError: it is not a JSON object.
        TypeError: it has a field that does not exist; a silent typo would make a test prove
            nothing.
    """
    raw = orjson.loads(text)
    if not isinstance(raw, dict):
        raise ValueError("a behaviour is a JSON object")
    if "script" in raw:
        raw["script"] = tuple(Fault(**step) for step in raw["script"])
    if raw.get("fault") is not None:
        faults = raw["fault"] if isinstance(raw["fault"], list) else [raw["fault"]]
        raw["fault"] = tuple(Fault(**fault) for fault in faults)
    return Behaviour(**raw)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a server says before it works on a request."""

    status: int
    kind: str
    message: str
    param: str | None = None
    code: str | None = None
    more: Json = field(default_factory=dict)  # further members of the error


def _bad_request(said: str, param: str | None = None) -> Refusal:
    return Refusal(400, "BadRequestError", said, param)


def read_request(
    rules: Behaviour, authorization: bytes | None, body: bytes, in_flight: int
) -> Json | Refusal:
    """Return the parsed request, or the refusal, worded as vLLM words it."""
    if rules.require_key is not None and authorization != f"Bearer {rules.require_key}".encode():
        return Refusal(401, "AuthenticationError", "Unauthorized")
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _bad_request(f"Invalid JSON: {error}")
    if not isinstance(request, dict) or not isinstance(request.get("model"), str):
        return _bad_request("Field required", "model")
    messages = request.get("messages")
    if rules.refuses is not None and rules.refuses.encode() in body:
        return _bad_request(f"The prompt contains {rules.refuses}", "messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(m, dict) for m in messages)
    ):
        return _bad_request("Field required: a list with a message", "messages")
    if not rules.is_llamacpp and request["model"] not in (rules.models or [request["model"]]):
        return Refusal(
            404, "NotFoundError", f"The model `{request['model']}` does not exist.", "model"
        )
    if rules.is_reasoning_model and (refusal := _refused_by_openai(request, messages)) is not None:
        return refusal
    if (refusal := _refused_by_vllm(request, messages, rules)) is not None:
        return refusal
    unknown = [
        message.get("role") for message in messages if message.get("role") not in USUAL_ROLES
    ]
    if unknown and rules.unknown_roles == "reject":
        known = ", ".join(sorted(USUAL_ROLES))
        return _bad_request(f"role {unknown[0]!r} is not one of {known}", "messages")
    if rules.reject_above_in_flight is not None and in_flight >= rules.reject_above_in_flight:
        return Refusal(429, "RateLimitError", "Too many requests in flight")
    return request


def _is_number(least: float, most: float) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
    )


def _is_count(least: int, most: float = math.inf) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_a(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


# What each field of a request may be, null aside; see vLLM's `ChatCompletionRequest`.
_FIELDS: Mapping[str, Callable[[object], bool]] = {
    "model": _is_a(str),
    "messages": _is_a(list),
    "temperature": _is_number(0, math.inf),
    "top_p": _is_number(1e-9, 1),
    "top_k": _is_count(-1),
    "min_p": _is_number(0, 1),
    "max_tokens": _is_count(1),
    "max_completion_tokens": _is_count(1),
    "seed": _is_count(-(2**63), 2**63 - 1),
    "logprobs": _is_a(bool),
    "top_logprobs": _is_count(0, 20),
    "stop": _is_a(str, list),
    "reasoning_effort": lambda value: value in ("low", "medium", "high"),
    "response_format": lambda value: (
        isinstance(value, dict) and value.get("type") in ("text", "json_object", "json_schema")
    ),
    "chat_template_kwargs": _is_a(dict),
}
_MESSAGE_FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}


def _refused_by_vllm(request: Json, messages: Sequence[Json], rules: Behaviour) -> Refusal | None:
    """Return what is wrong with the fields, the messages or the length of a request.

    vLLM ignores fields that it does not know: here they are an error, since a test would not see
    that one does nothing."""
    for name, value in request.items():
        if name in rules.takes:
            continue
        if name not in _FIELDS:
            return _bad_request(f"Extra inputs are not permitted: {name}", name)
        if value is not None and not _FIELDS[name](value):
            said = f"Input should be valid: {name}={orjson.dumps(value).decode()[:100]}"
            return _bad_request(said, name)
    if request.get("top_logprobs") and not request.get("logprobs"):
        said = "when using `top_logprobs`, `logprobs` must be set to true."
        return _bad_request(said, "top_logprobs")
    wrong = [message for message in messages if not _is_message(message)]
    if wrong:
        said = f"Input should be a valid message: {orjson.dumps(wrong[0]).decode()[:100]}"
        return _bad_request(said, "messages")
    if rules.max_model_len is None:
        return None
    prompt = count_tokens(kept_messages(messages, rules.unknown_roles))
    return _refused_for_length(request, prompt, rules)


def _refused_for_length(request: Json, prompt: int, rules: Behaviour) -> Refusal | None:
    """Return the refusal of a prompt of so many tokens, if it leaves too little of the context."""
    limit = cast(int, rules.max_model_len)
    if rules.is_llamacpp:  # which writes until the context ends
        if prompt < limit:
            return None
        said = (
            f"request ({prompt} tokens) exceeds the available context size ({limit} tokens), try "
            "increasing it"
        )
        more: Json = {"n_prompt_tokens": prompt, "n_ctx": limit}
        return Refusal(400, "exceed_context_size_error", said, more=more)
    reply = reply_limit(request) or 1
    if prompt + reply <= limit:
        return None
    said = (
        f"This model's maximum context length is {limit} tokens. However, you "
        f"requested {prompt + reply} tokens ({prompt} in the messages, {reply} in the completion). "
        "Please reduce the length of the messages or completion."
    )
    return _bad_request(said, "messages")


def reply_limit(request: Json) -> int | None:
    """Return the most tokens that a request lets its reply have."""
    return cast(int | None, request.get("max_completion_tokens") or request.get("max_tokens"))


def count_tokens(messages: Sequence[Json]) -> int:
    """Return the tokens of a prompt: four characters are one."""
    return sum(len(message_text(message)) for message in messages) // CHARS_PER_TOKEN


def _is_message(message: Json) -> bool:
    """Return whether a message has a role, a content for it, and nothing else than it may have."""
    content = message.get("content")
    role = message.get("role")
    has_content = isinstance(content, str) or (content is None and role == "assistant")
    if isinstance(content, list):
        has_content = bool(content) and all(
            isinstance(part, dict) and isinstance(part.get(part.get("type", "")), str | dict)
            for part in content
        )
    return (
        isinstance(role, str) and bool(role) and has_content and message.keys() <= _MESSAGE_FIELDS
    )


def _refused_by_openai(request: Json, messages: Sequence[Json]) -> Refusal | None:
    """Return what OpenAI's API answers for o-series and GPT-5, field by field; see its reference
    and guide.
    """
    for name, value in request.items():
        if name == "max_tokens":
            said = (
                f"'{name}' is not supported with this model. Use 'max_completion_tokens' instead."
            )
            return _unsupported("parameter", name, said)
        if name == "temperature" and value != 1:
            said = (
                f"'{name}' does not support {value} with this model. Only the default (1) "
                "value is supported."
            )
            return _unsupported("value", name, said)
        if name in (
            "top_p",
            "presence_penalty",
            "frequency_penalty",
            "logprobs",
            "top_logprobs",
            "logit_bias",
        ):
            return _unsupported("parameter", name, f"'{name}' is not supported with this model.")
        if name == "reasoning_effort" and value not in ("low", "high"):
            said = (
                f"'{name}' does not support '{value}' with this model. Supported values are: "
                "'low', 'medium', 'high'."
            )
            return _unsupported("value", name, said)
        if name not in _OPENAI_FIELDS:
            return Refusal(
                400, _INVALID, f"Unknown parameter: '{name}'.", name, "unknown_parameter"
            )
    for place, message in enumerate(messages):
        if (role := message.get("role")) not in USUAL_ROLES:
            said = (
                f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', "
                "'user', 'tool'."
            )
            return Refusal(400, _INVALID, said, f"messages[{place}].role", "invalid_value")
    return None


def _unsupported(what: str, name: str, said: str) -> Refusal:
    return Refusal(400, _INVALID, f"Unsupported {what}: {said}", name, f"unsupported_{what}")


_INVALID = "invalid_request_error"
_OPENAI_FIELDS = {
    "model",
    "messages",
    "temperature",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "seed",
}


def iter_lognormal_s(mean_s: float, sigma: float, seed: int) -> Iterator[float]:
    """Draw latencies whose arithmetic mean is `mean_s`; the n-th request gets the n-th draw."""
    rng = random.Random(seed)
    mu = math.log(mean_s) - sigma * sigma / 2
    while True:
        yield rng.lognormvariate(mu, sigma)


def message_text(message: Mapping[str, object]) -> str:
    """Return a message's text, its parts joined when the content is a list."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def kept_messages(messages: Sequence[Json], unknown_roles: str) -> Sequence[Json]:
    """Drop what a chat template that does not know the custom roles would drop."""
    if unknown_roles != "ignore":
        return messages
    return [message for message in messages if message.get("role") in USUAL_ROLES]


def content_share(messages: Sequence[Json], seed: int) -> float:
    """Map messages to a number in [0, 1) that only their content and the seed decide."""
    digest = hashlib.sha256(orjson.dumps([seed, messages], option=orjson.OPT_SORT_KEYS)).digest()
    return int.from_bytes(digest[:7]) / 2**56


def find_responses(messages: Sequence[Mapping[str, object]]) -> Texts | None:
    """Find the two responses to compare; None when the messages do not ask for a comparison."""
    by_role = {message.get("role"): message for message in messages}
    if "response_1" in by_role or "response_2" in by_role:
        return message_text(by_role.get("response_1", {})), message_text(
            by_role.get("response_2", {})
        )
    prompt = message_text(messages[-1])
    for names in ("12", "AB"):
        first, second = (_response_named(prompt, name) for name in names)
        if first is not None and second is not None:
            return first, second
    return None


def find_lineup(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """Find the responses to grade: that of the assistant before a principle, or all that are shown;
    else none.
    """
    if messages[-1].get("role") == "principle" and messages[-2].get("role") == "assistant":
        return [message_text(messages[-2])]
    prompt = message_text(messages[-1])
    if labels := labels_in(prompt):
        return [_response_named(prompt, label) or "" for label in labels]
    return _numbered(prompt, lambda number: f"model-{number + 1}") or _numbered(prompt, str)


def labels_in(prompt: str) -> list[str]:
    """Return the labels of a list of responses, as its requested form names them."""
    form = prompt.rpartition("===]")[2]
    return LABEL.findall(form) if '"best_to_worst"' in form else []


def _numbered(prompt: str, name_of: Callable[[int], str]) -> list[str]:
    found = (_response_named(prompt, name_of(number)) for number in itertools.count())
    return list(itertools.takewhile(lambda text: text is not None, found))


def render_grades(prompt: str, texts: Sequence[str]) -> tuple[str, Json | None]:
    """Return what a judge of lineups writes, and the log probabilities that its server sends:
    longer is better.
    """
    closing = prompt.rpartition("===]")[2]
    rubrics = [part.partition('"')[0] for part in closing.split('  "')[1:]]  # as they are asked for
    items = range(int(closing.partition("For each of the ")[2].partition(" ")[0] or 0))
    order = sorted(range(len(texts)), key=lambda place: (-len(texts[place]), place))
    is_long = len(texts[0]) > 200
    said: Json
    if '"criteria"' in closing:  # a long one meets all criteria but the last, a short one only that
        met = [is_long == (index < len(items) - 1) for index in items]
        said = {"criteria": [{"index": i, "evidence": "", "met": met[i]} for i in items]}
    elif '"constraints"' in closing:  # a long response breaks the first one
        verdicts = [{"index": index, "evidence": "", "verdict": "not touched"} for index in items]
        spoken = texts[0].rpartition("---]\n")[2]
        if len(spoken) > 200:
            verdicts[0] |= {"evidence": spoken[:20], "verdict": "broken"}
        said = {"constraints": verdicts}
    elif '"tiers"' in closing:
        said = {"reasoning": "By length.", "tiers": [[place] for place in order]}
    elif '"assignments"' in closing:
        kinds = [len(text) // 200 for text in texts]
        said = {
            "assignments": [
                {"index": place, "cluster_id": kind, "label": "x"}
                for place, kind in enumerate(kinds)
            ]
        }
    elif rubrics:
        score = 5 if is_long else 2
        entry = {"evidence": texts[0][:20], "reasoning": "By length.", "score": score}
        said = {"scores": dict.fromkeys(rubrics, entry)}
    elif labels := labels_in(prompt):
        scores = {
            label: min(10, 1 + len(text) // 20) for label, text in zip(labels, texts, strict=True)
        }
        said = {"scores": scores, "best_to_worst": [labels[place] for place in order]}
    elif '"best-to-worst"' in closing:
        names = [f"model-{place + 1}" for place in range(len(texts))]
        scores = {
            name: min(5.0, 1 + len(text) / 50) for name, text in zip(names, texts, strict=True)
        }
        said = {"scores": scores, "best-to-worst": [names[place] for place in order]}
    else:
        return _render_judgement_of_one(texts[0])
    return orjson.dumps(said).decode(), None


def _render_judgement_of_one(text: str) -> tuple[str, Json]:
    margin = min(len(text), 200) / 20 - 4
    word, other = ("Yes", "No") if margin > 0 else ("No", "Yes")
    likely = [
        {"token": f" {word}", "logprob": -0.01},
        {"token": f" {other}", "logprob": -0.01 - abs(margin)},
    ]
    tokens = [
        {
            "token": "Final Judgement:",
            "logprob": 0.0,
            "top_logprobs": [],
        },
        likely[0] | {"top_logprobs": likely},
    ]
    return f"Final Judgement: {word}", {"content": tokens}


def _response_named(prompt: str, name: str) -> str | None:
    """Return the response that stands between the markers of profiles that ask in one message."""
    begun = prompt.partition(f"[=== BEGIN RESPONSE {name} ===]\n")[2]
    text, end, _ = begun.partition(f"\n[=== END RESPONSE {name} ===]")
    if not end:
        return None
    return "" if text == PLAIN_EMPTY else text


def choose_verdict(
    rule: str | Mapping[str, float], messages: Sequence[Json], texts: Texts
) -> tuple[float, ...]:
    """Return score_1, score_2 and ranking under a rule; the same question always gets the same
    answer.
    """
    if not isinstance(rule, str):
        return rule["score_1"], rule["score_2"], rule["ranking"]
    if rule == "by_length":
        return _verdict_by_length(*texts)
    digest = hashlib.sha256(orjson.dumps(messages, option=orjson.OPT_SORT_KEYS)).digest()
    if rule.startswith("noisy:"):
        return _noisy_verdict(float(rule.removeprefix("noisy:")), digest, texts)
    return 1 + digest[0] % 5, 1 + digest[1] % 5, 1 + digest[2] % 6


def _noisy_verdict(noise: float, digest: bytes, texts: Texts) -> tuple[float, ...]:
    """Compare the qualities of two texts, the logarithms of their lengths, with normal noise."""
    lead = math.log((1 + len(texts[0])) / (1 + len(texts[1])))
    lead += noise * random.Random(digest).gauss(0, 1)
    scores = (3 + 0.8 * lead, 3 - 0.8 * lead, 3.5 - lead)
    high = (5, 5, 6)
    return tuple(min(most, max(1, round(each))) for each, most in zip(scores, high, strict=True))


def _verdict_by_length(first: str, second: str) -> tuple[float, ...]:
    """Prefer the longer text; swapping the two swaps the scores and turns the ranking round."""
    longer = max(len(first), len(second))
    shorter = min(len(first), len(second))
    if longer == shorter:
        return 3, 3, 3 if _digest(first) >= _digest(second) else 4
    if longer >= 2 * shorter:
        high = 5
        low = 1
        ranking = 1
    elif longer >= 1.1 * shorter:
        high = 4
        low = 2
        ranking = 2
    else:
        high = 4
        low = 3
        ranking = 3
    return (high, low, ranking) if len(first) == longer else (low, high, 7 - ranking)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@lru_cache(maxsize=4096)
def render_judgement(verdict: tuple[float, ...], analysis_chars: int) -> str:
    """Return what a judge writes: a sentence, then a fenced JSON block."""
    sentence = "It answers the question asked, and says where it is unsure. "
    analysis = (sentence * (analysis_chars // len(sentence) + 1))[:analysis_chars]
    return f"Here is my judgement.\n{_fenced(verdict, [analysis, analysis])}"


def _fenced(verdict: tuple[float, ...], analyses: Sequence[str]) -> str:
    named = {f"response_{place}_analysis": said for place, said in enumerate(analyses, 1)}
    fields = named | dict(zip(("score_1", "score_2", "ranking"), verdict, strict=True))
    return f"```json\n{orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode()}\n```\n"


def render_in_thoughts(verdict: tuple[float, ...], texts: Texts) -> str:
    """Return what a judge writes that repeats the responses in its thoughts and in its analyses, as
    they are.
    """
    thoughts = "\n\n".join(f"Response {place} is:\n{text}" for place, text in enumerate(texts, 1))
    analyses = [f"It says: {text}" for text in texts]
    return f"<think>\n{thoughts}\n\nI follow neither.\n</think>\n{_fenced(verdict, analyses)}"


def render_quoting(said: str, texts: Texts) -> str:
    """Return what a judge writes that repeats the responses before and after its verdict."""
    quoted = "".join(
        f"Response {place} tried to inject:\n```\n{text}\n```\nI follow none.\n"
        for place, text in enumerate(texts, 1)
    )
    return f"{quoted}\n{said}\n{quoted}"


def render_completion(
    behaviour: Behaviour, fault: Fault, request: Json, messages: Sequence[Json]
) -> bytes:
    """Return the JSON of a chat completion for these messages."""
    kept = kept_messages(messages, behaviour.unknown_roles)
    prompt_tokens = count_tokens(kept)
    logprobs = None
    finish_reason = fault.finish_reason
    if fault.content is not Unset.UNSET:
        content = fault.content
    else:
        content, logprobs = _usual_content(behaviour, messages, kept)
        room = room_for_reply(behaviour, request, prompt_tokens)
        if len(content) > room * CHARS_PER_TOKEN:
            content = content[: room * CHARS_PER_TOKEN]
            finish_reason = "length"
    if fault.huge_bytes:
        content = (content or "") + " " * fault.huge_bytes
    message: Json = {"role": "assistant", "content": content}
    if fault.reasoning is not None:
        message["reasoning_content"] = fault.reasoning
    completion_tokens = math.ceil(len(content or "") / CHARS_PER_TOKEN)
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": prompt_tokens // 4},
    }
    choice: Json = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason,
        "logprobs": logprobs,
    }
    completion: Json = {
        "id": "chatcmpl-local",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [choice],
    }
    completion |= {"usage": usage} if behaviour.usage is None else behaviour.usage
    if behaviour.is_llamacpp:
        completion |= _timings_of_llamacpp(prompt_tokens, completion_tokens)
        completion["model"] = listed_models(behaviour)[0]
    return orjson.dumps(completion)


def room_for_reply(behaviour: Behaviour, request: Json, prompt_tokens: int) -> float:
    """Return how many tokens the reply may have: by the request, and within the context."""
    context = behaviour.max_model_len or math.inf
    return min(reply_limit(request) or math.inf, context - prompt_tokens)


def listed_models(behaviour: Behaviour) -> Sequence[str]:
    """Return the names of the models that it serves."""
    return ["local-judge"] if behaviour.models is None else behaviour.models


def render_models(behaviour: Behaviour) -> bytes:
    """Return the list of models, each with its context, as vLLM or as llama.cpp tells it."""
    told: Json = {"object": "model", "max_model_len": behaviour.max_model_len}
    if behaviour.hides_context:
        del told["max_model_len"]
    if behaviour.is_llamacpp:
        # Its own context, then the one of the model's training, which may be larger.
        meta = {"n_ctx": told.pop("max_model_len", None), "n_ctx_train": 131_072}
        told |= {"aliases": [], "owned_by": "llamacpp", "meta": meta}
    cards = [{"id": name} | told for name in listed_models(behaviour)]
    listing: Json = {"object": "list", "data": cards}
    if behaviour.is_llamacpp:
        listing["models"] = [{"name": name, "model": name} for name in listed_models(behaviour)]
    return orjson.dumps(listing)


def _timings_of_llamacpp(prompt_tokens: int, completion_tokens: int) -> Json:
    """Return what only llama.cpp adds to a completion."""
    timings: Json = {
        "cache_n": 0,
        "prompt_n": prompt_tokens,
        "prompt_ms": 328.522,
        "predicted_n": completion_tokens,
        "predicted_ms": 52.014,
    }
    return {"timings": timings, "id_slot": 0, "system_fingerprint": "b0-unknown"}


def _usual_content(
    behaviour: Behaviour, messages: Sequence[Json], kept: Sequence[Json]
) -> tuple[str, Json | None]:
    """Judge if there is something to judge, else say ok.

    A template that dropped the responses leaves a judge that still gives a verdict, on nothing: the
    same whichever response came first. That is the danger a probe must find, so it is what happens
    here."""
    if lineup := find_lineup(messages):
        return render_grades(message_text(messages[-1]), lineup)
    roles = [message.get("role") for message in messages]
    second_turn = roles == [
        "user",
        "assistant",
        "user",
    ] and "[The Begin of Ranking Score]" in message_text(messages[2])
    texts = find_responses(messages[:1] if second_turn else messages)
    if texts is None:
        return _chatted(behaviour, messages), None
    if len(kept) != len(messages):
        verdict = choose_verdict("hash", kept, ("", ""))
    else:
        verdict = choose_verdict(behaviour.verdict, messages, texts)
    if second_turn:
        winner = 1 if verdict[0] > verdict[1] else 2
        return (
            f"[The Begin of Ranking Score]\n\\boxed{{{winner}}}\n[The End of Ranking Score]",
            None,
        )
    if behaviour.quotes == "in thoughts":
        return render_in_thoughts(verdict, texts), None
    said = render_judgement(verdict, behaviour.analysis_chars)
    return render_quoting(said, texts) if behaviour.quotes else said, None


def _chatted(behaviour: Behaviour, messages: Sequence[Json]) -> str:
    """Say a line as policy or client, or labels where a counsellor's turn is to be labelled."""
    if not behaviour.chat:
        return "ok"
    if message_text(messages[0]).startswith("You label one turn"):
        return '{"validates": true, "asks_openly": true}'
    return behaviour.chat[int(content_share(messages, behaviour.seed) * len(behaviour.chat))]
