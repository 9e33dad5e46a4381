"""`genrm_cli.rank`: rank policies from Python."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from genrm_cli.commands import read_commands
from genrm_cli.errors import InputError, counted
from genrm_cli.jobs.context import new_run
from genrm_cli.products.ranking.rank_policies import Ranking, rank_policies, rank_settings
from genrm_cli.scorer import run_blocking, settings_of
from genrm_cli.settings.sources.keys import find_api_keys
from genrm_cli.settings.table import all_settings, changed, settings_of_entry


def rank(
    policies: Mapping[str, Sequence[Any]] | Sequence[str | os.PathLike[str]],
    prompts: Sequence[Any] | None = None,
    *,
    policy_field: str | None = None,
    api_key: str | None = None,
    **settings: Any,
) -> Ranking:
    """Compare policies on the same prompts; blocks until the judge has answered.

        genrm.rank({"old": old, "new": new}, prompts, base_url="http://localhost:8000/v1",
        model="judge")

    Args:
        policies: files, as for `genrm rank`; or by policy a response to each prompt, each as in
            `Group.of`.
        prompts: the prompts of responses; None for files.
        policy_field: dotted path of the field that names the policy.
        settings: settings by their name in a settings file. Responses in memory are not journalled
            unless `journal` is set.

    Raises:
        GenrmError: a subclass for each kind of failure. Some failed comparisons raise nothing; see
            `failed`.
    """
    used = {each.key for each in settings_of_entry(read_commands()["rank"])}
    given = settings_of("rank", settings, {each.key for each in all_settings()} - used)
    with TemporaryDirectory() as folder:
        uris = [os.fspath(each) for each in policies]
        if isinstance(policies, Mapping):
            # Through a file: responses in memory are then read by the same rules as files.
            path = Path(folder) / "policies.jsonl"
            path.write_text("".join(_iter_lines(policies, prompts or ())), encoding="utf-8")
            uris = [str(path)]
            policy_field = "policy"
            given = changed(given, use_journal=given.journal.journal is not None)
        run = new_run(rank_settings(given), find_api_keys(given, api_key=api_key))
        return run_blocking(rank_policies(uris, policy_field, run))


def _iter_lines(policies: Mapping[str, Sequence[Any]], prompts: Sequence[Any]) -> Iterator[str]:
    """Yield the responses as lines of rollouts."""
    for name, responses in policies.items():
        if len(responses) != len(prompts):
            raise InputError(
                f"policy {name!r} has {counted(len(responses), 'response')} to "
                f"{counted(len(prompts), 'prompt')}; give one to each."
            )
        for prompt, response in zip(prompts, responses, strict=True):
            line = {"prompt": prompt, "response": response, "policy": name}
            yield json.dumps(line) + "\n"
