"""Rewards where the wire requires a number."""

from genrm_cli.groups.results import RolloutScore
from genrm_cli.serve.answers import GroupAnswer
from genrm_cli.serve.shapes.call import Call, NoRewardError


def number_of(score: RolloutScore, answer: GroupAnswer, call: Call) -> float:
    """Return the reward of a rollout, or what the user sends instead; each of these is counted.

    Raises:
        NoRewardError: there is neither.
    """
    if score.reward is not None:
        return score.reward
    if call.settings.on_failure is None:
        raise NoRewardError(f"group {answer.name!r}: no reward for {answer.ids[score.index]!r}: {score.reason_text}")
    call.service.metrics.defaults_sent += 1
    return call.settings.on_failure
