"""Clusters: a judge sorts the responses of a group by the tactic that they follow, in one call."""

from collections.abc import Iterable
from functools import partial
from operator import itemgetter

from genrm_cli.judging.profiles.answer import excerpt, make_failure, parse_decimal
from genrm_cli.judging.profiles.json_objects import Pairs
from genrm_cli.judging.profiles.profile import GradingProfile, Message
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.graded import (
    SESSION,
    find_intruder,
    find_member,
    find_miscount,
    find_number,
    object_of,
    parse_object,
    render_graded,
    request_object,
)
from genrm_cli.verdicts import Failure, FailureKind, Grades

MAX_LABEL_CHARS = 300

_TASK = f"""\
Below are a conversation between a user and an assistant, and several responses to it, numbered from 0. Sort the \
responses into clusters by the evaluation plan. Do not say which are better: only what they have in common counts.

{SESSION}"""
_PLAN = """\
1. Responses belong to one cluster if they follow the same underlying tactic: the same idea, method or way of \
dealing with the request. Wording, order, length, tone and details do not matter.
2. Two responses in the same words but with different tactics stand apart; two with nothing of their words in common \
and the same tactic stand together.
3. All responses that are empty and all that refuse share one cluster.
4. A response that nobody else's tactic fits is a cluster of its own."""
_CLOSING = """\
Assign each of the {count} responses to exactly one cluster. Number the clusters from 0 and label each by its tactic \
in a few words. Answer with one JSON object in this form and nothing else, with one entry for each response:
{{"assignments": [{{"index": <number of the response>, "cluster_id": <number>, "label": "<tactic>"}}, ...]}}"""
_ASSIGNMENTS = {
    "type": "array",
    "items": object_of({"index": {"type": "integer"}, "cluster_id": {"type": "integer"}, "label": {"type": "string"}}),
}

_KEYS = ("index", "cluster_id")
_Cluster = tuple[float | str, str]


def cluster_numbers(ids: Iterable[object]) -> tuple[float, ...]:
    """Number the ids by first appearance: 0, 1, ..."""
    numbers: dict[object, float] = {}
    return tuple(numbers.setdefault(each, float(len(numbers))) for each in ids)


def _render_messages(prompt: ListwisePrompt) -> list[Message]:
    return render_graded(prompt, _TASK, _PLAN, _CLOSING.format(count=len(prompt.responses)))


def _parse_reply(reply: Reply, prompt: ListwisePrompt) -> Grades | Failure:
    return parse_object(reply, prompt, ("assignments",), _KEYS, partial(_read_assignments, len(prompt.responses)))


def _read_assignments(count: int, pairs: Pairs) -> Grades | Failure:
    if intruder := find_intruder(pairs, ("assignments",), _KEYS):
        return intruder
    assignments = find_member(pairs, "assignments", list)
    if isinstance(assignments, Failure):
        return assignments
    clusters: list[tuple[float, _Cluster]] = []
    for assignment in assignments:
        index, cluster = find_number(assignment, "index"), _read_cluster(assignment)
        if isinstance(index, Failure):
            return index
        if isinstance(cluster, Failure):
            return cluster
        clusters.append((index, cluster))
    if miscount := find_miscount([index for index, _ in clusters], count):
        return miscount
    ordered = [cluster for _, cluster in sorted(clusters, key=itemgetter(0))]
    return Grades(cluster_numbers(each for each, _ in ordered), tuple(label for _, label in ordered))


def _read_cluster(assignment: object) -> _Cluster | Failure:
    """Parse the id of a cluster, a number or a name, and its optional label."""
    if intruder := find_intruder(assignment, _KEYS, ("assignments",)):
        return intruder
    found = find_member(assignment, "cluster_id", object)
    if isinstance(found, Failure):
        return found
    number = parse_decimal(found) if isinstance(found, str) else found
    name = found.strip() if isinstance(found, str) and number is None else number
    if not isinstance(name, str | float) or name == "" or name != name:  # NaN is not even equal to itself
        return make_failure(FailureKind.NO_VERDICT, f"cluster_id is neither a number nor a name: {excerpt(found)}")
    label = find_member(assignment, "label", str)
    return name, "" if isinstance(label, Failure) else label[:MAX_LABEL_CHARS]


CLUSTERS = GradingProfile(
    name="clusters",
    version=2,
    about="all responses of a group sorted by their tactic in one call; values are the clusters' numbers from 0",
    request_fields=request_object("clusters", {"assignments": _ASSIGNMENTS}),
    render_messages=_render_messages,
    parse_reply=_parse_reply,
    whole_group=True,
)
