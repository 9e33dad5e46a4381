"""Runs of every command, and a bench on which they begin with the same files each time."""

import gzip
import json
import os
import re
import shutil
import socket
from pathlib import Path

import batch_server
from forked_genrm import ForkedGenrm
from judge_server_fixture import JudgeServer
from server_visitor import ELSEWHERE, IMAGE, visit


def said(*parts, role="assistant"):
    """Return a message of text and images, alone."""
    return [{"role": role, "content": list(parts)}]


def image(url):
    """Return an image of a completion."""
    return {"type": "image_url", "image_url": {"url": url}}


def rollouts():
    """Return rollouts that are read, judged and rewarded in many ways."""
    known = {"expected_answer": "one", "rubric": "Names the number.", "metadata": {"task": "t"}}
    for number in range(3):
        for length in range(1, 5):
            text = " ".join([f"word{number}"] * length**4)
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


# What `compare` reads from stdin.
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
        "metadata": {"task": "t"},
        "rubric": "Names the number.",
    }
).encode()


def lines_of(rows):
    """Return rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


JUDGED = "--base-url URL --model m"
SLOW = {"latency_s": 0.02}
NOISY = {"verdict": "noisy:3"}
REFUSING = {"refuses": "three"}
SILENT = {"fault": [{"content": "I cannot tell."}], "fault_share": 0.4}
DOWN = {"script": [{"status": 503, "headers": {"Retry-After": "0"}}] * 3}
# Each session has a turn of its own; the judge of the tests prefers the longer one.
CHAT = {"script": [{"content": "I see. " * 3**number} for number in range(4)], **SLOW}
SESSION = {"fault": {"content": json.dumps({"score_1": 4, "score_2": 2, "ranking": 2})}}
_PLAY = f"collect samples --episodes 4 --max-turns 1 --scenario exam_stress_001 {JUDGED}"
_CHATTED = "--policy-base-url URL --policy-model p --component win_rate"
_SERVE = f"serve --listen PLACE --no-probe --drain 0.01s {JUDGED}"
# For each command, runs in which its settings show: its words, and how the judge behaves.
RUNS = {
    "validate": [
        ("validate r.jsonl --json", {}),
        ("validate r.jsonl.gz two.jsonl", {}),
        ("validate done.jsonl --model m", {}),
    ],
    "score": [
        (f"score r.jsonl {JUDGED}", {}),
        (f"score r.jsonl.gz two.jsonl {JUDGED}", {}),
        (f"score done.jsonl folder/ --force {JUDGED}", SLOW),
        (f"score r.jsonl --images {JUDGED}", SLOW),
        (f"score r.jsonl --no-probe {JUDGED}", SILENT),
        (f"score r.jsonl --no-probe {JUDGED}", DOWN),
        (f"score r.jsonl -o s3://BUCKET/other/o.jsonl {JUDGED}", {}),
    ],
    "show": [
        ("show r.jsonl --limit 9", {}),
        ("show r.jsonl.gz --images --limit 30", {}),
        ("show r.jsonl.gz --max-model-len 3000 --limit 30", {}),
        ("show done.scored.jsonl", {}),
        ("show two.jsonl done.jsonl --model m", {}),
    ],
    "compare": [
        (f"compare --prompt Q one two {JUDGED}", SLOW),
        (f"compare - {JUDGED}", {}),
        (f"compare - --images {JUDGED}", {}),
        (f"compare - --no-probe {JUDGED}", SILENT),
        (f"compare - --no-probe --compat nemo-gym {JUDGED}", SILENT),
        (f"compare - --no-probe {JUDGED}", DOWN),
        (f"compare --prompt Q one two three --max-extra 0 --no-probe {JUDGED}", REFUSING),
    ],
    "batch": [
        ("batch reqs.jsonl --base-url BATCH", {}),
        ("batch reqs.jsonl more.jsonl --base-url BATCH", {}),
        ("batch reqs.jsonl --base-url BATCH", {"POST /files": [503]}),
        ("batch reqs.jsonl done.jsonl --base-url BATCH", {}),
    ],
    "report": [
        ("report done.scored.jsonl -o e.json", {}),
        ("report done.scored.jsonl again.scored.jsonl.gz", {}),
        ("report odd.scored.jsonl", {}),
        ("report odd.scored.jsonl --response-field completion", {}),
    ],
    "export": [
        ("export done.scored.jsonl --to trl-dpo -o e.json", {}),
        ("export again.scored.jsonl.gz --to trl-dpo -o x.jsonl", {}),
        ("export odd.scored.jsonl --to verl -o x.jsonl", {}),
        ("export odd.scored.jsonl --to verl -o x.jsonl --response-field completion", {}),
        ("export done.scored.jsonl --to verl -o x.jsonl", {}),
        ("export two.scored.jsonl folder/f.scored.jsonl --to trl-dpo -o x.jsonl", {}),
        ("export done.scored.jsonl --to trl-dpo -o s3://BUCKET/other/x.jsonl", {}),
    ],
    "serve": [
        (_SERVE, {"latency_s": 0.11}),  # a new file for each group, with --record-every
        (_SERVE.replace("--no-probe ", ""), {}),
        (f"{_SERVE} --images", {}),
        (f"{_SERVE} --strategy all_pairs --repeats 4", NOISY),
        (f"{_SERVE} --reference remarked.jsonl", {}),
        (_SERVE.replace("PLACE", "PUBLIC"), {}),
        (f"{_SERVE} --record s3://BUCKET/other/", {}),
        (f"{_SERVE} --no-journal", SILENT),
        (f"{_SERVE} --no-journal", DOWN),
        (f"{_SERVE} --max-extra 0", REFUSING),
    ],
    "rank": [
        (f"rank policies.jsonl --policy-field policy {JUDGED}", SLOW),
        (f"rank policies.jsonl --policy-field policy --report e.json {JUDGED}", {}),
        (f"rank all.jsonl.gz --policy-field policy --images {JUDGED}", {}),
        (f"rank all.jsonl.gz --policy-field policy --no-probe {JUDGED}", SILENT),
        (f"rank all.jsonl.gz --policy-field policy --no-probe {JUDGED}", DOWN),
    ],
    "eval": [
        (f"eval pairs.jsonl {JUDGED}", SLOW),
        (f"eval pairs.jsonl -o e.json {JUDGED}", {}),
        (f"eval lists.jsonl --judging listwise {JUDGED}", {}),
        (f"eval pairs.jsonl.gz {JUDGED}", {}),
        (f"eval seen.jsonl {JUDGED}", {}),
        (f"eval seen.jsonl --images {JUDGED}", {}),
        (f"eval pairs.jsonl --no-probe {JUDGED}", DOWN),
        (f"eval pairs.jsonl -o s3://BUCKET/other/o.json {JUDGED}", {}),
    ],
    "collect": [
        (f"{_PLAY} -o c.jsonl --scripted-policy good --variants 2", SESSION | SLOW),
        (f"{_PLAY} -o old.jsonl --scripted-policy good", SESSION),
        (f"{_PLAY} -o c.jsonl {_CHATTED}", {"chat": ["I see."], **SLOW}),
        (f"{_PLAY} -o c.jsonl {_CHATTED} --concurrency 1 --no-probe", CHAT),
        (f"{_PLAY} -o c.jsonl --scripted-policy good --no-probe", DOWN | SESSION),
    ],
    "review": [
        ("review done.scored.jsonl", {}),
        ("review again.scored.jsonl.gz", {}),
        ("review s3://BUCKET/other/done.scored.jsonl --approve * --by me", {}),
    ],
    "init": [
        ("init done.jsonl --base-url URL --force", {}),
        ("init done.jsonl --base-url URL", {}),
    ],
    "config": [("config", {})],
}
# What differs from run to run: times, places, ports, names.
_UNSTABLE_KEY = re.compile(
    r"_s$|_at$|_ns$|_per_"
    r"|^(attempts|run|place|uri|inode|etag|sha256|time|started|settings_digest)$"
)
_UNSTABLE = re.compile(
    r"\d+(\.\d+)?(e-\d+)? (s|ms|min|calls/s)\b|\d{4}-\d\d-\d\dT[\d:.]+Z|127.0.0.1:\d+"
    r"|/tmp/tmp\w+|genrm-[0-9a-f]{32}|\d{8}T\d{6}Z-[0-9a-f]{16}"
)


class Bench:
    """A folder and a bucket in which each run begins with the same files."""

    def __init__(self, call, judge: JudgeServer, bucket):
        self.call = call
        self.judge = judge
        self.bucket = bucket
        self.folder = Path.cwd()
        self.state = self.folder.with_name("work-state")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.place = f"127.0.0.1:{free.getsockname()[1]}"
        self._usual = {}
        self._files = inputs()
        self._restore("")
        fields = "--prompt-field asked --response-field completion"
        for words in ("done.jsonl", f"odd.jsonl {fields}", "two.jsonl folder/ --together"):
            self.call(f"score {words}", *judge.flags).ended(0)
        self.call("score r.jsonl --model m --requests-to reqs.jsonl --max-unscored 1").ended(0)
        self._files |= {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and not path.name.startswith("r.")
        }
        self._files["more.jsonl"] = self._files["reqs.jsonl"].splitlines(keepends=True)[0]
        scored = self._files["done.scored.jsonl"] + b"not JSON\n" + self._files["two.jsonl"]
        self._files["again.scored.jsonl.gz"] = gzip.compress(scored)

    def shows(self, words, behaviour, needs, flags):
        """Return whether flags change what a run does that has those it needs already."""
        run = (words, json.dumps(behaviour), *needs)
        if run not in self._usual:
            self._usual[run] = self._observe(words, behaviour, needs)
            # What differs from run to run would hide that a setting has no effect.
            assert self._observe(words, behaviour, needs) == self._usual[run]
        return self._observe(words, behaviour, [*needs, *flags]) != self._usual[run]

    def _restore(self, command):
        for folder in (self.folder, self.state):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        os.chdir(self.folder)
        for name, content in self._files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        if command == "init":
            (self.folder / "genrm.toml").touch()
        bucket = self.bucket
        for key in self._keys():
            bucket.client.delete_object(Bucket=bucket.name, Key=key)
        if command == "review":
            scored = self._files["done.scored.jsonl"]
            bucket.client.put_object(Bucket=bucket.name, Key="other/done.scored.jsonl", Body=scored)

    def _keys(self):
        listed = self.bucket.client.list_objects_v2(Bucket=self.bucket.name)
        return [each["Key"] for each in listed.get("Contents", ())]

    def _observe(self, words, behaviour, flags):
        """Return what a run prints, writes and asks, without what differs from run to run."""
        command = words.partition(" ")[0]
        self._restore(command)
        self.judge.reset()
        line = " ".join([words, *(flag.replace(" ", "_") for flag in flags)])
        line = line.replace("URL", self.judge.base_url).replace("PLACE", self.place)
        line = line.replace("BUCKET", self.bucket.name)
        line = line.replace("PUBLIC", self.place.replace("127.0.0.1", "0.0.0.0"))
        if command == "batch":
            seen = self._batch(line, behaviour)
        else:
            self.judge.behave(**behaviour)
            seen = self._serve(line) if command == "serve" else self._run(line)
        seen["uploaded"] = sorted(key.rpartition("/")[0] for key in self._keys())
        seen["written"] = sorted(
            (_UNSTABLE.sub("#", path.name), json.dumps(stable(path), sort_keys=True))
            for folder in (self.folder, self.state)
            for path in folder.rglob("*")
            if path.is_file()
        )
        stats = self.judge.stats()
        asked = stats["recent"]
        seen["asked"] = sorted(json.dumps(without(each), sort_keys=True) for each in asked)
        if "latency_s" in behaviour:
            seen["at once"] = min(2, stats["max_in_flight"])
        return seen

    def _run(self, line):
        finished = self.call(line, stdin=REQUEST)
        printed = [_UNSTABLE.sub("#", each) for each in (finished.out.decode(), finished.err)]
        return {"code": finished.code, "printed": printed}

    def _batch(self, line, faults):
        """Run `batch` against an API that first answers these statuses, by route."""
        with batch_server.serving(
            faults={name: list(each) for name, each in faults.items()}
        ) as api:
            seen = self._run(line.replace("BATCH", api.url))
            return {**seen, "calls": dict(api.calls), "heads": sorted(api.heads)}

    def _serve(self, line):
        """Serve, send requests, and end the server."""
        environment = {**os.environ, "XDG_STATE_HOME": str(self.state)}
        server = ForkedGenrm(line.split(), self.folder, environment)
        try:
            replies = visit(self.place, server, is_patient="--no-journal" in line)
            if server.returncode is None:
                server.terminate()
            _, printed = server.communicate(20)
        finally:
            if server.returncode is None:
                server.kill()
        said = _UNSTABLE.sub("#", printed.decode())
        return {"code": server.returncode, "printed": said, "replies": without(replies)}


def inputs():
    """Return the files that runs begin with."""
    rows = list(rollouts())
    ranked = [row | {"policy": "xyzw"[number % 4]} for number, row in enumerate(rows)]
    of_pairs = {"rejected": "no", "metadata": {"task": "t"}, "rubric": "Says yes."}
    pairs = [
        {"prompt": f"Q{number}?" + " Long." * 200, "chosen": f"yes {number} " * 3, **of_pairs}
        for number in range(4)
    ]
    lists = [
        {"prompt": f"Q{number}?", "chosen": "yes " * 9, "rejected": ["no", "yes", "yes yes"]}
        for number in range(3)
    ]
    seen = [
        {"prompt": said(image(url), role="user"), "chosen": "yes " * 9, "rejected": "no"}
        for url in (IMAGE, ELSEWHERE)
    ]
    odd = [{"asked": "Q?", "completion": text, "remark": "A remark."} for text in ("a", "b c")]
    return {
        "r.jsonl": lines_of(rows) + b"not JSON\n",
        "r.jsonl.gz": gzip.compress(lines_of(rows)),
        "two.jsonl": lines_of(rows[:4]),
        "done.jsonl": lines_of(rows[:12]),
        "odd.jsonl": lines_of(odd),
        "folder/f.jsonl": lines_of(rows[4:8]),
        "policies.jsonl": lines_of(ranked[:12]),
        "all.jsonl.gz": gzip.compress(lines_of(ranked) + b"not JSON\n"),
        "pairs.jsonl": lines_of(pairs),
        "pairs.jsonl.gz": gzip.compress(lines_of(pairs) + b"not JSON\n"),
        "lists.jsonl": lines_of(lists),
        "seen.jsonl": lines_of(seen),
        "answers.jsonl": lines_of([{"prompt": "Why?", "answer": "Because."}]),
        "remarked.jsonl": lines_of(
            [{"prompt": "Why?", "completion": "Because.", "remark": "I liked it a lot."}]
        ),
        # Outputs that are in the way.
        "e.json": b"not ours",
        "old.jsonl": b"{}\n",
        "replies-more.jsonl": b"{}\n",
    }


def without(value):
    """Return a JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if not _UNSTABLE_KEY.search(key)}
    if isinstance(value, list):
        return [without(each) for each in value]
    return _UNSTABLE.sub("#", value) if isinstance(value, str) else value


def stable(path):
    """Return what a file holds, without what differs from run to run."""
    if ".sqlite" in path.name:
        return "a journal"
    if ".tfevents." in path.name:
        return "events of TensorBoard"
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    lines = content.splitlines() if path.suffix == ".jsonl" else [content]
    try:
        return [without(json.loads(line)) for line in lines]
    except ValueError:
        return _UNSTABLE.sub("#", content.decode())
