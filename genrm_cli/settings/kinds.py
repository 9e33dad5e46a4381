"""Kinds of values: how text of a flag or a variable, or a value of a TOML file, becomes a value of
a setting.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from genrm_cli.catalog import REDACTIONS, listed
from genrm_cli.texts.late_pattern import late_pattern

Value = str | int | float | bool | tuple[str, ...] | None
Table = Mapping[str, object]
"""A table of a TOML file."""

# A call in flight holds a connection, and Linux has 28,232 local ports for one address.
MAX_CONCURRENCY = 16_384
# Seconds without a unit, as other programs take timeouts.
_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SECRET_PLACE = late_pattern(r"[?#]|//[^/]*@")
# What environment variables commonly hold.
_TRUTHS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}

# OpenAI's, vLLM's, SGLang's and OpenRouter's: a name that resembles one of them is a typo. Servers
# have others.
_REQUEST_FIELDS = re.findall(
    r"\w+",
    """
    bad_words chat_template chat_template_kwargs ebnf enable_thinking extra_body frequency_penalty
    guided_choice guided_decoding_backend guided_grammar guided_json guided_regex ignore_eos
    include_reasoning include_stop_str_in_output length_penalty logit_bias logprobs
    max_completion_tokens max_tokens metadata min_p min_tokens parallel_tool_calls presence_penalty
    priority prompt_cache_key provider reasoning reasoning_effort regex repetition_penalty
    response_format safety_identifier seed separate_reasoning service_tier skip_special_tokens stop
    stop_token_ids store structured_outputs temperature thinking thinking_token_budget tool_choice
    tools top_a top_k top_logprobs top_p truncate_prompt_tokens user verbosity
    """,
)
# `n` and `stream` would change the form of the reply.
_REQUEST_OURS = ("model", "messages", "stream", "n")
_REQUEST_NAME = late_pattern(r"[A-Za-z_]\w*")
# Of difflib's ratio, which is .95 for `temprature` and `temperature`. Servers have short fields of
# their own, which resemble ours by chance.
_LEAST_LIKE = 0.8


class Kind(Struct, frozen=True):
    """A kind of value: its parser, what messages say is expected, and its placeholder in the help,
    if it has one.

    `parse` returns None if the input is no such value, or raises a ValueError that says why, as a
    sentence."""

    parse: Callable[[object], str | int | float | bool | None]
    expected: str
    metavar: str | None = "TEXT"


# Names that other tools give to our settings.
_OF_OTHERS = {
    "similarity_threshold": "threshold, in [diversity]",
    "fallback_on_error": "fallback, in [diversity]",
    "api_key": "GENRM_API_KEY of the environment, or api_key_env",
    "num_rollouts_per_prompt": "cohort_size of genrm serve",
    "comparison_strategy": "strategy",
    "genrm_model_server": "base_url and model",
}


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a hint with our name for that of another tool, or with the most similar known word,
    after a space; empty if there is none.
    """
    if ours := _OF_OTHERS.get(word):
        return f" Here it is {ours}."
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]}?" if near else ""


def parse_duration_s(raw: object) -> float | None:
    """Parse a duration: seconds, or a number followed by s, m, h or d; None if it is neither."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smhd]?)\s*", str(raw))
    return None if match is None or isinstance(raw, bool) else float(match[1]) * _UNITS_S[match[2]]


def parse_texts(raw: object) -> tuple[str, ...] | None:
    """Parse a list of texts, or text with commas between them; None if it is neither."""
    # A comma within braces counts repeats in a regular expression.
    texts = re.split(r",(?![^{}]*\})", raw) if isinstance(raw, str) else raw
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    return tuple(text.strip() for text in texts if text.strip())


def parse_text_argument(value: object) -> str:
    """Return the text itself, or the content of the file for `@FILE`; a `ValueError` says why it
    cannot be read.
    """
    text = str(value)
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        raise ValueError(f"cannot read {text[1:]}: {error}.") from error


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression; `ValueError` if RE2 does not accept it."""
    # When it is needed: RE2 would delay `genrm --help`.
    from genrm_cli.texts.regex import compile_regex

    return compile_regex(text)


def _parse_text(raw: object) -> str | None:
    # A number in a file is text, too: `model = 3`.
    return str(raw) if isinstance(raw, (str, int, float)) and not isinstance(raw, bool) else None


def _parse_number(raw: object, *, whole: bool = False) -> int | float | None:
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        return None
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number) or (whole and not number.is_integer()):
        return None
    return int(number) if whole else number


def _parse_concurrency(raw: object) -> str | None:
    number = _parse_number(raw, whole=True)
    if number is None:
        return "auto" if raw == "auto" else None
    return str(number) if 1 <= number <= MAX_CONCURRENCY else None


def _parse_number_or(raw: object, *names: str) -> str | None:
    if raw in names:
        return str(raw)
    number = _parse_number(raw)
    # 2, 2.0 and 2e0 are one setting, so they make one text, and one digest.
    return None if number is None else repr(number).removesuffix(".0")


def _parse_requirement(raw: object) -> str | None:
    field_name, equals, _ = str(raw).partition("=")
    return str(raw) if equals and all(part.strip() for part in field_name.split(".")) else None


def _parse_url(raw: object) -> str | None:
    text = _parse_text(raw)
    if text is not None and (secret := _SECRET_PLACE.search(text)):
        found = "a query or fragment" if secret[0] in "?#" else "a user name or password"
        raise ValueError(
            f"the URL contains {found}, which logs and metrics would repeat; keys have own "
            "settings."
        )
    return text


def _parse_redaction(raw: object) -> str:
    text = str(raw)
    if text in REDACTIONS:
        return text
    if {part.strip() for part in text.split(",")} & set(REDACTIONS):
        raise ValueError(f"{text!r} joins several patterns; pass each separately.")
    hint = did_you_mean(text.lower(), REDACTIONS, cutoff=0.75)
    if hint and re.fullmatch(r"[A-Za-z_ -]+", text):
        # Taken as an expression, a misspelt name would let through the text that it should mask.
        raise ValueError(f"{text!r} is not one of {listed(REDACTIONS)}.{hint}")
    if compile_pattern(text).search("") is not None:
        raise ValueError(f"{text!r} matches the empty string, and so would mask everything.")
    return text


def check_request_field(name: str) -> None:
    """Check the name of a field of a request; a `ValueError` says what is wrong.

    Its value is not checked: the server's own message about it names the cause."""
    if name in _REQUEST_OURS:
        raise ValueError(f"{name} is set by genrm; a request field is one such as temperature.")
    if name not in _REQUEST_FIELDS and (hint := did_you_mean(name, _REQUEST_FIELDS, _LEAST_LIKE)):
        raise ValueError(f"unknown request field {name!r}.{hint}")


def parse_request_field(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; the value is JSON or, if it is not, text. No value, or null, is None: leave
    the field out.
    """
    name, equals, given = (part.strip() for part in text.partition("="))
    if not equals or not _REQUEST_NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not NAME=VALUE, as in reasoning_effort=low.")
    try:
        value = json.loads(given or "null", parse_constant=int)  # NaN stays text
    except ValueError:
        value = given
    check_request_field(name)
    return name, value


def _parse_request_field(raw: object) -> str:
    parse_request_field(str(raw))
    return str(raw)


TEXT = Kind(_parse_text, "text")
BOOLEAN = Kind(lambda raw: _TRUTHS.get(str(raw).lower()), "true or false", None)
INTEGER = Kind(partial(_parse_number, whole=True), "an integer", "N")
NUMBER = Kind(_parse_number, "a finite number", "NUMBER")
KIND_OF_TYPE = {str: TEXT, bool: BOOLEAN, int: INTEGER, float: NUMBER}

DURATION = Kind(parse_duration_s, "a duration, such as 90s, 15m or 2h", "DURATION")
TEXT_OR_FILE = Kind(parse_text_argument, "text")
CONCURRENCY = Kind(_parse_concurrency, f"auto or an integer from 1 to {MAX_CONCURRENCY}")
UNSCORED = Kind(
    lambda raw: _parse_number_or(raw, "null", "drop", "lowest"),
    "null, drop, lowest or a finite number",
)
ON_FAILURE = Kind(lambda raw: _parse_number_or(raw, "mean"), "mean or a finite number")
REQUIREMENT = Kind(_parse_requirement, "FIELD=VALUE, for example synthetic=true")
URL = Kind(_parse_url, "a URL", "URL")
REDACTION = Kind(_parse_redaction, "the name of a pattern or a regular expression")
REQUEST_FIELD = Kind(_parse_request_field, "NAME=VALUE", "NAME=VALUE")
# An empty list of patterns would mask nothing, and say so nowhere.
GUARDS = (REQUIREMENT, REDACTION)
"""Kinds that guard data, so that an empty value would guard nothing."""
