"""OpenRLHF's reward model and DPO training: an explicit prompt with `chosen`, `rejected` and `margin`.

Source: OpenRLHF 3c3be623 (0.11.0), `openrlhf/datasets/reward_dataset.py`.
"""

from genrm_cli.export.formats.trl.trl_dpo import explicit_pair
from genrm_cli.export.rows import ExportFormat, Json, Pair, UnfitError


def _render(pair: Pair) -> Json:
    if pair.prompt.tools:
        raise UnfitError("OpenRLHF does not show tool definitions to the chat template")
    return explicit_pair(pair)


def _usage(uri: str) -> str:
    return f"""--data.dataset {uri} --data.apply_chat_template \\
  --data.prompt_key prompt --data.chosen_key chosen --data.rejected_key rejected
# --data.max_len is 512 by default: longer pairs are cut, and their two sides may become equal"""


FORMAT = ExportFormat("openrlhf", "pair", _render, _usage, separates_reasoning=True, strips_reasoning=True)
