"""What NeMo Gym shows of the records of a group, for tests of what the judge's server receives."""

from genrm_cli.json_types import field_at
from genrm_cli.rollouts.gym_view import gym_conversation, gym_history, gym_texts


def shown_by_gym(records):
    """Return the conversation of the first record, and the text of each response."""
    if "conversation_history" in records[0]:
        conversation = gym_history(records[0]["conversation_history"])
        responses = [record["response_objs"] for record in records]
    else:
        conversation = gym_conversation(field_at(records[0], "responses_create_params.input"))
        responses = [record["response"] for record in records]
    return conversation, [gym_response_text(response) for response in responses]


def gym_response_text(response):
    """Return the text of a response, or what Python's `str` makes of a missing one."""
    _, text = gym_texts(response)
    return text if text.strip() else "None"
