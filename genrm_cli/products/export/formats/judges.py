"""Training data for a judge of one's own: replies to imitate, and labelled requests for
reinforcement learning.

Source: the columns of the data set nvidia/Nemotron-RLHF-GenRM-v1: `messages` is a list of
conversations of one message, which shows two responses and asks for JSON with `score_1`, `score_2`
(1 to 5) and `ranking` (1 to 6), all of them integers. Rows without scores have null; their reward
then depends on the form and the ranking alone."""

import math

from genrm_cli.products.export.rows import ExportFormat, Json, JudgeReply, UnfitError
from genrm_cli.verdicts import MAX_RANKING, MIDDLE_RANKING, MIN_RANKING


def _sft(row: JudgeReply) -> Json:
    return {
        "messages": [*row.request, row.reply],
        "preferred": row.outcome,
        "prompt_id": row.prompt_id,
        "first_id": row.answers[0].id,
        "second_id": row.answers[1].id,
        "judge": row.judge,
        "journal_key": row.key,
    }


def _genrm_rl(row: JudgeReply) -> Json:
    # The means of both orders differ in their last bits, which must not round them differently.
    key = row.key
    ranking = round(row.verdict.ranking, 9)
    if ranking == MIDDLE_RANKING:
        raise UnfitError("the format has no ranking for a tie")
    # Rounded towards the middle, and never over it, so that both orders of a pair get opposite
    # rankings.
    ranked = min(_rounded(min(ranking, _BOTH - ranking)), math.floor(MIDDLE_RANKING))
    return {
        "messages": [row.request],
        "uuid": "-".join((key[:8], key[8:12], key[12:16], key[16:20], key[20:32])),
        "num_responses": 2,
        "score_1": _rounded(row.verdict.score_1) if row.has_scores else None,
        "score_2": _rounded(row.verdict.score_2) if row.has_scores else None,
        "ranking": ranked if ranking < MIDDLE_RANKING else int(_BOTH) - ranked,
        "license": "",
        "used_in": [],
    }


def _rounded(value: float) -> int:
    return math.floor(value + 0.5)


_BOTH = MIN_RANKING + MAX_RANKING  # a ranking, and that of the other order
_SFT_USAGE = (
    "{load}\n"
    "trainer = SFTTrainer(model=model, args=SFTConfig(assistant_only_loss=True), "
    "train_dataset=dataset)\n"
    "# assistant_only_loss needs a chat template with generation tags; without it, requests are "
    "trained on, too"
)
_GENRM_RL_USAGE = (
    "{load}\n"
    "# reward: -10 without valid JSON, minus the distances of score_1, score_2 and ranking from "
    "the row's, unless null"
)

FORMATS = (
    ExportFormat(
        "judge-sft",
        "the judge's own replies, for TRL's SFTTrainer",
        "judgement",
        _sft,
        _SFT_USAGE,
        separates_reasoning=True,
    ),
    ExportFormat(
        "genrm-rl",
        "labelled requests to a judge, as in NVIDIA's Nemotron-RLHF-GenRM-v1",
        "judgement",
        _genrm_rl,
        _GENRM_RL_USAGE,
        profile="nemotron-plain",
    ),
)
