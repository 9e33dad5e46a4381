"""The guide's page about trainers, as far as it needs none of them; `make test-loaders` runs the
rest.
"""

import json

from trainers_page import TRAINERS, block, blocks_of, commands, run_python

# Where each block runs; test_commands.py runs those in `sh`.
RUN_IN = [
    "Trainers sh test_commands.py",
    "Trainers console test_trainers_page.py",
    "TRL python test_pasted.py",
    "verl console test_pasted.py",
    "OpenRLHF console test_pasted.py",
    "OpenRLHF json test_pasted.py",
    "OpenRLHF python test_pasted.py",
    "OpenRLHF console test_pasted.py",
    "slime console test_slime.py",
    "slime yaml test_slime.py",
    "NeMo Gym console test_pasted.py",
    "NeMo RL python test_nemo_rl.py",
    "NeMo RL yaml test_nemo_rl.py",
    "verifiers python test_verifiers_env.py",
    "prime-rl python test_verifiers_env.py",
    "SkyRL python test_skyrl.py",
    "ART python test_art.py",
    "Your own loop python test_trainers_page.py",
]


def test_every_block_of_the_page_runs_in_a_test():
    """A new block needs a test; what it needs may be a trainer that only `make test-loaders`
    installs.
    """
    blocks = [f"{section} {language}" for section, language, _ in blocks_of(TRAINERS)]
    assert blocks == [named.rpartition(" ")[0] for named in RUN_IN]


def test_a_server_is_asked_for_rewards_before_a_training(served):
    """The body of the curl command is a group; the reply has a number for each response."""
    [[*_, url, _, body]] = commands("Trainers", served.url)
    reply = served.post(url.removeprefix(served.url), json.loads(body)).json()
    assert reply["status"] == "scored"
    assert [type(reward) for reward in reply["rewards"]] == [float, float]


def test_your_own_loop(served):
    """The snippet gives each response a number."""
    rewards = run_python(block("Your own loop", "python", served.url))["reply"]["rewards"]
    assert [type(reward) for reward in rewards] == [float, float]
