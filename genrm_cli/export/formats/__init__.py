"""The formats by name."""

from collections.abc import Mapping

from genrm_cli.export.formats import axolotl, groups, llamafactory, ms_swift, openrlhf, torchtune, verl
from genrm_cli.export.formats.nvidia import nemo_aligner_rpo, nemo_rl, nemo_rl_binary
from genrm_cli.export.formats.trl import trl_dpo, trl_grpo, trl_kto, trl_reward, trl_sft
from genrm_cli.export.rows import ExportFormat

FORMATS: Mapping[str, ExportFormat] = {
    format_.name: format_
    for format_ in (
        trl_dpo.FORMAT,
        trl_reward.FORMAT,
        trl_kto.FORMAT,
        trl_sft.FORMAT,
        trl_grpo.FORMAT,
        openrlhf.FORMAT,
        nemo_rl.FORMAT,
        nemo_rl_binary.FORMAT,
        nemo_aligner_rpo.FORMAT,
        verl.FORMAT,
        llamafactory.FORMAT,
        axolotl.FORMAT,
        ms_swift.FORMAT,
        torchtune.FORMAT,
        groups.FORMAT,
    )
}
