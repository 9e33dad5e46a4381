"""The group reward function for slime, which takes slime's samples and needs nothing of slime.

Source: THUDM/slime 624b824a, `slime/rollout/rm_hub` and `slime/utils/types.py`. Run by hand at that
commit: its `batched_async_rm` with this function as `--custom-rm-path`, and its `remote_rm`,
against a live server."""

import asyncio
import pkgutil
from types import SimpleNamespace

import pytest
from served import texts
from trainers_page import block, commands

from genrm_cli.adapters.reward_client import MissingRewardError
from genrm_cli.adapters.slime import group_reward, keep_group


def sample(response, **metadata):
    """Make a sample with the fields that the function reads."""
    return SimpleNamespace(prompt="Why?", response=response, metadata=metadata)


def rewards_of(served, samples, **arguments):
    """Ask as slime does: its arguments, then the samples of one prompt."""
    return asyncio.run(group_reward(SimpleNamespace(genrm_url=served.url, **arguments), samples))


def test_groups_that_are_no_more_than_chance_are_filtered(served):
    """The filter for dynamic sampling drops what the server says is noise; until the judge is known
    well enough to say so, it keeps all.
    """
    samples = [sample(text) for text in texts(4, "slime-filter")]
    rewards_of(served, samples)
    known = {sample.metadata["genrm_worth_training"] for sample in samples}
    assert known <= {True, None}
    assert keep_group(SimpleNamespace(), samples)
    assert not keep_group(None, [sample("a", genrm_worth_training=False)] * 4)


def test_the_command_and_the_settings_of_the_guide(served):
    """The path leads to a function that takes the settings of the file as arguments of slime."""
    [words] = commands("slime", served.url)
    assert words[words.index("--custom-config-path") + 1] == "genrm.yaml"
    settings = dict(line.split(": ") for line in block("slime", "yaml", served.url).splitlines())
    function = pkgutil.resolve_name(words[words.index("--custom-rm-path") + 1])
    samples = [sample(text) for text in [*texts(2, "pasted"), ""]]
    worse, better, blank = asyncio.run(function(SimpleNamespace(**settings), samples))
    assert worse < better
    assert blank == pytest.approx((worse + better) / 2)


def test_messages_and_principle_come_from_the_metadata(served, judge_server):
    """The judge sees them instead of the templated prompt."""
    told = {"messages": [{"role": "user", "content": "Who asks?"}], "principle": "Be brief, slime."}
    rewards_of(served, [sample(text, **told) for text in texts(2, "meta")])
    asked = str(judge_server.stats()["recent"])
    assert "Who asks?" in asked
    assert "Be brief, slime." in asked
    assert "Why?" not in asked


def test_an_empty_response_is_an_error_unless_the_user_says_otherwise(served):
    """slime requires a number for each sample."""
    samples = [sample(text) for text in (*texts(2, "empty"), "")]
    with pytest.raises(MissingRewardError, match="'2' no reward"):
        rewards_of(served, samples)
    assert rewards_of(served, samples, genrm_on_failure=-1.0)[2] == -1.0


def test_what_is_no_group_is_refused(served):
    """A single sample without --group-rm, none, or rollouts that fan out."""
    for samples in [sample("one"), [], [[sample("a")], [sample("b")]]]:
        with pytest.raises(TypeError, match="--group-rm"):
            rewards_of(served, samples)
