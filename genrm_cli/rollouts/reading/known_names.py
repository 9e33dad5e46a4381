"""Names of fields that hold prompts, responses, references and metadata, and the texts of a value.

A name may have several roles, because writers disagree: a format says which of them it reads, and
as what. Beside the fields of its format, a line may have any others: `account.py` decides by what
they hold, and asks here only for names that say whose text it is."""

from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.values import words
from genrm_cli.texts.late_pattern import late_pattern

Role = Literal["prompt", "response", "reference", "reasoning", "verdict", "metadata"]


# Other names of the roles of a conversation.
ROLES = {
    "developer": "system",
    **dict.fromkeys(words("function observation ipython"), "tool"),
    **dict.fromkeys(words("human prompter"), "user"),
    **dict.fromkeys(words("gpt chatgpt model bot chatbot ai agent"), "assistant"),
    **dict.fromkeys(words("thought thinking thoughts analysis"), "reasoning"),
}
# A prompt on its own; all but one of those that a line has must repeat it.
PROMPTS = words(
    "prompt messages conversation question query problem instruction input inputs user_input "
    "input_prompt prefix"
)
# Prompts if they are requests to an API, and responses if they are its replies.
REQUESTS = words("request request_body params body modelInput infer_request")
REPLIES = words("response_body result modelOutput choices")
# Parts of a prompt beside it, in the order in which they are shown. `suffix` is what follows the
# gap that the policy fills (FIM).
SYSTEMS = words(
    "system system_prompt system_message system_instruction developer_prompt instructions"
)
PARTS = (
    *SYSTEMS,
    *words("context contexts passage passages choices options retrieved_contexts"),
    *words("retrieval_context suffix history conversation_history chat_history"),
)
# One response, or a list of alternatives.
RESPONSES = words(
    "completion response output generation generated_text predict model_output model_response "
    "model_completion output_text response_text text generated_response generated_solution "
    "llm_response llm_output actual_output message output_response"
)
# A list under one of these holds alternatives, even of messages.
MANY_RESPONSES = words("responses completions outputs generations samples candidates rollouts")
# A response for some writers; an extract of one, a pair, or a whole conversation for others. Read
# only if named.
UNCLEAR = words(
    "prediction predictions predicts predicted_text generated generated_texts model_answer reply "
    "conversations trajectory trajectories chosen rejected turns messages_and_choices"
)
# Never a response unless the user names it.
REFERENCES = words(
    "reference references reference_answer reference_solution reference_response expected_answer "
    "expected_output expected answer answers correct_answer correct_answers incorrect_answers "
    "ground_truth ground_truths gold golden_answer gold_answer gt gts gt_cot best_answer "
    "ideal_completion solution solutions target targets label labels"
)
RESPONSE_NAMES = (*RESPONSES, *MANY_RESPONSES, *UNCLEAR)
_PROMPT_NAMES = frozenset((*PROMPTS, *PARTS, "raw_input"))
# Any other name that ends in one of these words could be a prompt or a response as well, even one
# of a word or two.
_PROMPT_WORDS = words(
    "prompt prompts instruction instructions history context contexts document documents article "
    "articles passage passages examples dialogue dialog question query problem"
)
_RESPONSE_WORDS = words(
    "response responses completion completions output outputs generation generations conversation "
    "conversations"
)
# One of these words anywhere in a name says whose text it is: known answers, the policy's
# reasoning, and what a judge or a verifier said.
_OWNERS: dict[str, Role] = {
    **dict.fromkeys(
        words("reference expected gold golden correct incorrect ideal target ground truth"),
        "reference",
    ),
    **dict.fromkeys(
        words("reasoning reasonings thinking thought thoughts cot scratchpad"), "reasoning"
    ),
    **dict.fromkeys(
        words(
            "judge judgment judgement grader grading critic critique verifier verification reward "
            "rewards eval evaluation evaluator scorer score scores rubric rubrics criteria "
            "feedback rating ratings rationales verdict verdicts principle principles annotation "
            "annotations annotator"
        ),
        "verdict",
    ),
}
# Last words of names whose texts describe the line. They count only for texts of one short line.
_LABELS = words(
    "id ids uid uuid hash key name names model models version dataset datasets type kind category "
    "categories language lang url urls path file date time timestamp license status generator "
    "generators format split tag tags"
)
# Names of what writers put beside a rollout: errors, settings of the sampler, tests and tools.
_METADATA = frozenset(
    words(
        "genrm previous_genrm error errors traceback stderr usage logprobs tools tool_definitions "
        "tool_defs functions tool_choice sampling_params generation_config model_parameters "
        "chat_template chat_template_kwargs response_format moderation openai_moderation tests "
        "test_cases test_list unit_tests public_tests private_tests "
        "images image videos video audios audio tokens token_ids prompt_token_ids output_token_ids "
        "input_ids agent_ref _ng_group_id _ng_task_index task_index task_idx prompt_id example_id "
        "_ng_rollout_index rollout_index episode_index finish_reason finish_reasons stop_reason "
        "stop_reasons"
    )
)
# Words in names that break ties between fields, for a proposal only.
_TELLING: dict[str, Role] = {
    **dict.fromkeys(words("user task ask request input inputs issue goal topic"), "prompt"),
    **dict.fromkeys(
        words(
            "answer answers reply replies generated prediction predictions predicted pred "
            "assistant candidate candidates sample samples sampled result results submission "
            "policy bot attempt rollout hypothesis student"
        ),
        "response",
    ),
}
# Where a word of a name in camel case, with underlines or hyphens begins.
_WORD_START = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
# A number or a letter at the end tells one of several: `response_1`, `response_b`.
_NUMBER = late_pattern(r"(?<=[a-z])_?\d+$|_[a-z]$")


@lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """Return a name in one spelling: `system_prompt` for `systemPrompt`, and `response` for
    `response_b`.
    """
    return _NUMBER.sub("", _spelled(name))


def _spelled(name: str) -> str:
    return "_".join(_WORD_START.split(name)).lower()


@lru_cache(maxsize=1024)
def role_named(name: str) -> Role | None:
    """Return the role that a name gives a text; None for a name that gives none."""
    plain = plain_name(name)
    words = plain.split("_")
    if plain in _PROMPT_NAMES:
        return "prompt"
    if plain in RESPONSE_NAMES:
        return "response"
    # `answer_a` is one of two, not the known one.
    if plain in REFERENCES and plain == _spelled(name):
        return "reference"
    if plain in _METADATA:
        return "metadata"
    if owner := next((_OWNERS[word] for word in words if word in _OWNERS), None):
        return owner
    if words[-1] in _PROMPT_WORDS:
        return "prompt"
    return "response" if words[-1] in _RESPONSE_WORDS else None


@lru_cache(maxsize=1024)
def is_label(name: str) -> bool:
    """Whether the name is that of an identifier or a category, if its text is short."""
    return plain_name(name).rpartition("_")[2] in _LABELS


def part_named(name: str) -> Literal["prompt", "response"] | None:
    """Return what a field of this name could hold; None for a name that says neither."""
    role = role_named(name)
    return role if role == "prompt" or role == "response" else None


@lru_cache(maxsize=1024)
def likely_role(name: str) -> Role | None:
    """Return the role that a name suggests: it breaks ties between fields that could have it."""
    if (role := role_named(name)) is not None:
        return role
    words = plain_name(name).split("_")
    return next((_TELLING[word] for word in reversed(words) if word in _TELLING), None)


class Fields(NamedTuple):
    """The fields that a format reads, by role.

    A field may have several roles: `messages` often hold prompt and response. Together they say
    what the format accounts for: any other field could hold a prompt or a response that it does not
    read.

    Attributes:
        prompt: what the policy answered: a text or messages.
        context: parts of the prompt beside it: system prompt, history, passages and the like.
        response: what the policy answered: a text, messages or a list of alternatives.
        metadata: names, rewards, and what else tells the format apart.
    """

    prompt: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()

    def roles(self) -> dict[str, tuple[str, ...]]:
        """Return the fields of each role."""
        return self._asdict()

    def names(self) -> tuple[str, ...]:
        """Return all fields, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(self)))

    def present_in(self, record: JsonObject) -> "Fields":
        """Return the fields that a line has."""
        return Fields(*[tuple(filter(record.__contains__, names)) for names in self])
