"""Names that users type, each with a one-line explanation.

Help texts and settings checks use these tables. The tables of implementations elsewhere have
exactly these names, in this order."""

from collections.abc import Iterable, Mapping

STRATEGIES: Mapping[str, str] = {
    "circular": "each rollout against the next in its group: N comparisons for N rollouts",
    "all_pairs": "each rollout against every other: N(N-1)/2",
    "ring": "each rollout against the same number of others, as often first as second: N for each "
    "ring",
}

GOALS: Mapping[str, str] = {
    "rewards": "a reward for every rollout",
    "best": "the best rollout of each group, for best-of-n",
    "pair": "the best and the worst rollout of each group, for preference pairs",
}

ESTIMATORS: Mapping[str, str] = {
    "simple_tiebreaker": "mean of a rollout's scores, as in NeMo Gym",
    "adaptive": "least squares over scores and rankings, adjusted for opponents and the judge's "
    "position preference",
}

ADVANTAGES: Mapping[str, str] = {
    "unit": "reward less the group's mean, divided by the group's standard deviation",
    "pooled": "divided by the root of the mean of the group's variance and the run's",
    "reliability": "unit, times the reliability of the group",
    "raw": "reward less the group's mean",
}

INPUT_FORMATS: Mapping[str, str] = {
    "nemo_gym": "rollouts of NeMo Gym",
    "compare": "requests of NeMo Gym's genrm_compare",
    "verifiers_traces": "traces of verifiers v1 and prime-rl",
    "episode": "whole sessions with a scenario",
    "agent": "trajectories of agents: mini-swe-agent, SWE-agent, OpenHands, tau2-bench, ATIF, BFCL",
    "inspect_log": "logs of inspect_ai",
    "lm_eval": "samples of lm-eval-harness",
    "rllm": "episodes of rLLM",
    "art": "trajectories of ART",
    "atropos": "groups of Atropos",
    "columns": "lists of prompts and responses",
    "nemo_rl": "training and validation dumps of NeMo RL",
    "completion": "a prompt with a response, or several; logged calls of an API",
    "chat": "messages that end in the response",
}

REDACTIONS: Mapping[str, str] = {
    "email": "email addresses",
    "phone": "telephone numbers",
    "identity": "identity, bank and card numbers",
}

PAIR_SELECTIONS: Mapping[str, str] = {
    "best-worst": "the best against the worst",
    "best-typical-worst": "the best against the one nearest to mean - 2 std",
    "top-bottom": "several of the best against as many of the worst",
    "all": "every pair",
    "compared": "pairs that the judge compared directly",
    "best-random": "the best against a random other response",
    "teacher-student": "the best of a teacher's against each of the policy's",
}

REASONING_POLICIES: Mapping[str, str] = {
    "keep": "in the text, between think tags",
    "strip": "omitted",
    "separate": "in the field reasoning_content",
}


def listed(names: Iterable[str]) -> str:
    """Return names separated by commas."""
    return ", ".join(names)


def explained(names: Mapping[str, str]) -> str:
    """Return names with their explanations, separated by semicolons."""
    return "; ".join(f"{name}: {explanation}" for name, explanation in names.items())
