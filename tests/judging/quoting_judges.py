"""Judges that quote what a candidate wrote, in all the places where judges do, beside their own
verdict.
"""

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from judge_families import Family

from genrm_cli.judging.profiles.profile import AnyProfile, Profile, neutralise_prompt
from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt

Shown = TypeVar("Shown", PairwisePrompt, ListwisePrompt)

QUOTATIONS: dict[str, Callable[[str], str]] = {
    "on lines of its own": "Response 2 says:\n{}\nI do not follow that.\n".format,
    "in a line": 'Response 1 writes "{}", which is a trick. '.format,
    "in a fence": "Response 2:\n```\n{}\n```\nThat is no argument.\n".format,
    "in a fence of JSON": "It holds\n```json\n{}\n```\nwhich is not my verdict.\n".format,
    "in a list": "- Response 1: {0}\n- Response 2: {0}\n\nSo:\n".format,
    "as a block": lambda text: "".join(f"> {line}\n" for line in text.split("\n")) + "\n",
    "indented": lambda text: (
        "It says:\n\n" + "".join(f"    {line}\n" for line in text.split("\n")) + "\n"
    ),
    "in a comment": "<!-- Response 1:\n{}\n-->\n".format,
    "in a note": "Note: Response 1 tried to inject:\n```json\n{}\n```\n".format,
    "after a colon": "Note: Response 1 tried to inject: {}\n".format,
    "and nothing else": "{}\n".format,
}
"""A candidate's text, as it stands in what a judge says before its verdict or after it."""


def iter_thinking(text: str, words: str) -> Iterator[tuple[str, str]]:
    """Yield what a judge says that quotes a text in its thoughts only, and where it does."""
    yield "in its thoughts", f"<think>\nIt says {text}\nHm. {text}\n</think>\n\n{words}"
    yield "in thoughts with a pre-filled tag", f"It says\n{text}\n</think>{words}"
    yield "as its first thought", f"<think>{text}</think>{words}"
    yield "as its first thought, pre-filled", f"{text}</think>{words}"


def iter_quoting(family: Family, text: str, words: str) -> Iterator[tuple[str, str]]:
    """Yield what a judge of a family says that quotes a text outside its thoughts, and where it
    does.
    """
    for place, quote in QUOTATIONS.items():
        quoted = quote(text)
        if family.after is not None:
            yield f"{place}, after its verdict", words + family.after + quoted
        if family.before is not None:
            yield place, quoted + family.before + words
            yield (
                f"{place}, after thoughts",
                f"<think>Hm. {text}</think>\n{quoted}{family.before}{words}",
            )
        if family.before is not None and family.after is not None:
            yield (
                f"{place}, around its verdict",
                quoted + family.before + words + family.after + quoted,
            )


def iter_all_quoting(family: Family, text: str, words: str) -> Iterator[tuple[str, str]]:
    """Yield what a judge of a family says that quotes a text anywhere."""
    yield from iter_thinking(text, words)
    yield from iter_quoting(family, text, words)
    if '"score_1"' in words:
        yield from iter_json_strings(words, text)


def pick_reply(
    rng: random.Random, replies: Iterator[tuple[str, str]], count: int
) -> tuple[str, str]:
    """Return one of so many replies, without making those that follow it."""
    return next(islice(replies, rng.randrange(count), None))


def shown_with(profile: Profile, text: str) -> PairwisePrompt:
    """Show a text beside a harmless one."""
    return as_shown(profile, PairwisePrompt([], text, "Another answer."))


def as_shown(profile: AnyProfile, prompt: Shown) -> Shown:
    """Return a prompt as a judge is shown it: what could be mistaken is broken up."""
    shown = neutralise_prompt(profile, prompt, {})
    assert isinstance(shown, type(prompt))
    return shown


def iter_json_strings(words: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield a verdict in JSON with the text in its analyses, as JSON has it and as careless judges
    write it.
    """
    said = json.loads(words)
    escaped = json.dumps(f"It says {text}; no.")
    raw = f'"It says {text}; no."'
    for place, string in (
        ("in a string", escaped),
        ("in a string without escapes", raw),
    ):
        if "overall" in said:
            overall = json.dumps(said["overall"])
            yield (
                place,
                f'{{"rubric_evaluations": [{{"analysis": {string}, "score_1": 3}}], "overall": {overall}}}',  # noqa: E501
            )
            yield f"{place}, last", f'{{"overall": {overall[:-1]}, "justification": {string}}}}}'
        else:
            rest = words.partition(", ")[2]
            yield place, f'{{"response_1_analysis": {string}, {rest}'
            yield (
                f"{place}, fenced",
                f'So.\n```json\n{{"response_2_analysis": {string}, {rest}\n```',
            )
