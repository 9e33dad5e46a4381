"""NVIDIA's GenRMs with their own chat roles: `response_1`, `response_2` and `principle`."""

from genrm_cli.judging.profiles.profile import THINKING, ChatMessage, Profile
from genrm_cli.judging.profiles.prompt import NOT_RECORDED
from genrm_cli.judging.profiles.scores_json import FORMS, parse_scores_json
from genrm_cli.judging.requests import PairwisePrompt

_HISTORY_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


def render_messages(prompt: PairwisePrompt) -> list[ChatMessage]:
    """Render the history, the principle if there is one, and the responses, each in a role of its
    own.
    """
    messages = [render_turn(role, text) for role, text in prompt.conversation]
    if all(message["role"] == "system" for message in messages):
        # Some chat templates refuse a conversation without a user turn.
        messages.append({"role": "user", "content": NOT_RECORDED})
    if prompt.principle is not None:
        messages.append({"role": "principle", "content": prompt.principle})
    messages.append({"role": "response_1", "content": prompt.response_1})
    messages.append({"role": "response_2", "content": prompt.response_2})
    return messages


def render_turn(role: str, text: str) -> ChatMessage:
    """Render one turn; a role that is not a speaker's (`tool`, ...) becomes a labelled user turn.

    The input must not be able to speak as `principle` or `response_1`, and templates drop unknown
    roles."""
    if role in _HISTORY_ROLES:
        return {"role": _HISTORY_ROLES[role], "content": text}
    return {"role": "user", "content": "[" + role + "]\n" + text}


PROFILE = Profile(
    name="nemotron",
    models=("*qwen3-nemotron-235b-a22b-genrm", "*qwen3-nemotron-235b-a22b-genrm-2603"),
    version=4,
    about="NVIDIA GenRM 235B and 2603 with their roles response_1, response_2, principle (vLLM, "
    "TensorRT-LLM); "
    "scores 1 to 5 and ranking, unchanged",
    request_fields=THINKING,
    render_messages=render_messages,
    parse_reply=parse_scores_json,
    verdict_forms=FORMS,
    markers=(),
)
