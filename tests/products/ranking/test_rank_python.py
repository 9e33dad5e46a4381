import pytest

import genrm_cli as genrm

PROMPTS = [f"What is {n}?" for n in range(21)]


def test_responses_in_memory_are_ranked() -> None:
    """Policies are given by name with a response to each prompt; nothing is left on disk."""
    new = [
        f"The number {n} is written with digits, and what follows it is {n + 1}." for n in range(21)
    ]
    found = genrm.rank({"old": ["no"] * 21, "new": new}, PROMPTS, judge="lexical")
    assert [(row.name, row.win_rate) for row in found.policies] == [("new", 1.0), ("old", 0.0)]
    assert found.sentence.startswith("lexical prefers new to old")


async def test_files_are_ranked_inside_a_running_loop(tmp_path) -> None:
    """Files are named as on the command line; a notebook's event loop does not get in the way."""
    for name in ("old", "new"):
        lines = [f'{{"prompt": "{prompt}", "response": "{name} {prompt}"}}\n' for prompt in PROMPTS]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    found = genrm.rank([tmp_path / "old.jsonl", tmp_path / "new.jsonl"], judge="lexical")
    assert {row.name for row in found.policies} == {"old", "new"}


def test_what_does_not_fit_is_refused() -> None:
    """Each policy needs a response to each prompt, a judge must be named, and a setting has an
    effect.
    """
    with pytest.raises(genrm.InputError, match="policy 'new' has 1 response to 2 prompts"):
        genrm.rank({"new": ["x"]}, ["a", "b"], judge="lexical")
    with pytest.raises(genrm.UsageError, match="no judge given"):
        genrm.rank({"old": ["x"], "new": ["y"]}, ["a"])
    with pytest.raises(genrm.UsageError, match="rank: the setting 'estimator' has no effect"):
        genrm.rank({"old": ["x"]}, ["a"], judge="lexical", estimator="bradley_terry")
