"""Each setting that a command uses changes what the command does, or is refused; the others are no
options of it, and their variables and lines of a settings file are for other commands.
"""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click import Context

from genrm_cli.cli.commands import read_commands
from genrm_cli.cli.console import help_text
from genrm_cli.cli.options import build_command
from genrm_cli.errors import UsageError
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import Settings, all_settings, setting_named, settings_from, value_of

SETTINGS = {setting.name: setting for setting in all_settings()}
# For each setting, a value other than its default.
VALUES = {
    "format": "completion",
    "group_by": "metadata.task",
    "view": "transcript",
    "answer_field": "result.text",
    "answer_tool": "submit",
    "reference_field": "expected_answer",
    "rubric_field": "rubric",
    "ignore_media": "true",
    "empty": "lose",
    "prompt_field": "prompt",
    "response_field": "answer",
    "ignore_fields": "remark",
    "id_field": "example",
    "max_line_bytes": "1000",
    "max_unpacked": "1",
    "together": "true",
    "strict": "true",
    "min_age": "1h",
    "require_metadata": "synthetic=true",
    "journal": "other.sqlite",
    "segment_calls": "5",
    "use_journal": "false",
    "only_failed": "true",
    "shard": "0/2",
    "conclude": "true",
    "requests_to": "requests.jsonl",
    "replies_from": "replies.jsonl",
    "output": "out.jsonl",
    "output_template": "{dir}/{stem}.other.scored.jsonl",
    "force": "true",
    "dry_run": "true",
    "keep_replies": "true",
    "json_output": "true",
    "log_json": "events.jsonl",
    "quiet": "true",
    "wandb": "project",
    "mlflow": "project",
    "tensorboard": "project",
    "any_prefix": "true",
    "listen": "127.0.0.1:1",
    "allow_public": "true",
    "allow_host": "proxy.example",
    "max_body": "1000",
    "cohort_size": "3",
    "cohort_deadline": "9s",
    "cohort_idle": "9s",
    "keep": "9s",
    "max_cohorts": "9",
    "max_open_bytes": "9",
    "read_timeout": "9s",
    "drain": "9s",
    "on_failure": "mean",
    "record": "recorded",
    "record_every": "9s",
    "reference": "answers.jsonl",
    "groups_per_step": "9",
    "judge": "lexical",
    "base_url": "http://127.0.0.1:9/v1",
    "model": "other",
    "judging": "listwise",
    "profile": "json",
    "principle": "Be short.",
    "temperature": "0.3",
    "top_p": "0.3",
    "max_reply_tokens": "77",
    "request_field": "reasoning_effort=low",
    "max_model_len": "3000",
    "images": "true",
    "image_hosts": "images.example",
    "api_key_env": "ANOTHER_KEY",
    "http_client": "httpx",
    "probe": "false",
    "redact_pattern": "[a-z]+",
    "compat": "nemo-gym",
    "judge_id": "another",
    "limit": "1",
    "concurrency": "1",
    "call_timeout": "0.001",
    "deadline": "0.001",
    "give_up_after": "0.001",
    "retries": "0",
    "max_calls": "1",
    "max_total_tokens": "1",
    "max_cost": "0.000001",
    "price_in": "5",
    "price_out": "5",
    "strategy": "all_pairs",
    "goal": "best",
    "max_extra": "0",
    "ring_k": "1.5",
    "repeats": "2",
    "list_size": "3",
    "both_orders": "true",
    "seed": "7",
    "estimator": "simple_tiebreaker",
    "advantage": "unit",
    "min_verdicts": "0",
    "min_reliability": "0.999",
    "preset": "nemotron-3-nano",
    "default_score": "2",
    "unscored": "drop",
    "max_unscored": "1",
    "component": "win_rate",
}
NEEDED = {"response_field": "completion"}  # a value that other settings can stand beside


def uses(command):
    """Return the names of the settings that a command uses."""
    entry = read_commands()[command]
    return {
        name
        for name, setting in SETTINGS.items()
        if setting.panel in entry.panels or name in entry.names
    }


def beside(name):
    """Return what a setting needs to have an effect, as flat values."""
    given = {}
    for part in filter(None, SETTINGS[name].only_with.split(", ")):
        other, _, value = part.partition("|")[0].partition("=")
        if not other.startswith("!"):
            given |= {**beside(other), other: value or NEEDED.get(other, VALUES[other])}
    given.pop("use_journal", None)
    return given


def resolved(flags, environ, file, command=None):
    """Resolve settings; a refusal is its message without the name of the source."""
    used = None if command is None else uses(command)
    try:
        return resolve_settings(flags, environ, SettingsFile("x.toml", file), used)[0]
    except UsageError as error:
        return re.sub(r".*? (?=has no effect|is out of|is not)", "", str(error), count=1)


@pytest.mark.parametrize("name", SETTINGS)
def test_all_sources_mean_the_same(name):
    """Flag, variable and line of a settings file give the same settings, and change them."""
    given = {**beside(name), name: VALUES[name]}
    by_flag = resolved(given, {}, {})
    by_variable = resolved({}, {setting_named(n).variable: v for n, v in given.items()}, {})
    by_file = resolved({}, {}, {setting_named(n).key: v for n, v in given.items()})
    assert by_flag == by_variable == by_file
    assert isinstance(by_flag, Settings)
    assert value_of(by_flag, name) != value_of(resolved(beside(name), {}, {}), name)


@pytest.mark.parametrize("command", read_commands())
def test_what_a_command_does_not_use_is_not_seen(command):
    """It is no option; its variable and its line in a settings file are for other commands."""
    built = build_command(command, read_commands()[command])
    options = {each.name: each.get_help_record(Context(built)) for each in built.params}
    for name in SETTINGS.keys() - uses(command):
        # It may have its own option of that name.
        assert help_text(SETTINGS[name].described) not in (options.get(name) or ("", ""))[1]
        variable = {SETTINGS[name].variable: VALUES[name]}
        line = {SETTINGS[name].key: VALUES[name]}
        assert resolved({}, variable, line, command) == settings_from()


IMAGE = "data:image/png;base64,iVBORw0KGgo="
ELSEWHERE = "https://images.example/cat.png"


def said(*parts):
    """Return a completion of text and images."""
    return [{"role": "assistant", "content": list(parts)}]


def image(url):
    """Return an image of a completion."""
    return {"type": "image_url", "image_url": {"url": url}}


def rollouts():
    """Return rollouts that are read, judged and rewarded in many ways."""
    known = {"expected_answer": "one", "rubric": "Names the number.", "metadata": {"task": "t"}}
    for number in range(3):
        for length in range(1, 5):
            text = " ".join([f"word{number}"] * length**2)
            yield {"prompt": f"Question {number}?", "completion": text, **known}
    yield {"prompt": "Question 0?", "completion": "word0", **known}  # a duplicate
    yield {"prompt": "Question 1?", "completion": "  ", **known}
    yield {"prompt": "Alone?", "completion": "Yes."}
    for text in ("Brief.", "Longer than the other."):
        yield {"prompt": "Unknown fields?", "completion": text, "remark": "I liked it a lot."}
        yield {"prompt": "Long? " + "All of it counts. " * 900, "completion": text}
        json_text = json.dumps({"result": {"text": text}, "note": "Not to be judged."})
        yield {"prompt": "JSON?", "completion": json_text}
        for url in (IMAGE, ELSEWHERE):
            turns = said({"type": "text", "text": text}, image(url))
            yield {"prompt": [{"role": "user", "content": f"Image {url}?"}], "completion": turns}


REQUEST = json.dumps(
    {
        "conversation_history": [{"role": "user", "content": "Q? " + "All of it counts. " * 900}],
        "response_objs": [
            {"output": [{"type": "message", "role": "assistant", "content": content}]}
            for content in (
                [{"type": "output_text", "text": "one"}],
                [{"type": "output_text", "text": "one two"}],
                [{"type": "output_text", "text": "one two three four"}],
                [{"type": "output_text", "text": " "}],
                [
                    {"type": "output_text", "text": "here"},
                    {"type": "input_image", "image_url": IMAGE},
                ],
                [
                    {"type": "output_text", "text": "there"},
                    {"type": "input_image", "image_url": ELSEWHERE},
                ],
            )
        ],
        "expected_answer": "one",
        "rubric": "Names the number.",
    }
).encode()


def lines_of(rows):
    """Return rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


JUDGED = "--base-url URL --model m"
SLOW = {"latency_s": 0.02}
SILENT = {"fault": [{"content": "I cannot tell."}], "fault_share": 0.2}
DOWN = {"script": [{"status": 503, "headers": {"Retry-After": "0"}}] * 3}
# For each command, runs in which its settings show: its words, and how the judge behaves.
RUNS = {
    "validate": [
        ("validate r.jsonl --json", {}),
        ("validate r.jsonl.gz two.jsonl", {}),
        ("validate done.jsonl --model m", {}),
    ],
}
# What differs from run to run: times, places, ports.
_UNSTABLE_KEY = re.compile(
    r"_s$|_at$|_ns$|_per_|^(run|place|uri|inode|etag|sha256|time|started|settings_digest)$"
)
_UNSTABLE = re.compile(
    r"\d+(\.\d+)?(e-\d+)? (s|ms|min|calls/s)\b|\d{4}-\d\d-\d\dT[\d:.]+Z|/tmp/tmp\w+|127.0.0.1:\d+"
)


class Bench:
    """A folder in which commands start from the same files each time."""

    def __init__(self, call, judge_server):
        self.call = call
        self.judge = judge_server
        self.folder = Path.cwd()
        rows = list(rollouts())
        ranked = [row | {"policy": "xyzw"[n % 4]} for n, row in enumerate(rows)]
        pairs = [
            {"prompt": f"Q{n}?" + " Long." * 200, "chosen": f"yes {n} " * 3, "rejected": "no"}
            | {"expected_answer": "yes", "rubric": "Says yes."}
            for n in range(4)
        ]
        self.files = {
            "r.jsonl": lines_of(rows) + b"not JSON\n",
            "r.jsonl.gz": gzip.compress(lines_of(rows)),
            "two.jsonl": lines_of(rows[:4]),
            "done.jsonl": lines_of(rows[:12]),
            "folder/f.jsonl": lines_of(rows[4:8]),
            "policies.jsonl": lines_of(ranked[:12]),
            "all.jsonl.gz": gzip.compress(lines_of(ranked) + b"not JSON\n"),
            "pairs.jsonl": lines_of(pairs),
            "pairs.jsonl.gz": gzip.compress(lines_of(pairs) + b"not JSON\n"),
            "e.json": b"not ours",
        }
        self._restore()
        self.call("score", "done.jsonl", *judge_server.flags).ended(0)
        self.files |= {path.name: path.read_bytes() for path in self.folder.glob("done.*")}
        scored = self.files["done.scored.jsonl"] + b"not JSON\n" + lines_of(rows[:1])
        self.files["again.scored.jsonl.gz"] = gzip.compress(scored)

    def _restore(self):
        for folder in (self.folder, self.folder.with_name("work-state")):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        os.chdir(self.folder)
        for name, content in self.files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)

    def observe(self, words, behaviour, flags):
        """Return what a command prints, writes and asks, without what differs from run to run."""
        self._restore()
        self.judge.reset()
        self.judge.behave(**behaviour)
        words = words.replace("URL", self.judge.base_url).split()
        finished = self.call(*words, *flags, stdin=REQUEST)
        stats = self.judge.stats()
        written = {
            str(path.relative_to(self.folder)): stable(path)
            for path in self.folder.rglob("*")
            if path.is_file() and ".sqlite" not in path.name
        }
        return {
            "code": finished.code,
            "printed": [_UNSTABLE.sub("#", each) for each in (finished.out.decode(), finished.err)],
            "written": written,
            "asked": sorted(json.dumps(without(each), sort_keys=True) for each in stats["recent"]),
            "at once": min(2, stats["max_in_flight"]),
        }

    def shows(self, name, words, behaviour):
        """Return whether a setting changes what a run does, beside what it needs."""
        needs = [flag for other, value in beside(name).items() for flag in flags_of(other, value)]
        changed = self.observe(words, behaviour, [*needs, *flags_of(name, VALUES[name])])
        # Twice, for what nobody knew to differ from run to run.
        return all(self.observe(words, behaviour, needs) != changed for _ in range(2))


def flags_of(name, value):
    """Return the flags that give a setting a value."""
    setting = SETTINGS[name]
    switches = {"true": [setting.flag], "false": [setting.negative]}
    return switches.get(value, [setting.flag, value])


def without(value):
    """Return a JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if not _UNSTABLE_KEY.search(key)}
    if isinstance(value, list):
        return [without(each) for each in value]
    return _UNSTABLE.sub("#", value) if isinstance(value, str) else value


def stable(path):
    """Return what a file holds, without what differs from run to run."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    try:
        return [without(json.loads(line)) for line in content.splitlines()]
    except ValueError:
        return _UNSTABLE.sub("#", content.decode())


@pytest.fixture
def bench(call, judge_server, monkeypatch):
    """Give a test a bench; no S3 answers, and each command has something to warn of."""
    for name in ("ANOTHER_KEY", "GENRM_MISSPELT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "k")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return Bench(call, judge_server)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", RUNS)
def test_each_setting_shows(command, bench):
    """In one of the runs of a command, each setting that it uses changes what the command prints,
    writes or asks, or is refused.
    """
    left = uses(command)
    for run in RUNS[command]:
        left = {name for name in left if not bench.shows(name, *run)}
    assert sorted(left) == []


@pytest.mark.parametrize("name", ["ring_k", "repeats"])
def test_a_setting_shows_before_any_call(name, bench):
    """A sample of the slow test, for the fast run."""
    assert bench.shows(name, "validate two.jsonl --json --group-by prompt", {})
