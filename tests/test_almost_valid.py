"""Whatever others write where genrm reads, it is used, left out or refused with a reason.

Any other error than genrm's own would be a traceback. `GENRM_FUZZ_BYTES=1000000 pytest -m slow -n 0
tests/test_almost_valid.py` tries a million documents in each place."""

import asyncio
import contextlib
import copy
import io
import json
import math
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from almost_json import Mangler
from genrm_here import call_here
from genrm_process import PACKAGE_ROOT

from genrm_cli.errors import GenrmError, InputError, JudgeError
from genrm_cli.groups.compile import compile_plan
from genrm_cli.jobs.compare_request import parse_request
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.offline.replies import Replies
from genrm_cli.jobs.replica import import_segments
from genrm_cli.judging.client import CallError, JudgeClient
from genrm_cli.judging.completion import parse_completion, parse_models
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import PROFILES, find_rubric_set
from genrm_cli.judging.pacing.policy import CallPolicy
from genrm_cli.judging.profiles.profile import sample_prompt
from genrm_cli.judging.requests import Reply
from genrm_cli.judging.rubrics.criteria import CONSTRAINTS, CRITERIA
from genrm_cli.judging.rubrics.grading import CLUSTERS, grading_profile, ranking_profile
from genrm_cli.judging.rubrics.session_rubrics import session_profile
from genrm_cli.products.batches.batch_api import BatchApi
from genrm_cli.products.batches.file_batch import FileBatch
from genrm_cli.products.evaluation.pair_lines import parse_labelled
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.files import ScoredInput, read_run_record
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.settings import Settings, settings_from
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.encoding.codec import pack
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.leases import take_lease
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

COUNTS = [40, pytest.param(int(os.environ.get("GENRM_FUZZ_BYTES", "2000")), marks=pytest.mark.slow)]
STORE = Store()
KEY = "00" * 32
RUBRICS = find_rubric_set("helpfulness")
SESSIONS = find_rubric_set("session")
JUDGES = [
    *PROFILES.values(),
    *(make(RUBRICS) for make in (grading_profile, ranking_profile)),
    session_profile(SESSIONS),
    *(CLUSTERS, CRITERIA, CONSTRAINTS),
]
DOCUMENTS = json.loads(Path(__file__).with_name("valid_documents.json").read_bytes())
CONSTRAINT = {"index": 0, "evidence": "a", "verdict": "not_touched"}
ANSWERS = [
    *DOCUMENTS["answers"],
    {"scores": {name: {"evidence": "a", "score": 1} for name in RUBRICS.component_names}},
    {
        "turns": [{"index": 0, "evidence": "a", "score": 3}],
        "scores": {name: {"score": 3} for name in SESSIONS.component_names},
        "constraints": [CONSTRAINT],
    },
]
REPLY = DOCUMENTS["reply"]
MODELS = DOCUMENTS["models"]
LINE = {"custom_id": KEY, "response": {"status_code": 200, "body": REPLY}, "error": None}
FAILED_LINE = {"custom_id": KEY, "response": None, "error": {"code": "x", "message": "y"}}
COMPARE_PLANS = [
    compile_plan(settings_from(judge="lexical")),
    compile_plan(settings_from(model="m", base_url=("http://h/v1",), compat="nemo-gym")),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Return a folder with the outputs of a run without a judge."""
    folder = tmp_path_factory.mktemp("run")
    source = PACKAGE_ROOT / "sample_data/rollouts.jsonl"
    output = ("-o", folder / "x.scored.jsonl")
    assert call_here(["score", source, "--offline", "-q", *output], {}).code == 0
    return folder


def completion(raw, folder):
    """Read the body of a judge's reply."""
    del folder
    for parse in (parse_completion, parse_models):
        with contextlib.suppress(ValueError):
            parse(orjson.loads(raw))


def verdict(raw, folder):
    """Read an answer of every kind of judge."""
    del folder
    text = raw.decode("utf-8", "replace")
    tokens = tuple((token, {token: -0.1, "No": -2.0}) for token in text.split())
    for profile in JUDGES:
        prompt = sample_prompt(profile, [("user", "Q?")], "a", "b")
        for said in (text, f"So:\n```json\n{text}\n```", f"Final Judgement: Yes {text}"):
            result = profile.parse_reply(Reply(said, finish_reason="stop", tokens=tokens), prompt)
            if isinstance(result, Grades):
                assert all(map(math.isfinite, result.values))
            elif isinstance(result, Verdict):
                numbers = (result.score_1, result.score_2, result.ranking)
                assert all(map(math.isfinite, numbers))
            else:
                assert isinstance(result, Failure)


def replies(raw, folder):
    """Read a file of replies of which one line is mangled."""
    path = folder / "replies.jsonl"
    good = json.dumps(LINE).encode()
    path.write_bytes(good + b"\n" + raw + b"\n" + good + b"\n")
    with Replies() as read, open_source(str(path), STORE, InputSettings()) as source:
        read.add(source)
        assert sum(1 for _ in read.replies_to(bytes.fromhex(KEY))) >= 2
        read.refused()


def metrics(raw, folder):
    """Read a metrics file."""
    (folder / "x.metrics.json").write_bytes(raw)
    read_run_record(str(folder / "x.metrics.json"), STORE)


def scored_lines(raw, folder):
    """Read scored lines of which one is mangled."""
    lines = (folder / "x.scored.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "y.scored.jsonl").write_bytes(b"".join([*lines[:3], raw + b"\n", *lines[4:6]]))
    read_run(folder / "y.scored.jsonl")


def comparison_lines(raw, folder):
    """Read a run of whose comparisons one is mangled."""
    shutil.copy(folder / "x.scored.jsonl", folder / "z.scored.jsonl")
    (folder / "z.comparisons.jsonl").write_bytes(raw + b"\n")
    read_run(folder / "z.scored.jsonl")


def read_run(path):
    """Read all groups of a run."""
    with ScoredRun(ScoredInput(str(path), (str(path),)), Settings()) as run:
        run.read(STORE)
        for _ in run.iter_groups():
            pass


def journal_entries(raw, folder):
    """Take in a segment of a journal, and read what it brought."""
    segments = folder / "segments"
    segments.mkdir(exist_ok=True)
    (segments / "1.journal.zst").write_bytes(pack(raw))
    for path in folder.glob("taken.sqlite*"):
        path.unlink()
    with Journal(str(folder / "taken.sqlite")) as journal:
        import_segments(f"{segments}/", journal, STORE)
        for entry in list(journal.iter_entries()):
            key = bytes.fromhex(entry["key"])
            journal.recall([key], with_reply=True)
        list(journal.iter_notes())
        journal.find_judge("m")
        journal.mean_tokens()


def labelled_pairs(raw, folder):
    """Read a line of labelled pairs."""
    del folder
    with contextlib.suppress(BadLineError, UnreadableRecordError):
        parse_labelled(parse_record(raw), 1)


def compare_request(raw, folder):
    """Read the body of a request to compare, ours and NeMo Gym's."""
    del folder
    for plan in COMPARE_PLANS:
        with contextlib.suppress(InputError):
            parse_request(raw, "the body", plan)


def batch_state(raw, folder):
    """Read the state of a batch."""
    (folder / "requests.jsonl").touch()
    (folder / "requests.batch.json").write_bytes(raw)
    run = new_run(settings_from(judge="lexical"))

    async def find_batch(name):
        del name

    api = SimpleNamespace(find_batch=find_batch)
    asyncio.run(FileBatch(str(folder / "requests.jsonl"), api, run).resume())


def lease(raw, folder):
    """Find a lease that another run left."""
    (folder / "l.lease-1").write_bytes(raw)
    str(take_lease(str(folder / "l.scored.jsonl"), STORE, 300.0))
    for path in folder.glob("l.lease*"):
        path.unlink()


def entries_of_journal(folder):
    """Return the entries of a journal: a verdict, grades, a failure and a note."""
    outcomes = [
        Outcome(Verdict(4, 2, 2), 1, 0.5, 900, 100, "The first."),
        Outcome(Grades((4.0, 2.5), ("good", "")), 1, 0.5, 900, 100, 0, "4 and 2.5"),
        Outcome(Failure(FailureKind.AMBIGUOUS, "two verdicts", (0,)), 2),
    ]
    with Journal(str(folder / "given.sqlite")) as journal:
        for number, outcome in enumerate(outcomes):
            journal.enter(bytes([number]) * 32, "m", outcome)
        journal.note_judge("m")
        asyncio.run(journal.flush())
        return [*journal.iter_entries(), *journal.iter_notes()]


PLACES = {
    "completion": (completion, [REPLY, MODELS]),
    "verdict": (verdict, ANSWERS),
    "replies": (replies, [LINE, FAILED_LINE]),
    "metrics": (metrics, "x.metrics.json"),
    "scored": (scored_lines, "x.scored.jsonl"),
    "comparisons": (comparison_lines, "x.comparisons.jsonl"),
    "journal": (journal_entries, None),
    "pairs": (labelled_pairs, DOCUMENTS["pairs"]),
    "compare": (compare_request, DOCUMENTS["compare"]),
    "batch state": (batch_state, DOCUMENTS["batch state"]),
    "lease": (lease, DOCUMENTS["lease"]),
}


def documents_of(place, folder):
    """Return valid documents of a place: those given, a journal's entries, or a file's lines."""
    given = PLACES[place][1]
    if given is None:
        return entries_of_journal(folder)
    if isinstance(given, list):
        return given
    content = (folder / given).read_text()
    return list(map(json.loads, [content] if given.endswith(".json") else content.splitlines()))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_almost_valid_is_no_traceback(place, count, run_folder):
    """Documents in each place are read, or refused with an error of ours."""
    mangler = Mangler(place)
    documents = documents_of(place, run_folder)
    for number in range(count):
        raw = mangler.document(documents[number % len(documents)])
        try:
            PLACES[place][0](raw, run_folder)
        except GenrmError:
            pass
        except Exception as error:
            error.add_note(f"{place}, document {number}: {raw[:2000]!r}")
            raise


def test_a_count_that_is_no_number_is_unknown(tmp_path):
    """NaN, which some servers write into their files, costs no reply."""
    line = copy.deepcopy(LINE)
    line["response"]["body"]["usage"]["completion_tokens"] = float("nan")
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with Replies() as read, open_source(str(path), STORE, InputSettings()) as source:
        read.add(source)
        (reply,) = read.replies_to(bytes.fromhex(KEY))
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("ok", 9, None)


HEADS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\nX: \xe4\r\n\r\n",
    b"HTTP/1.1 429 Wait\r\nRetry-After: 5\r\nContent-Length: %d\r\nX-Y: z\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://h/\r\nContent-Length: %d\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX: %d\r\n\r\ndata: ",
)
POLICY = CallPolicy(30, 30, 0, base_s=0.001, cap_s=0.001)


async def answer_all(library, count):
    """Give the replies of a mangled server to calls of a judge, and to those of a batch API."""
    mangler = Mangler(library)
    batch = DOCUMENTS["batch"]
    batches = {"data": [batch, batch], "has_more": True}
    documents = [REPLY, DOCUMENTS["error"], MODELS, batch, batches, LINE]
    sent = b""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, JudgeClient(url, None, 10, 4, http_client=library) as client:
        api = BatchApi(client, "batches", POLICY, 0.0)
        calls = (
            lambda: client.complete(b"{}", 30),
            lambda: client.list_models(30),
            lambda: api.get("batch_1"),
            lambda: api.find_batch("m"),
            lambda: api.create("file-1", "m"),
            lambda: api.upload("requests.jsonl", io.BytesIO(b"{}")),
        )
        for number in range(count):
            body = mangler.document(documents[number % len(documents)])
            head = HEADS[number // len(documents) % len(HEADS)] % len(body)
            sent = (mangler.torn(head) if number % 2 else head) + body
            try:
                await calls[number % len(calls)]()
            except (CallError, JudgeError):
                pass
            except Exception as error:
                error.add_note(f"reply {number}: {sent[:2000]!r}")
                raise


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("library", ["pyreqwest", "httpx"])
def test_what_a_server_almost_says_is_no_traceback(library, count):
    """Torn heads and mangled bodies are replies, or failures of the call."""
    asyncio.run(answer_all(library, count))
