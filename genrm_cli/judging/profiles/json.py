"""Any chat model, held to JSON by its server: `response_format` with a schema.

For servers that know `response_format: json_schema` (vLLM, SGLang, llama.cpp, hosted models); with one that does not,
`nemotron-plain` asks the same in words alone.
"""

from functools import partial
from types import MappingProxyType

from genrm_cli.judging.profiles.nemotron_plain import JSON_FORM, SCALES
from genrm_cli.judging.profiles.parse_json import parse_scores_json
from genrm_cli.judging.profiles.profile import Profile, freeze
from genrm_cli.judging.profiles.prompt import NUMBERS, count_neutralised, render_comparison
from genrm_cli.judging.profiles.sampling import GREEDY

_CLOSING = SCALES + "\n\nAnswer with one JSON object in this form and nothing else:\n" + JSON_FORM

# In the order of writing: whoever writes the analyses first decides after them. Servers know `enum`, not all know
# `minimum`.
_PROPERTIES = {
    "response_1_analysis": {"type": "string"},
    "response_2_analysis": {"type": "string"},
    "score_1": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "score_2": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "ranking": {"type": "integer", "enum": [1, 2, 3, 4, 5, 6]},
}
_SCHEMA = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
}
_RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": _SCHEMA}}


PROFILE = Profile(
    name="json",
    version=2,
    about="any chat model whose server knows response_format json_schema; scores 1 to 5 and ranking 1 to 6 as they are",
    request_fields=MappingProxyType({**GREEDY, "response_format": freeze(_RESPONSE_FORMAT)}),
    render_messages=partial(render_comparison, names=NUMBERS, closing=_CLOSING),
    parse_reply=parse_scores_json,
    count_neutralised=count_neutralised,
)
