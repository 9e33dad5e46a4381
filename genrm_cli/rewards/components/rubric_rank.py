"""A judge's ranking of the group by a rubric set, with the settings of `rubric`."""

from genrm_cli.rewards.components.rubric import KIND

__all__ = ["KIND"]
