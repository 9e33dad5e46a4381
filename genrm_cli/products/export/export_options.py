"""The options of an export, as `genrm export` takes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from genrm_cli.catalog import PAIR_SELECTIONS, REASONING_POLICIES, explained
from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.settings.declare import setting

_pair = partial(setting, panel="Pairs to train on")
_other = partial(setting, panel="Other data sets")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Which rollouts to export, and in what form. None is no limit."""

    pairs: str = _pair(
        f"Which pairs. {explained(PAIR_SELECTIONS)}.",
        "best-worst",
        choices=PAIR_SELECTIONS,
        is_common=True,
    )
    top: int = _pair("top-bottom: number of responses at each end.", 2, low=1)
    min_gap: float = _pair(
        "Minimum difference between the two rewards.", 0.0, low=0, is_common=True
    )
    max_length_ratio: float | None = _pair(
        "Maximum ratio between the lengths of the two answers.", low=1
    )
    balance_length: bool = _pair(
        "Balance the pairs: the longer answer is chosen as often as the shorter, at each length "
        "difference.",
        False,
        is_common=True,
    )
    max_pairs_per_prompt: int | None = _pair(
        "Keep the N pairs of each prompt with the widest gap.", low=1
    )
    min_component: tuple[str, ...] = _pair(
        "Never choose a rollout whose component is below this: NAME=VALUE, such as "
        "rubric_empathy=0.5. Repeatable.",
        (),
    )
    best_of: int = _other(
        "trl-sft: number of responses to keep for each prompt.", 1, low=1, is_common=True
    )
    min_reward: float | None = _other("trl-sft: minimum reward.")
    threshold: float | None = _other(
        "trl-kto: label rewards at or above this as true. Default: the group's median.",
        is_common=True,
    )
    reasoning: Literal["keep", "strip", "separate"] = setting(
        f"How to export reasoning. {explained(REASONING_POLICIES)}.", "keep"
    )
    branch_at: int | None = setting(
        "Export the policy's Nth turn, with everything before it as the prompt. Default: whole "
        "responses.",
        low=1,
    )
    split: float = setting(
        "Share of prompts to put into OUT.validation.jsonl.", 0.0, low=0, high=0.9, is_common=True
    )
    keep: tuple[str, ...] = setting(
        "Keep this field of the input lines, a dotted path, as a column. Rows of pairs have "
        "FIELD_chosen and "
        "FIELD_rejected; rows of groups, a list. Repeatable.",
        (),
        is_common=True,
    )
    include_pending: bool = setting("Export sessions that no expert has reviewed, too.", False)
    smoke_test: bool = setting(
        "Make pairs from rewards that no judge gave: a smoke test of the pipeline, no training "
        "data.",
        False,
    )
    seed: int = setting("Random seed for choices and splits.", 0)

    @property
    def least_components(self) -> Mapping[str, float]:
        """The minimum values of components, by name."""
        least = {}
        for text in self.min_component:
            name, _, value = text.partition("=")
            try:
                least[name] = float(value)
            except ValueError:
                raise UsageError(
                    SettingRef("min_component", text),
                    " is not of the form NAME=VALUE, such as safety=0.5.",
                ) from None
        return least
