"""The files that the real trackers write, read back; `make test-slow` installs their libraries."""

import json
import math

import pytest
from genrm_process import Finished, make_rollouts
from served import judge_flags, serving, texts

from genrm_cli.groups.compile import compile_plan
from genrm_cli.metrics.event import Event
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.tracking.log_run import RunLog, load_trackers, tracked_run
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.settings import settings_from

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
KEY = "sk-local-0123456789abcdef"


def score_two_files(genrm, judge_server, *flags, **environment):
    """Score two files with a judge that requires a key, and return the sum of their metrics."""
    judge_server.behave(require_key=KEY)
    for name in ("a.jsonl", "b.jsonl"):
        genrm.write(name, make_rollouts())
    judge = (
        "--base-url",
        judge_server.base_url,
        "--model",
        "my-genrm",
    )
    finished = _run_without_errors_for_warnings(
        genrm, "score", "a.jsonl", "b.jsonl", *judge, *flags, GENRM_API_KEY=KEY, **environment
    )
    assert finished.code == 0, finished.err
    assert finished.out == b"", finished.err
    metrics = [json.loads((genrm.folder / f"{name}.metrics.json").read_bytes()) for name in "ab"]
    assert all(
        KEY.encode() not in path.read_bytes() for path in genrm.folder.rglob("*") if path.is_file()
    )
    return {
        "rollouts": sum(each["rollouts"] for each in metrics),
        "calls": sum(each["calls"] for each in metrics),
        "reward/count": sum(each["reward"]["count"] for each in metrics),
        "prompt_tokens": sum(each["prompt_tokens"] for each in metrics),
    }


def _run_without_errors_for_warnings(genrm, *arguments, **environment):
    """Run the command; warnings of the trackers' libraries are not ours."""
    process = genrm.start(*arguments, PYTHONWARNINGS="ignore", **environment)
    out, err = process.communicate(timeout=120)
    return Finished(process.returncode, out, err.decode())


def test_mlflow_has_one_run_with_the_totals(genrm, judge_server):
    """Both inputs are one run of the experiment, with numbers, parameters, and no key."""
    pytest.importorskip("mlflow")
    store = genrm.folder / "store"
    places = {
        "MLFLOW_TRACKING_URI": store.as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    totals = score_two_files(genrm, judge_server, "--mlflow", "rewards", **places)
    [run] = [path.parent for path in store.glob("*/*/params")]
    logged = {name: float((run / "metrics" / name).read_text().split()[1]) for name in totals}
    assert logged == totals
    params = {path.name: path.read_text() for path in (run / "params").iterdir()}
    assert params["judge"] == "my-genrm"
    assert params["strategy"] == "ring"
    assert params["estimator"] == "adaptive"
    assert (run / "tags" / "mlflow.runName").read_text() == "a and 1 more"


def test_tensorboard_has_one_folder_for_each_run(genrm, judge_server):
    """A second run gets a folder of its own, and each holds the totals."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    totals = score_two_files(genrm, judge_server, "--tensorboard", "boards/")
    score_two_files(genrm, judge_server, "--tensorboard", "boards/", "--force")
    folders = sorted((genrm.folder / "boards").iterdir())
    assert [folder.name.split("-")[0] for folder in folders] == ["a and 1 more"] * 2
    assert _read_scalars(accumulator, folders[0], totals) == totals


def _read_scalars(accumulator, folder, names):
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return {name: events.Tensors(name)[0].tensor_proto.float_val[0] for name in names}


def test_wandb_has_one_offline_run_with_the_totals(genrm, judge_server):
    """The offline file holds the run with its project, name, numbers and parameters, and no key."""
    pytest.importorskip("wandb")
    totals = score_two_files(genrm, judge_server, "--wandb", "rewards", WANDB_MODE="offline")
    [path] = genrm.folder.glob("wandb/offline-run-*/run-*.wandb")
    data = path.read_bytes()
    assert {name: _logged_by_wandb(data, name) for name in totals} == totals
    assert all(
        word in data
        for word in (
            b"rewards",
            b"a and 1 more",
            b"settings_digest",
            b"my-genrm",
        )
    )


def _logged_by_wandb(data, name):
    """Return a number of an offline file, which is protobuf: the field of its JSON follows that of
    its name.
    """
    mark = bytes([len(name)]) + name.encode() + b"\x82\x01"
    size, *value = data[data.index(mark) + len(mark) :]
    return float(bytes(value[:size]))


ODD = (
    "\0",
    "\x1b[31m",
    "\ud800",
    "\u202e",
    "\r\n",
    "|",
    "<script>",
    "=cmd()",
    "..",
    "é" * 5_000,
    "",
)


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_odd_texts_and_numbers_fail_no_tracker(tmp_path, monkeypatch, name):
    """Control characters, lone surrogates, markup, formulas, long texts and numbers that are not
    finite: each step is taken without a warning.
    """
    pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    settings = settings_from(judge="lexical", **{name: "boards"})
    totals = run_totals(settings, RunMetrics(), compile_plan(settings), (), 1.0)
    odd_numbers = {"a": math.nan, "b": math.inf, "c": -1e30}
    events: list[Event] = []
    log = RunLog(load_trackers(settings.tracking), events.append)
    for step in range(2):
        log.log(tracked_run("".join(ODD), totals, settings, step, odd_numbers))
    log.close(60)
    assert events == []


def test_every_tracker_has_the_steps_of_a_server(genrm, judge_server):
    """Three steps of one run each, with the same numbers; the server exits with 0, and says nothing
    about it.
    """
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    store = genrm.folder / "store"
    flags = (
        "--groups-per-step",
        2,
        "--wandb",
        "rl",
        "--mlflow",
        "rl",
        "--tensorboard",
        "tb",
    )
    modes = {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": store.as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    with serving(
        genrm, *judge_flags(judge_server.base_url), *flags, PYTHONWARNINGS="ignore", **modes
    ) as served:
        for number in range(5):
            served.group(
                id=f"g{number}",
                messages="Why?",
                responses=[{"text": t} for t in texts(2, f"g{number}")],
            )
        assert served.terminate() == 0
    assert not [line for line in served.messages if "warning" in line]
    [run] = [path.parent for path in store.glob("*/*/params")]
    (folder,) = (genrm.folder / "tb").iterdir()
    (path,) = genrm.folder.glob("wandb/offline-run-*/run-*.wandb")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    shown = [path.name for path in (run / "metrics" / "latency").iterdir()]
    assert sorted(shown) == ["mean_s", "p99_s"]
    for name in (
        "groups",
        "calls",
        "reward/std",
        "latency/mean_s",
        "latency/p99_s",
    ):
        rows = [line.split() for line in (run / "metrics" / name).read_text().splitlines()]
        assert [int(row[2]) for row in rows] == [1, 2, 3]
        in_board = [(each.step, each.tensor_proto.float_val[0]) for each in events.Tensors(name)]
        assert in_board == [(int(row[2]), pytest.approx(float(row[1]), rel=1e-6)) for row in rows]
        assert name.encode() in path.read_bytes()
    assert [
        float(line.split()[1]) for line in (run / "metrics" / "groups").read_text().splitlines()
    ] == [2, 2, 1]
