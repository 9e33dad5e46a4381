"""What a server counts beside what a run counts."""

from dataclasses import dataclass


@dataclass(slots=True)
class ServiceMetrics:
    """Counters since the start of the server.

    Attributes:
        groups: judged.
        partial: groups judged without all members, or that left a member without a reward.
        failed: groups in which nobody got a reward.
        deadlines: cohorts that their deadline closed.
        repeated: requests of members or groups that had come before.
        late: members that came after their cohort was closed.
        disagreements: requests that contradicted an earlier one.
        refused: requests answered with 429, or with 503 while draining.
        wasted: comparisons made early that the whole group did not need.
        defaults_sent: rewards that `on_failure` replaced.
        spread_sum: highest less lowest reward, summed over the groups that have one.
        spread_count: these groups.
    """

    groups: int = 0
    partial: int = 0
    failed: int = 0
    deadlines: int = 0
    repeated: int = 0
    late: int = 0
    disagreements: int = 0
    refused: int = 0
    wasted: int = 0
    defaults_sent: int = 0
    spread_sum: float = 0.0
    spread_count: int = 0
