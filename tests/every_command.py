"""Runs of every command, and a bench on which they begin with the same files each time."""

import gzip
import json
import os
import re
import shutil
import socket
import tomllib
from collections import ChainMap
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


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def words_of(run):
    """Return the words of a run, written out."""
    words = TABLE["words"]
    return run[0].format(**words).format(**words)


def behaviour_of(run):
    """Return how the judge behaves in a run."""
    return dict(ChainMap(*(TABLE["behaviours"][name] for name in run[1:])))


RUNS = {
    command: [(words_of(run), behaviour_of(run)) for run in runs]
    for command, runs in TABLE["runs"].items()
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
