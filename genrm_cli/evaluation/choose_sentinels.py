"""Choose labelled pairs as sentinels: pairs that a judge decides alike in both orders, judged again in each run."""

from collections.abc import Iterator, Sequence

from genrm_cli.evaluation.accuracy import PairRecord
from genrm_cli.evaluation.labelled_pairs import LabelledPairs
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.source import Source

MOST_SENTINELS, FEWEST_SENTINELS = 100, 40


def choose_sentinels(pairs: Sequence[PairRecord]) -> list[int]:
    """Return the indices of at most 100 pairs, in order.

    Both orders prefer the same response, so that a sound judge repeats itself; of more, some from every margin, since
    close pairs show a change first.
    """
    decided = [
        (_margin(pair), index)
        for index, pair in enumerate(pairs)
        if pair.has_both and pair.chosen_first.result == pair.chosen_second.result and not pair.counts.ties
    ]
    decided.sort()
    count = min(len(decided), MOST_SENTINELS)
    return sorted(decided[place * len(decided) // count][1] for place in range(count))


def _margin(pair: PairRecord) -> float:
    """Return the difference of the scores of both responses, the mean over both orders."""
    verdicts = [order.verdict for order in pair.orders]
    return sum(abs(verdict.score_1 - verdict.score_2) for verdict in verdicts if verdict is not None) / 2


def iter_sentinel_lines(
    chosen: Sequence[int], pairs: LabelledPairs, source: Source, settings: Settings
) -> Iterator[bytes]:
    """Yield the lines of a file of sentinels: prompt, chosen and rejected of the pairs with these indices.

    Raises:
        ChangedInputError: the input has changed.
    """
    kept = set(chosen)
    for index, (case, group) in enumerate(pairs.iter_groups(source, settings)):
        if index in kept:
            better, worse = group.rollouts
            line = {
                "id": case.pair.id,
                "prompt": [{"role": turn.role, "content": turn.text} for turn in better.prompt],
                "chosen": better.answer,
                "rejected": worse.answer,
            }
            yield render_record(line if better.principle is None else {**line, "principle": better.principle})
