"""Fields of a request to a judge, as in `[request]` of a profile and the setting `request_field`."""

import json
import re
from collections.abc import Mapping

from genrm_cli.settings.kinds import Kind, did_you_mean

_NUMBERS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repetition_penalty": (0, 10),
}
_INTEGERS: Mapping[str, int] = {
    "max_tokens": 1,
    "max_completion_tokens": 1,
    "min_tokens": 0,
    "top_logprobs": 0,
    "top_k": -1,
    "seed": -(2**63),
}
# OpenAI's, vLLM's, SGLang's and OpenRouter's: a name that resembles one of them is a typo. Servers have others.
_OTHERS = """
bad_words chat_template chat_template_kwargs ebnf enable_thinking extra_body guided_choice guided_decoding_backend
guided_grammar guided_json guided_regex ignore_eos include_reasoning include_stop_str_in_output length_penalty
logit_bias logprobs metadata parallel_tool_calls priority prompt_cache_key provider reasoning reasoning_effort regex
response_format safety_identifier separate_reasoning service_tier skip_special_tokens stop stop_token_ids store
structured_outputs thinking thinking_token_budget tool_choice tools top_a truncate_prompt_tokens user verbosity
"""
_KNOWN = (*_NUMBERS, *_INTEGERS, *re.findall(r"\w+", _OTHERS))
_OURS = ("model", "messages", "stream", "n")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LEAST_LIKE = 0.8


def check_request_field(name: str, value: object) -> None:
    """Check a field of a request and its value; None leaves the field out.

    Raises:
        ValueError: genrm sets it, its name resembles a known one, or its value is out of bounds. The message says so.
    """
    if name in _OURS:
        raise ValueError(f"{name} is set by genrm; a request field is one such as temperature.")
    if name not in _KNOWN and (hint := did_you_mean(name, _KNOWN, _LEAST_LIKE)):
        raise ValueError(f"unknown request field {name!r}.{hint}")
    if value is None:
        return
    low, high = _NUMBERS.get(name, (None, None))
    if low is not None and not (type(value) in (int, float) and low <= value <= high):  # type: ignore[operator]
        raise ValueError(f"{name} is {value!r}; expected a number between {low:g} and {high:g}.")
    least = _INTEGERS.get(name)
    if least is not None and not (type(value) is int and value >= least):
        bound = f" of at least {least}" if least > -2 else ""
        raise ValueError(f"{name} is {value!r}; expected an integer{bound}.")


def parse_request_field(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; the value is JSON or, if it is not, text. No value, or null, is None: leave the field out.

    Raises:
        ValueError: the name is not one; also as `check_request_field`.
    """
    name, equals, given = (part.strip() for part in text.partition("="))
    if not equals or not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not NAME=VALUE, as in reasoning_effort=low.")
    try:
        value = json.loads(given or "null", parse_constant=int)  # NaN stays text
    except ValueError:
        value = given
    check_request_field(name, value)
    return name, value


def _parse(raw: object) -> str:
    text = str(raw)
    parse_request_field(text)
    return text


REQUEST_FIELD = Kind(_parse, "NAME=VALUE", "NAME=VALUE")
