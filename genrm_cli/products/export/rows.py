"""Rows to render: pairs, labelled and plain samples, prompts with all their responses."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from genrm_cli.json_types import Record
from genrm_cli.products.export.chat_messages import Message

Json = Record
Unit = Literal["pair", "label", "sample", "prompt"]


TRL_READS = frozenset(
    {
        *("messages", "chosen", "rejected", "tools"),
        *("input_ids", "labels", "completion_mask", "assistant_masks"),
    }
)
"""Columns of samples that TRL's trainers read wherever they exist: tokens in place of the texts,
tools that the template shows.

Source: huggingface/trl 1.16.0, `trl/data_utils.py` and `trl/trainer/sft_trainer.py`."""


class UnfitError(ValueError):
    """A format cannot represent this row, or its loader would drop it. The message is the reason
    that is counted.
    """


class ExportedAnswer(Struct, frozen=True):
    """A response to a prompt.

    Attributes:
        id: file, group and index.
        standard_error: of its base score; None if unknown, as are `advantage` and `logprobs`.
        logprobs: of its tokens under the policy that wrote it.
        kept: fields of its line, by path.
        is_session: whether it also contains turns of a client.
    """

    id: str
    messages: list[Message]
    reward: float
    standard_error: float | None = None
    advantage: float | None = None
    logprobs: list[float] | None = None
    kept: Mapping[str, Any] = {}
    is_session: bool = False

    @property
    def text(self) -> str:
        """The text of a response that is one message of words.

        Raises:
            UnfitError: it has tool calls or several messages.
        """
        message, *others = self.messages or [{"role": None}]
        if others or message["role"] != "assistant" or "tool_calls" in message:
            raise UnfitError("the format takes one answer, not tool calls or several turns")
        return str(message["content"])


class Prompt(Struct, frozen=True):
    """A prompt.

    Attributes:
        id: digest of its turns, equal for equal prompts.
        tools: functions that the policy could call: JSON text in the shape of OpenAI's chat
            completions.
        reference: the known answer; empty if there is none.
    """

    id: str
    messages: list[Message]
    tools: tuple[str, ...] = ()
    judge: str | None = None
    reference: str = ""


class Pair(Struct, frozen=True):
    """A chosen and a rejected response to a prompt."""

    prompt: Prompt
    chosen: ExportedAnswer
    rejected: ExportedAnswer

    def kept(self, path: str) -> Json:
        """Return a field of the lines, with a column for each side."""
        sides = {"chosen": self.chosen, "rejected": self.rejected}
        return {f"{path}_{side}": answer.kept[path] for side, answer in sides.items()}


class Sample(Struct, frozen=True):
    """A response to imitate, or one labelled as wanted or unwanted."""

    prompt: Prompt
    answer: ExportedAnswer
    label: bool | None = None

    def kept(self, path: str) -> Json:
        """Return a field of the line, as a column."""
        return {path: self.answer.kept[path]}


class PromptRow(Struct, frozen=True):
    """A prompt, and all of its responses with a reward; `number` counts the prompts from 0."""

    prompt: Prompt
    answers: Sequence[ExportedAnswer]
    number: int
    lists: bool = False

    def kept(self, path: str) -> Json:
        """Return a field of the lines: all values if the row `lists` its responses, else the one
        that they share.
        """
        values = [answer.kept[path] for answer in self.answers]
        are_equal = all(each == values[0] for each in values)
        shared = values[0] if are_equal else None
        return {path: values if self.lists else shared}


class ExportFormat(Struct, frozen=True):
    """One loader's format.

    Attributes:
        about: its contents and its loader.
        unit: kind of row: a pair, a labelled sample, a sample or a prompt.
        render: row → JSON object; raises `UnfitError` if the loader would refuse, drop or empty the
            row.
        loading: code that loads an output, with `{uri}`, `{kind}` (its builder in `datasets`),
            `{load}` (a line of Python that loads it with `datasets`) and `{validation}` (the option
            of verl that names the validation split, if there is one).
        separates_reasoning: whether a field `reasoning_content` of a message reaches the chat
            template.
        strips_reasoning: whether chat templates are known to strip kept reasoning in this loader.
        name_split: adds the name of its split to a row; None if rows do not have it.
        sides: further files by suffix: URI of the output → their content.
    """

    name: str
    about: str
    unit: Unit
    render: Callable[[Any], Json]
    loading: str
    separates_reasoning: bool = False
    strips_reasoning: bool = False
    name_split: Callable[[Json, str], None] | None = None
    sides: Mapping[str, Callable[[str], Json]] = {}

    def usage(self, uri: str, validation: str | None = None) -> str:
        """Return the code that loads an output, and its validation split."""
        kind = "parquet" if uri.endswith(".parquet") else "json"
        load = f'dataset = load_dataset("{kind}", data_files="{uri}", split="train")'
        files = "" if validation is None else f"data.val_files={validation} "
        return self.loading.format(uri=uri, kind=kind, load=load, validation=files)


def scores_of(pair: Pair) -> Json:
    """Return the columns that identify the origin of a pair. Every row has all of them, each with
    one type.
    """
    return {
        "score_chosen": pair.chosen.reward,
        "score_rejected": pair.rejected.reward,
        "margin": pair.chosen.reward - pair.rejected.reward,
        "prompt_id": pair.prompt.id,
        "chosen_id": pair.chosen.id,
        "rejected_id": pair.rejected.id,
        "judge": pair.prompt.judge or "",
    }


def json_of_tools(tools: Sequence[str]) -> str:
    """Return tools as the text of a JSON list; empty for none."""
    return f"[{', '.join(tools)}]" if tools else ""


in_messages = partial(ExportFormat, separates_reasoning=True, strips_reasoning=True)
"""A format of messages, whose chat template may strip kept reasoning."""
in_text = partial(ExportFormat, strips_reasoning=True)
"""A format of texts, which a chat template may strip of kept reasoning."""
