"""Compose the lines of writers that do not exist: random names, shapes and fields around the texts
of known roles.

Every text begins with a mark that names its role, its task and its response, so that a test can see
where it went. A name is never given to a text of a role that the name denies (a policy's text under
`gold`): nobody could read such a line."""

import json
from dataclasses import dataclass, field
from random import Random

from genrm_cli.rollouts.reading.known_names import (
    MANY_RESPONSES,
    PROMPTS,
    REFERENCES,
    RESPONSE_NAMES,
    RESPONSES,
    is_label,
    role_named,
)

TASKS = 2
RESPONSES_OF_TASK = 2
_MADE_UP = {
    "prompt": (
        "task_description user_message persona goal issue_text ask userQuery raw_task essay_topic "
        "seed_question problem_statement case_text story scene customer_email"
    ),
    "response": (
        "student_answer generated_answer model_reply bot_text finalText essay submission llm_text "
        "assistant_text attempt_1 policy_text out result_text translation summary code_text"
    ),
    "gold": (
        "gold_text reference_text ideal_reply golden key_facts canonical best_known truth_text "
        "expected_reply official_text"
    ),
    "reasoning": "reasoning_content thinking scratchpad cot thought_process reasoning_trace notes",
    "verdict": "judge_text critique feedback_text grader_notes evaluation rationale_of_score notes",
    "metadata": "note origin remark description extra_text provenance changelog",
}
_KNOWN = {
    "prompt": [*PROMPTS],
    "response": [*RESPONSE_NAMES],
    "gold": [*REFERENCES, *RESPONSES],
    "reasoning": [*RESPONSES],
    "verdict": [*RESPONSES],
    "metadata": [],
}
_ROLE_OF = {"gold": "reference"}
_SYLLABLES = tuple("ba do fi ku la me no pi ru sa te vo wi xe zu".split())  # noqa: SIM905
_SENTENCE = """
the river runs along old walls where many boats carry grain and wool to small towns below high hills
"""
_WORDS = _SENTENCE.split()


@dataclass
class Composed:
    """The lines of one file, and the marks of their texts by role."""

    lines: list[dict]
    marks: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def compose(seed):
    """Return the lines of one writer."""
    return _Composer(Random(seed)).compose()


class _Composer:
    def __init__(self, random):
        self.random = random
        self.used = set()
        self.marks = {}
        self.notes = []

    def compose(self):
        shape = self.random.choice(
            ["fields", "fields", "fields", "messages", "alternatives", "conversation", "waiting"]
        )
        self.notes.append(shape)
        # Without a text of the policy, a known answer under `response` looks like one.
        self.is_answered = shape != "waiting"
        others = [
            (role, self.name(role), self.shape(role))
            for role in ("gold", "reasoning", "verdict", "metadata")
            if self.random.random() < 0.45
        ]
        build = getattr(self, shape)()
        lines = []
        for task in range(TASKS):
            for at in range(1 if shape == "alternatives" else RESPONSES_OF_TASK):
                line = build(task, at)
                for role, name, form in others:
                    of = f"{task}" if role in ("gold", "metadata") else f"{task}{at}"
                    line[name] = form(self.text(role, of))
                line |= self.plain(task, at)
                keys = list(line)
                if self.is_shuffled:
                    Random(len(keys)).shuffle(keys)
                lines.append({key: line[key] for key in keys})
        return Composed(lines, self.marks, self.notes)

    # The shapes of a line

    def fields(self):
        name = self.name("prompt")
        answer = self.name("response")
        asked = self.prompt_shape()
        said = self.response_shape()
        second = self.random.choice(["", "", "system", "context", self.name("prompt")])

        def build(task, at):
            line = {name: asked(self.text("prompt", f"{task}"), task), answer: said(task, at)}
            if second:
                line[second] = self.text("prompt", f"{task}b")
            return line

        return build

    def messages(self):
        answer = self.name("response")
        said = self.response_shape()
        as_text = self.random.random() < 0.3

        def build(task, at):
            asked = self.history(task)
            return {"messages": json.dumps(asked) if as_text else asked, answer: said(task, at)}

        return build

    def alternatives(self):
        name = self.name("prompt")
        many = [each for each in (*MANY_RESPONSES, *RESPONSES) if each not in self.used]
        answer = self.random.choice([*many, self.name("response")])
        said = self.random.choice([self.plain_text, self.message, self.object_with_text])

        def build(task, at):
            values = [said(task, each) for each in range(RESPONSES_OF_TASK)]
            return {name: self.text("prompt", f"{task}"), answer: values}

        return build

    def conversation(self):
        name = self.random.choice(["messages", "conversation", "conversations", self.name("any")])
        sharegpt = name == "conversations"
        said = self.random.choice([self.message, self.calling, self.thinking])
        said = self.message if sharegpt else said

        def build(task, at):
            turns = [*self.history(task), *_listed(said(task, at))]
            if sharegpt:
                turns = [{"from": turn["role"], "value": turn["content"]} for turn in turns]
            return {name: turns}

        return build

    def waiting(self):
        """Make conversations that end in a turn of the user: there is no response."""
        name = self.random.choice(["messages", "conversation", "conversations"])

        def build(task, at):
            turns = self.history(task, is_old=True)
            if name == "conversations":
                turns = [{"from": turn["role"], "value": turn["content"]} for turn in turns]
            return {name: turns}

        return build

    def history(self, task, *, is_old=None):
        is_old = self.random.random() < 0.4 if is_old is None else is_old
        asked = {"role": "user", "content": self.text("prompt", f"{task}")}
        if not is_old:
            return [asked]
        old = {"role": "assistant", "content": self.text("past", f"{task}")}
        return [{"role": "user", "content": "Good day to you."}, old, asked]

    # The shapes of a response

    def response_shape(self):
        shapes = [self.plain_text, self.plain_text, self.plain_text, self.tagged, self.message]
        shapes += [self.object_with_text, self.calling, self.thinking, self.nested, self.choices]
        return self.random.choice(shapes)

    def plain_text(self, task, at):
        return self.text("response", f"{task}{at}")

    def tagged(self, task, at):
        thought = self.text("reasoning", f"{task}{at}t")
        return f"<think>{thought}</think>{self.text('response', f'{task}{at}')}"

    def message(self, task, at):
        return {"role": "assistant", "content": self.text("response", f"{task}{at}")}

    def object_with_text(self, task, at):
        return {"text": self.text("response", f"{task}{at}"), "finish_reason": "stop"}

    def nested(self, task, at):
        return {"inner": {"text": self.text("response", f"{task}{at}")}}

    def choices(self, task, at):
        return {"choices": [{"index": 0, "message": self.message(task, at)}]}

    def thinking(self, task, at):
        thought = self.text("reasoning", f"{task}{at}p")
        said = self.text("response", f"{task}{at}")
        kind = at_random(self.random_of(task), _THINKING)
        if kind == "key":
            return [{"role": "assistant", "content": said, "reasoning_content": thought}]
        if kind == "role":
            return [{"role": "thinking", "content": thought}, self.message(task, at)]
        if kind == "channel":
            turn = {"role": "assistant", "channel": "analysis", "content": thought}
            return [turn, {"role": "assistant", "channel": "final", "content": said}]
        part = {"type": kind, kind: thought}
        if kind == "gemini":
            part = {"text": thought, "thought": True}
        return [{"role": "assistant", "content": [part, {"type": "text", "text": said}]}]

    def calling(self, task, at):
        call = self.text("response", f"{task}{at}c")
        kind = at_random(self.random_of(task + 7), _CALLS)
        turn = {"role": "assistant", "content": self.text("response", f"{task}{at}")}
        if kind in ("args", "arguments", "parameters", "input"):
            turn["tool_calls"] = [{"name": "look", kind: {"query": call}}]
        elif kind == "openai":
            function = {"name": "look", "arguments": json.dumps({"query": call})}
            turn["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
        elif kind == "json":
            turn["tool_calls"] = json.dumps([{"name": "look", "arguments": {"query": call}}])
        elif kind == "function_call":
            turn["function_call"] = {"name": "look", "arguments": {"query": call}}
        elif kind == "unknown":
            turn["actions_taken"] = [{"do": "look", "with": {"query": call}}]
        else:
            parts = {
                "functionCall": {"functionCall": {"name": "look", "args": {"query": call}}},
                "tool-call": {"type": "tool-call", "toolName": "look", "args": {"query": call}},
                "tool_use": {"type": "tool_use", "name": "look", "input": {"query": call}},
                "tool_call": {"type": "tool_call", "name": "look", "arguments": {"query": call}},
            }
            turn["content"] = [{"type": "text", "text": turn["content"]}, parts[kind]]
        return [turn]

    # The shapes of other fields

    def prompt_shape(self):
        def as_messages(text, task):
            return [{"role": "user", "content": text}]

        def as_parts(text, task):
            return [{"role": "user", "content": [{"type": "text", "text": text}]}]

        shapes = [lambda text, task: text] * 3
        shapes += [as_messages, as_parts, lambda text, task: json.dumps(as_messages(text, task))]
        shapes += [lambda text, task: {"inner": text}]
        return self.random.choice(shapes)

    def shape(self, role):
        shapes = [lambda text: text] * 3 + [lambda text: {"inner": text}, lambda text: [text]]
        shapes += [lambda text: json.dumps({"inner": text}), lambda text: {"a": [{"b": text}]}]
        return self.random.choice(shapes)

    def plain(self, task, at):
        """Return fields that describe a line, as most writers have."""
        rows = {
            "reward": at * 0.5,
            "step": 3,
            "sample_id": f"{task}-{at}",
            "created": "2026-11-24 10:00:00",
            "model": "Some Model 7B Instruct",
            "token_ids": [1, 2, 3],
            "url": "https://example.org/a/b",
            "is_done": True,
            "category": "open questions",
        }
        return {key: value for key, value in rows.items() if key in self.plain_names}

    @property
    def plain_names(self):
        names = ["reward", "step", "sample_id", "created", "model", "token_ids", "url", "is_done"]
        return set(names[: 2 + len(self.notes[0]) % 6])

    @property
    def is_shuffled(self):
        return len(self.used) % 2 == 0

    def name(self, role):
        """Return a new name for a field of a role."""
        for _ in range(100):
            kind = self.random.random()
            if role == "any" or kind < 0.2:
                name = "".join(self.random.choices(_SYLLABLES, k=3))
            elif kind < 0.6 and _KNOWN[role] and (self.is_answered or role == "prompt"):
                name = self.random.choice(_KNOWN[role])
            else:
                name = self.random.choice(_MADE_UP[role].split())
            if name not in self.used and not _is_denied(name, role):
                break
        self.used.add(name)
        return name

    def text(self, role, of):
        """Return a text of a role, which begins with its mark."""
        mark = f"{role}x{of}"
        self.marks.setdefault(role, [])
        if mark not in self.marks[role]:
            self.marks[role].append(mark)
        words = Random(mark).sample(_WORDS, 5)
        return " ".join([mark, *words]).capitalize().replace(mark.capitalize(), mark) + "."

    def random_of(self, number):
        # The same for all lines of a file.
        self.choice = getattr(self, "choice", None) or self.random.random()
        return self.choice


_THINKING = ("key", "role", "channel", "thinking", "reasoning", "thought", "gemini")
_CALLS = (
    *("args", "arguments", "parameters", "input", "openai", "json", "function_call", "unknown"),
    *("functionCall", "tool-call", "tool_use", "tool_call"),
)


def at_random(number, values):
    """Return one of the values by a number from 0 to 1."""
    return values[int(number * len(values))]


def _listed(value):
    return value if isinstance(value, list) else [value]


def _is_denied(name, role):
    """Whether a name says that a text is not of this role."""
    said = role_named(name)
    if role in ("prompt", "response") and is_label(name):
        return True
    if role == "any" or said is None or said == _ROLE_OF.get(role, role):
        return False
    if said == "response":
        return role == "prompt"
    return said == "prompt" or role in ("prompt", "response")
