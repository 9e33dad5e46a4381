"""Prompts that show one response, or numbered responses of a group, and the plan for grading them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from genrm_cli.judging.profiles.default_sampling import GREEDY
from genrm_cli.judging.profiles.profile import Message, freeze
from genrm_cli.judging.profiles.prompt import render_listwise
from genrm_cli.judging.requests import ListwisePrompt

SESSION = """\
A response may be a whole session, written as turns. Then the assistant's turns are what counts, and those of the \
user or client are what it had to deal with."""


def render_graded(prompt: ListwisePrompt, task: str, plan: str, closing: str) -> list[Message]:
    """Render the responses by number, from 0, and after them the plan with the prompt's principle.

    Thinking tags are defused: an answer starts after the last one, and quoting a response must not start it early.
    """
    principle = plan if prompt.principle is None else f"{plan}\n\nKeep to this as well:\n{prompt.principle}"
    harmless = replace(
        prompt,
        conversation=[(_without_tags(role), _without_tags(text)) for role, text in prompt.conversation],
        responses=tuple(map(_without_tags, prompt.responses)),
        principle=_without_tags(principle),
        background=prompt.background and _without_tags(prompt.background),
    )
    names = [str(number) for number in range(len(prompt.responses))]
    return render_listwise(harmless, names, closing, task)


def request_object(name: str, properties: Mapping[str, object]) -> Mapping[str, object]:
    """Return request fields that constrain the judge to one JSON object with these properties, in order."""
    json_schema = {"name": name, "strict": True, "schema": object_of(properties)}
    response_format = {"type": "json_schema", "json_schema": json_schema}
    return MappingProxyType({**GREEDY, "response_format": freeze(response_format)})


def object_of(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _without_tags(text: str) -> str:
    return text.replace("<think>", "(think>").replace("</think>", "(/think>")
