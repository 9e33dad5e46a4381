"""What a refusal says about the length of its request, in the words of the usual servers."""

import pytest

from genrm_cli.judging.context.too_long import parse_too_long
from genrm_cli.verdicts import TooLong

# The statuses and words of servers, each with the context that it names.
REFUSALS = [
    (
        400,
        "This model's maximum context length is 8,192 tokens. However, your messages resulted in "
        "10,000 tokens.",
        8_192,
    ),
    (
        400,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
        "(904 in the messages, 4096 in the completion).",
        4_096,
    ),
    (
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
        "length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
        4_096,
    ),
    (
        400,
        "You passed 5001 input tokens and requested 1024 output tokens. However, the model's "
        "context length is only 4096 tokens, resulting in a maximum input length of 3072 tokens.",
        4_096,
    ),
    (
        400,
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        4_096,
    ),
    (
        400,
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        4_096,
    ),
    (
        400,
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
        "requested a total of 5000 tokens: 4000 tokens from the input messages and 1000 tokens "
        "for the completion.",
        4_096,
    ),
    (400, "request (5000 tokens) exceeds the available context size (4096 tokens)", 4_096),
    (500, "the request exceeds the available context size", None),
    (
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 "
        "`inputs` tokens and 2000 `max_new_tokens`",
        4_096,
    ),
    (400, "prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    (
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
        "input length or `max_tokens`",
        200_000,
    ),
    (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
    ),
    (
        400,
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        32_768,
    ),
    (
        400,
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        131_072,
    ),
    (400, "Current length is 10000 while limit is 8192", 8_192),
    (400, "too many tokens: the prompt cannot exceed 4081 - received 5000", 4_081),
    (400, "Prompt length (5000) exceeds maximum input length (4096).", 4_096),
    (400, "Invalid request: Your request exceeded model token limit: 8192", 8_192),
    (400, "Range of input length should be [1, 30720]", 30_720),
    (
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 8000",
        6_000,
    ),
    (413, "<html>413 Request Entity Too Large</html>", None),
    (400, "Input is too long for requested model.", None),
    (400, "context window exceeds limit", None),
]
# A word or a number like those above, about something else.
OTHERS = [
    (400, "max_tokens must be at least 1, got -5000"),
    (
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
    ),
    (
        400,
        "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, "
        "whereas you provided 16384.",
    ),
    (400, "temperature must be less than or equal to 2"),
    (400, "top_logprobs must be less than or equal to 20"),
    (400, "Invalid token in JSON at position 3001"),
    (400, "token 3000 is not allowed"),
    (400, "at most 16 images may be provided in one request"),
    (401, "your token of 3000 characters is too long"),
    (429, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000."),
    (500, "internal error: token 3000 out of range"),
]


@pytest.mark.parametrize(("status", "words", "tokens"), REFUSALS)
def test_the_context_is_read_in_the_words_of_each_server(status, words, tokens):
    """The limit is told from the request's own numbers; without one, length is still the cause."""
    assert parse_too_long(status, {"message": words}, words) == TooLong(tokens)


@pytest.mark.parametrize(("status", "words"), OTHERS)
def test_a_refusal_for_another_reason_says_nothing_about_length(status, words):
    """Tokens, limits and numbers occur in other errors, too."""
    assert parse_too_long(status, {"message": words}, words) is None


def test_numbers_in_the_body_come_before_words():
    """llama.cpp names context and prompt in fields, whatever its message says."""
    error = {
        "code": 400,
        "message": "request refused",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5_000,
        "n_ctx": 4_096,
    }
    assert parse_too_long(400, error, "request refused") == TooLong(4_096, 5_000)
