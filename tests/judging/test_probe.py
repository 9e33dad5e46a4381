"""The probe: what it takes for a judge to be used, and what is said when it cannot be."""

import json

import pytest
from opened_judge import with_judge
from small_server import completion

from genrm_cli.errors import JudgeError
from genrm_cli.judging.opening.probe import probe_judge

FIRST_BETTER = {"score_1": 5, "score_2": 1, "ranking": 1}
TIE = {"score_1": 3, "score_2": 3, "ranking": 3}


def probe(*base_urls, profile="nemotron", timeout_s=10.0):
    """Probe a judge at one or more endpoints; what it warns of."""
    warnings = []

    async def use(opened):
        warnings.extend(await probe_judge(opened.remote, timeout_s))

    with_judge(use, *base_urls, profile=profile, retries=0)
    return "; ".join(map(str, warnings)) or None


def refusal(*base_urls, profile="nemotron", timeout_s=10.0):
    """Return why a judge cannot be used."""
    with pytest.raises(JudgeError) as caught:
        probe(*base_urls, profile=profile, timeout_s=timeout_s)
    return str(caught.value)


@pytest.mark.parametrize(
    "profile", ["nemotron", "json", "nemotron-principle", "rewardanything", "brrm"]
)
def test_a_good_judge_passes_with_two_calls(judge_server, profile):
    """A judge that prefers the answer to the nonsense in both orders needs no third call and gets
    no warning; judges of single responses and of lists, and two turns, too.
    """
    assert probe(judge_server.base_url, profile=profile) is None
    assert judge_server.stats()["requests"] == (4 if profile == "brrm" else 2)


def test_a_template_without_the_judges_roles_is_found(judge_server):
    """Whether the server drops the responses in silence or refuses them: the plain profile is
    named, and works.
    """
    for behaviour in [{"unknown_roles": "ignore"}, {"unknown_roles": "reject"}]:
        judge_server.behave(**behaviour)
        reason = refusal(judge_server.base_url)
        assert judge_server.base_url in reason
        assert "profile='nemotron-plain'" in reason
        assert ("chat template seems to drop them" in reason) == (
            behaviour["unknown_roles"] == "ignore"
        )
        assert probe(judge_server.base_url, profile="nemotron-plain") is None


@pytest.mark.parametrize("verdict", [FIRST_BETTER, TIE])
def test_a_judge_without_a_preference_for_the_right_answer_is_refused(judge_server, verdict):
    """A judge that reads both responses but prefers the first, or neither, is not used; its
    verdicts are quoted.
    """
    judge_server.behave(verdict=verdict)
    reason = refusal(judge_server.base_url)
    said = f"scores {verdict['score_1']} and {verdict['score_2']}, ranking {verdict['ranking']}"
    for words in (
        judge_server.base_url,
        "'m'",
        f"{said} shown first, {said} shown second",
        "probe=False",
    ):
        assert words in reason
    assert "chat template" not in reason
    assert judge_server.stats()["requests"] == 3


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            {"content": "The first one", "finish_reason": "length"},
            ("truncated", "max_reply_tokens"),
        ),
        pytest.param({"content": ""}, ("empty", "reasoning parser"), marks=pytest.mark.slow),
        ({"content": "I like both."}, ("no_verdict", "profile='nemotron-plain'", "probe=False")),
        ({"status": 401}, ("auth", "GENRM_API_KEY", "api_key_env")),
        pytest.param({"status": 404}, ("404", "base_url", "and model"), marks=pytest.mark.slow),
        pytest.param({"status": 500}, ("500", "probe=False"), marks=pytest.mark.slow),
        pytest.param(
            {"body": "<html>nginx</html>"}, ("bad_body", "base_url"), marks=pytest.mark.slow
        ),
        ({"reset": "before"}, ("connection", "Is the server running?")),
        pytest.param({"hang": True}, ("timeout", "look at its log"), marks=pytest.mark.slow),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(judge_server, fault, words):
    """One paragraph, within seconds, names the endpoint, the model, the kind of failure and the
    option to change.
    """
    judge_server.behave(fault=fault)
    reason = refusal(judge_server.base_url, timeout_s=0.5)
    for word in (judge_server.base_url, "'m'", *words):
        assert word in reason
    assert "\n" not in reason


def test_a_server_that_loads_its_model_is_not_blamed(judge_server):
    """llama.cpp answers 503 at its start: address and model are right, and it need not be skipped.
    Once it is ready, the same probe passes.
    """
    judge_server.behave(is_llamacpp=True, loading=2)
    reason = refusal(judge_server.base_url)
    assert reason.endswith(
        "HTTP 503: Loading model. It is loading its model, or is overloaded: try again in a minute."
    )
    assert probe(judge_server.base_url) is None


def test_no_remedy_is_the_profile_that_failed(judge_server):
    """A reply without a verdict under `nemotron-plain` asks for another profile."""
    judge_server.behave(fault={"content": "I like both."})
    assert "try another profile" in refusal(judge_server.base_url, profile="nemotron-plain")


def test_what_passes_at_once_is_forgiven(judge_server):
    """A single bad reply or fault does not end the probe."""
    judge_server.behave(script=[{"content": "Hm."}, {}, {"status": 502}])
    assert probe(judge_server.base_url) is None


def test_every_endpoint_is_probed(judge_server, start_judge):
    """One bad endpoint of two is found and named, and the good one is not."""
    other = start_judge()
    other.behave(unknown_roles="ignore")
    reason = refusal(judge_server.base_url, other.base_url)
    assert other.base_url in reason
    assert judge_server.base_url not in reason
    assert judge_server.stats()["requests"] == 2
    other.kill()
    warning = probe(judge_server.base_url, other.base_url)
    assert warning is not None
    assert "Connection refused" in warning
    other.restart()
    other.behave(verdict=FIRST_BETTER)
    assert other.base_url in refusal(judge_server.base_url, other.base_url)


def fault_of(content, **usage):
    """Return a fault in which a server sends a completion."""
    return {"body": json.dumps(completion(content, **usage)[2])}


@pytest.mark.parametrize(("longer_tokens", "dropped"), [(221, True), (700, False)])
def test_a_model_that_answers_the_question_instead_of_judging(judge_server, longer_tokens, dropped):
    """As vLLM and llama.cpp with a template that drops the responses: the unchanged count of tokens
    tells.
    """
    counts = (221, 221, longer_tokens, longer_tokens)
    judge_server.behave(
        script=[fault_of("It is Mercury.", prompt_tokens=count) for count in counts]
    )
    reason = refusal(judge_server.base_url)
    assert ("chat template seems to drop them" in reason) == dropped
    assert ("no_verdict" in reason) != dropped
    assert "profile='nemotron-plain'" in reason


def test_a_server_that_counts_every_prompt_alike_is_not_said_to_drop_responses(judge_server):
    """No template drops the user's message, in which the plain profile has them, nor is that
    profile advised in place of itself.
    """
    reply = fault_of("Both are nice.", prompt_tokens=10)
    judge_server.behave(script=[reply] * 9)
    reason = refusal(judge_server.base_url, profile="nemotron-plain")
    assert "no_verdict" in reason
    assert "profile='nemotron-plain'" not in reason


def test_without_a_count_no_template_is_blamed(judge_server):
    """Where the tokens of a longer prompt are not known, a reply without a verdict is just that, or
    what ended it.
    """
    unread = {"content": "Mercury."}
    for behaviour in (
        {"script": [unread, unread], "fault": {"status": 400}},
        {"fault": fault_of("Mercury.")},
    ):
        judge_server.behave(**behaviour)
        reason = refusal(judge_server.base_url)
        assert "chat template" not in reason
        assert "no_verdict" in reason


def test_a_context_that_is_too_short_is_not_blamed_on_the_model(judge_server):
    """vLLM refuses a token limit above its context, llama.cpp a prompt: the option to lower is
    named.
    """
    cases = [
        "max_tokens=16384 cannot be greater than max_model_len=8192. Please request fewer output "
        "tokens. (parameter=max_tokens, value=16384)",
        "This model's maximum context length is 8192 tokens. However, your prompt contains at "
        "least 8193 input tokens, which exceeds this limit even without any output tokens.",
        "request (9471 tokens) exceeds the available context size (4096 tokens), try increasing it",
    ]
    for message in cases:
        refuse(judge_server, message, "max_tokens")
        reason = refusal(judge_server.base_url)
        assert message[:30] in reason
        assert "max_reply_tokens" in reason
        check_the_model_is_not_blamed(reason)


def refuse(server, message, param):
    """Refuse a parameter as vLLM does."""
    error = {"message": message, "type": "BadRequestError", "param": param, "code": 400}
    server.behave(fault={"status": 400, "body": json.dumps({"error": error})})


def check_the_model_is_not_blamed(reason):
    """Check that neither another model nor another profile is suggested."""
    assert "Check model" not in reason
    assert "try profile" not in reason


def test_missing_log_probabilities_are_not_blamed_on_the_model(judge_server):
    """Whether the server refuses them as vLLM does above its limit, or leaves them out: what is
    needed is named.
    """
    message = "Requested sample logprobs of 20, which is greater than max allowed: 5"
    refuse(judge_server, f"{message} (parameter=logprobs, value=20)", "logprobs")
    refused = refusal(judge_server.base_url, profile="nemotron-principle")
    judge_server.behave(fault=fault_of("Final Judgement: No"))
    left_out = refusal(judge_server.base_url, profile="nemotron-principle")
    for reason in (refused, left_out):
        assert "max-logprobs" in reason
        check_the_model_is_not_blamed(reason)
