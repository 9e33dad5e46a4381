"""The reward from pairwise verdicts."""

from genrm_cli.settings.components import ComponentKind

KIND = ComponentKind(options={}, source="judge", from_verdicts=True)
"""Its values are the estimator's; `reward_group` computes them."""
