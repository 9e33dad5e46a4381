"""The options of a collecting run and its files: outputs, records on their way there, the summary
of an earlier run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.json_types import Record
from genrm_cli.products.sessions.environment import AnyEnvironment
from genrm_cli.products.sessions.environments import ScenarioSet
from genrm_cli.products.sessions.episode import client_record
from genrm_cli.products.sessions.session_agents import AgentConfig
from genrm_cli.products.sessions.session_judge import judge_record
from genrm_cli.products.sessions.session_options import CLIENT, POLICY, TEACHER, SessionOptions
from genrm_cli.settings.table import Settings
from genrm_cli.storage.location import is_stream, require_rl_prefix
from genrm_cli.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions(SessionOptions):
    """The options of a collection run.

    Attributes:
        output: path or S3 URI of the episodes, uncompressed `.jsonl`.
        policy: the model of the policy; None for a scripted one.
        client: the model that plays the environment's part; None for none.
        judge: settings of the judge that rewards the sessions; None for none.
    """

    output: str
    policy_name: str
    policy: AgentConfig | None = None
    client: AgentConfig | None = None
    judge: Settings | None = None

    @property
    def agents(self) -> Mapping[str, AgentConfig]:
        """The models that take part, by role."""
        models = {POLICY: self.policy, CLIENT: self.client}
        return {role: model for role, model in models.items() if model is not None}

    def policy_record(self) -> Record:
        """Return the object `policy` of the records."""
        record = {
            "name": self.policy_name,
            "role": self.policy_role,
            "base_model": self.base_model,
            "nemotron_teacher": self.nemotron_teacher,
        }
        return {name: value for name, value in record.items() if value is not None}

    def deciding(
        self, environment: AnyEnvironment, scenarios: ScenarioSet, redact: Sequence[str]
    ) -> Record:
        """Return the settings of the run: everything except the time that changes the records."""
        plain = (
            "run_id",
            "policy_name",
            "policy_role",
            "scripted_policy",
            "base_model",
            "nemotron_teacher",
            "episodes",
            "variants",
            "client_seed",
            "branch_at",
        )
        return {
            **{name: getattr(self, name) for name in plain},
            "environment": environment.version,
            "client": client_record(environment, self.client),
            "scenarios": [scenarios.digests[each.scenario_id] for each in scenarios.scenarios],
            "policy": None if self.policy is None else self.policy.as_record(),
            "judge": judge_record(self.judge),
            "identity": list(self.identity),
            "redact": list(redact),
        }


SUMMARY_FORMAT = 1  # raised when a key of the summary changes its meaning
# Files next to the episodes.
SUMMARY_SUFFIX = ".collect.json"
FAILURES_SUFFIX = "_failures.jsonl"


def check_output(output: str, settings: Settings, role: str) -> None:
    """Refuse streams, compressed files, and a folder that mixes teachers and policies."""
    if is_stream(output) or not output.endswith(".jsonl"):
        raise UsageError(
            SettingRef("output", output),
            ": expected an uncompressed .jsonl file, which other loaders read, too.",
        )
    require_rl_prefix(output, settings.storage.any_prefix)
    folders = output.lower().split("/")[:-1]
    if (role == TEACHER) is not (TEACHER in folders):
        raise UsageError(
            SettingRef("output", output),
            f": episodes of a teacher go below a folder or prefix named {TEACHER}, and no others; "
            f"for example runs/{TEACHER}/run_01.jsonl.",
        )


def read_summary(uri: str, store: Store) -> Record | None:
    """Return the summary of an earlier run; None if there is none, or none of this format."""
    try:
        summary = json.loads(store.at(uri).read() or b"")
    except ValueError:
        return None
    is_known = isinstance(summary, dict) and summary.get("format") == SUMMARY_FORMAT
    return summary if is_known else None
