"""What to collect."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from genrm_cli.episodes.agents import POLICY, TRUNK, AgentConfig

TEACHER = "teacher"


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """What to collect.

    Attributes:
        output: of the episodes: a path or an S3 URI, uncompressed `.jsonl`.
        run_id: name of the run.
        policy_name: what records call the policy.
        policy: the model behind it; None for a scripted one.
        base_model: what the policy was trained from; None if it is not said.
        role: `policy`, or `teacher` for episodes to imitate.
        trunk: the policy of the turns before `branch_at`; None for the policy itself.
        client: the models that play the environment's part, by role.
        episodes: of each scenario and variant: a group.
        variants: of the client in each scenario.
        seed: of everything random.
        in_flight: sessions that are played at once.
        branch_at: the policy's turn at which the episodes of a group part; None for episodes that share nothing.
        keep_faulty: write episodes in which the simulated client was at fault, too.
    """

    output: str
    run_id: str
    policy_name: str
    policy: AgentConfig | None = None
    base_model: str | None = None
    role: str = POLICY
    trunk: AgentConfig | None = None
    client: Mapping[str, AgentConfig] = field(default_factory=dict)
    episodes: int = 4
    variants: int = 1
    seed: int = 0
    in_flight: int = 512
    branch_at: int | None = None
    keep_faulty: bool = False

    @property
    def agents(self) -> list[tuple[str, AgentConfig]]:
        """The models that take part, by role."""
        policies = ((POLICY, self.policy), (TRUNK, self.trunk))
        return [(role, agent) for role, agent in policies if agent is not None] + list(self.client.items())
