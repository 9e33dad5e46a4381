"""Length and style terms that are added to the base scores of a group.

Source of every formula here: NVIDIA NeMo Gym, `genrm_compare`, `apply_length_bonuses` and
`apply_style_penalties`; the style elements are Arena-Hard's with emoji added."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from genrm_cli.settings.components import Shaping
from genrm_cli.texts.late_pattern import late_pattern

_CODE_BLOCK = late_pattern(r"```.*?```", re.DOTALL)
_HEADER = late_pattern(r"^#{1,6}\s", re.MULTILINE)
# The reference's patterns begin with ^\s*: they count the same items but take minutes for 100,000
# blank lines.
_LIST_ITEMS = (
    late_pattern(r"^[^\S\n]*\d+\.\s", re.MULTILINE),
    late_pattern(r"^[^\S\n]*[-*+]\s", re.MULTILINE),
)
_BOLD = (late_pattern(r"\*\*[^*\n]+\*\*"), late_pattern(r"__[^_\n]+__"))
_EMOJI = late_pattern(
    "[\u2600-\u27bf\U0001f1e6-\U0001f1ff\U0001f300-\U0001f64f\U0001f680-\U0001f6ff"
    "\U0001f900-\U0001f9ff\U0001fa00-\U0001faff]"
)
# The reference's pattern also spans U+24C2 to U+1F251: every Chinese, Japanese and Korean character
# is an emoji.
_GYM_EMOJI = late_pattern(
    "[\u24c2-\U0001f251\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001faff]"
)


class TextShape(NamedTuple):
    """The lengths in characters and the style of one rollout's stripped texts, as needed by the
    terms.

    The style density of the answer is 0 if it was not measured."""

    reasoning_chars: int
    answer_chars: int
    style_density: float = 0.0


def measure_text(
    reasoning: str, answer: str, *, with_style: bool = True, as_gym: bool = False
) -> TextShape:
    """Measure the texts of a rollout; `as_gym` counts as emoji what NeMo Gym does (setting
    `compat`).
    """
    lengths = len(reasoning.strip()), len(answer.strip())
    if not with_style:
        return TextShape(*lengths)
    return TextShape(*lengths, style_density(answer, as_gym=as_gym))


class Adjustments(Struct):
    """The terms added to one rollout's base score, on its scale."""

    reasoning_bonus: float = 0.0
    answer_bonus: float = 0.0
    reasoning_length: float = 0.0
    answer_length: float = 0.0
    style: float = 0.0

    def total(self) -> float:
        """Return the sum of all terms."""
        return sum(self.as_dict().values())

    def as_dict(self) -> dict[str, float]:
        """Return the terms by name."""
        return asdict(self)


def plan_adjustments(
    scores: Sequence[float], shapes: Sequence[TextShape], terms: Shaping
) -> list[Adjustments]:
    """Compute the length and style terms of each rollout of a group.

    Bonuses come first and count towards the threshold of the second one; lengths are characters of
    the stripped text; group terms are 1 for the least and 0 for the most, centred on the group's
    mean, and 0 where all are equal. A group of one gets no adjustment. An empty text is the
    shortest for the group term but never gets the bonus."""
    n = len(scores)
    adjustments = [Adjustments() for _ in range(n)]
    if n < 2:
        return adjustments
    reasoning_chars = [shape.reasoning_chars for shape in shapes]
    answer_chars = [shape.answer_chars for shape in shapes]
    threshold = sorted(scores, reverse=True)[max(0, int(n * terms.top_percentile) - 1)]
    bonuses = (
        ("reasoning_bonus", reasoning_chars, terms.reasoning_bonus),
        ("answer_bonus", answer_chars, terms.answer_bonus),
    )
    for name, lengths_chars, bonus in bonuses:
        filled = [index for index, length in enumerate(lengths_chars) if length > 0]
        shortest = min(filled, key=lengths_chars.__getitem__, default=None)
        if shortest is None:
            continue
        if scores[shortest] + adjustments[shortest].reasoning_bonus >= threshold:
            setattr(adjustments[shortest], name, bonus)
    densities = [shape.style_density for shape in shapes]
    group_terms: Sequence[tuple[str, Sequence[float], float]] = (
        ("reasoning_length", reasoning_chars, terms.group_reasoning_length_penalty_coeff),
        ("answer_length", answer_chars, terms.group_answer_length_penalty_coeff),
        ("style", densities, terms.group_style_penalty_coeff),
    )
    for name, sizes, coefficient in group_terms:
        for adjustment, weight in zip(adjustments, _centred_weights(sizes), strict=True):
            # `+ 0.0` turns the -0.0 of a negative weight under a coefficient of 0 into 0.0.
            setattr(adjustment, name, weight * coefficient + 0.0)
    return adjustments


def style_density(text: str, *, as_gym: bool = False) -> float:
    """Return headers, list items, bold spans and emoji per character, without code blocks; 0 for an
    empty text.
    """
    prose = _CODE_BLOCK.sub("", text)
    length_chars = len(prose.strip())
    return sum(count_style_elements(prose, as_gym=as_gym)) / length_chars if length_chars else 0.0


def count_style_elements(text: str, *, as_gym: bool = False) -> tuple[int, int, int, int]:
    """Count headers, list items, bold spans and emoji code points of a text without code blocks."""
    return (
        len(_HEADER.findall(text)),
        sum(len(pattern.findall(text)) for pattern in _LIST_ITEMS),
        sum(len(pattern.findall(text)) for pattern in _BOLD),
        len((_GYM_EMOJI if as_gym else _EMOJI).findall(text)),
    )


def _centred_weights(sizes: Sequence[float]) -> list[float]:
    """Return 1 for the smallest and 0 for the largest, minus the mean; all 0 if all are equal."""
    low = min(sizes)
    high = max(sizes)
    if low == high:
        return [0.0] * len(sizes)
    weights = [1.0 - (size - low) / (high - low) for size in sizes]
    mean = sum(weights) / len(weights)
    return [weight - mean for weight in weights]
