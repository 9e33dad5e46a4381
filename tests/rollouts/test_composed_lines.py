"""Lines of writers that do not exist are read right or refused, and what a refusal proposes is
right.
"""

import copy
import json
from collections import Counter

import pytest
from rollouts.composed_lines import compose

from genrm_cli.jobs.due.propose_fields import propose_fields
from genrm_cli.rollouts.formats import named_fields, recognise
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.rollout import Reasoning, ToolCall, UnreadableRecordError


def shown_of(items):
    """Return all that a judge could see of a response."""
    said = [item for item in items or () if not isinstance(item, Reasoning)]
    return "\n".join(
        f"{item.name} {item.arguments}" if isinstance(item, ToolCall) else getattr(item, "text", "")
        for item in said
    )


def problems_of(file, read):
    """Return what is wrong with the rollouts that are read from the lines of a file."""
    groups = {}
    for number, line in enumerate(file.lines):
        for rollout in read(copy.deepcopy(line)):
            groups.setdefault(group_key(rollout, number), []).append(rollout)
    found = set()
    rollouts = [each for group in groups.values() for each in group]
    marks = file.marks
    for rollout in rollouts:
        prompt = "\n".join(turn.text for turn in rollout.prompt)
        shown = shown_of(rollout.response)
        for role in ("gold", "reasoning", "verdict"):
            found |= {f"{role} in the prompt" for mark in marks.get(role, ()) if mark in prompt}
            found |= {f"{role} in the response" for mark in marks.get(role, ()) if mark in shown}
        for role in ("past", "prompt"):
            found |= {f"{role} in the response" for mark in marks.get(role, ()) if mark in shown}
        if rollout.response is not None:
            theirs = {mark[9:11] for mark in marks.get("response", ()) if mark in shown}
            lost = [
                mark
                for mark in marks.get("response", ())
                if mark[9:11] in theirs and mark not in shown
            ]
            found |= {"a part of the response is lost"} if lost or not theirs else set()
            tasks = {each[0] for each in theirs}
            asked = [mark for mark in marks["prompt"] if mark[7] in tasks]
            found |= {"a part of the prompt is lost" for mark in asked if mark not in prompt}
    for group in groups.values():
        answered = [each for each in group if each.response is not None]
        prompts = {each.prompt for each in answered}
        found |= {"a group has two prompts"} if len(prompts) > 1 else set()
    said = "".join(shown_of(each.response) for each in rollouts)
    lost = [mark for mark in marks.get("response", ()) if mark not in said]
    return found | ({"a response is lost"} if lost else set())


def result_of(file):
    """Return how a file is read, and what is wrong with it."""
    try:
        for line in file.lines:
            recognise(line)
        return "read", problems_of(file, lambda line: recognise(line).read(line))
    except UnreadableRecordError:
        proposal = propose_fields(file.lines)
    if proposal is None:
        return "refused", set()
    named = named_fields(proposal.response_field, proposal.prompt_field)
    return f"proposed {proposal}", problems_of(file, named.read)


def check(seeds):
    """Check the files of these seeds, and count how they are read."""
    counts = Counter()
    for seed in seeds:
        file = compose(seed)
        result, problems = result_of(file)
        assert not problems, (seed, result, problems, json.dumps(file.lines))
        counts[result.partition(" ")[0]] += 1
    return counts


def test_lines_of_unknown_writers_are_read_right_or_refused():
    """Neither gold, reasoning nor an old turn is judged, and nothing of the policy is lost."""
    counts = check(range(200))
    assert counts["read"] >= 20
    assert counts["proposed"] >= 10


@pytest.mark.weekly
def test_lines_of_20000_unknown_writers_are_read_right_or_refused():
    """The same claim, for many more."""
    check(range(200, 20_200))
