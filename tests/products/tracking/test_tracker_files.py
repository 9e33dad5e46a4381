"""The files that the real trackers write, read back; `make test-slow` installs their libraries."""

import math

import pytest
from genrm_process import make_rollouts

from genrm_cli.groups.compile import compile_plan
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.tracking.log_run import RunLog, load_trackers, tracked_run
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.settings import settings_from

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NAMES = ["wandb", "mlflow", "tensorboard"]
KEY = "sk-local-0123456789abcdef"


def offline_in(folder):
    """Return the variables that keep trackers in a folder."""
    store = (folder / "store").as_uri()
    return {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": store,
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }


def read_mlflow(folder):
    """Return the folder of the only run of MLflow, and what it logged: name → [(value, step)]."""
    [run] = [path.parent for path in (folder / "store").glob("*/*/params")]
    logged = {}
    for path in (run / "metrics").rglob("*"):
        if path.is_file():
            lines = [line.split() for line in path.read_text().splitlines()]
            name = str(path.relative_to(run / "metrics"))
            logged[name] = [(float(value), int(step)) for _, value, step in lines]
    return run, logged


def read_tensorboard(folder):
    """Return what a run of TensorBoard logged: name → [(value, step)]."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: [(each.tensor_proto.float_val[0], each.step) for each in events.Tensors(name)]
        for name in events.Tags()["tensors"]
    }


def logged_by_wandb(data, name):
    """Return a number of an offline file, which is protobuf: the field of its JSON follows that of
    its name.
    """
    mark = bytes([len(name)]) + name.encode() + b"\x82\x01"
    size, *value = data[data.index(mark) + len(mark) :]
    return float(bytes(value[:size]))


def test_every_tracker_has_one_run_with_the_totals(genrm, judge_server):
    """Both inputs are one run of each, with numbers, parameters, its name, and no key."""
    for name in NAMES:
        pytest.importorskip(name)
    judge_server.behave(require_key=KEY)
    for name in ("a.jsonl", "b.jsonl"):
        genrm.write(name, make_rollouts())
    judge = ("--base-url", judge_server.base_url, "--model", "my-genrm")
    flags = [word for name in NAMES for word in (f"--{name}", "boards")]
    # Warnings of their libraries are not ours.
    own = {"GENRM_API_KEY": KEY, "PYTHONWARNINGS": "ignore", **offline_in(genrm.folder)}
    scored = genrm.start("score", "a.jsonl", "b.jsonl", *judge, *flags, **own)
    out, err = scored.communicate(timeout=120)
    assert (scored.returncode, out) == (0, b""), err
    files = [path for path in genrm.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    both = [genrm.metrics(name) for name in "ab"]
    names = ("rollouts", "calls", "prompt_tokens")
    totals = {name: sum(each[name] for each in both) for name in names}
    totals["reward/count"] = sum(each["reward"]["count"] for each in both)

    run, logged = read_mlflow(genrm.folder)
    assert {name: logged[name][0][0] for name in totals} == totals
    params = {path.name: path.read_text() for path in (run / "params").iterdir()}
    named = (params["judge"], params["strategy"], params["estimator"])
    assert named == ("my-genrm", "ring", "adaptive")
    assert (run / "tags" / "mlflow.runName").read_text() == "a and 1 more"

    [board] = (genrm.folder / "boards").iterdir()
    assert board.name.startswith("a and 1 more-")
    logged = read_tensorboard(board)
    assert {name: logged[name][0][0] for name in totals} == totals

    [path] = genrm.folder.glob("wandb/offline-run-*/run-*.wandb")
    data = path.read_bytes()
    assert {name: logged_by_wandb(data, name) for name in totals} == totals
    words = (b"boards", b"a and 1 more", b"settings_digest", b"my-genrm")
    assert all(word in data for word in words)


ODD = "\0 \x1b[31m \ud800 \u202e \r\n | <script> =cmd() .. " + "é" * 5_000


@pytest.mark.parametrize("name", NAMES)
def test_odd_texts_and_numbers_fail_no_tracker(tmp_path, monkeypatch, name):
    """Control characters, lone surrogates, markup, formulas, long texts and numbers that are not
    finite: each step is taken without a warning.
    """
    pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    for variable, value in offline_in(tmp_path).items():
        monkeypatch.setenv(variable, value)
    settings = settings_from(judge="lexical", **{name: "boards"})
    totals = run_totals(settings, RunMetrics(calls=3), compile_plan(settings), (), 1.0)
    odd_numbers = {"a": math.nan, "b": math.inf, "c": -1e30}
    events = []
    log = RunLog(load_trackers(settings.tracking), events.append)
    for step in range(2):
        log.log(tracked_run(ODD, totals, settings, step, odd_numbers))
    log.close(60)
    assert events == []
    if name == "mlflow":
        assert read_mlflow(tmp_path)[1]["calls"] == [(3, 0), (3, 1)]
    if name == "tensorboard":
        [board] = (tmp_path / "boards").iterdir()
        assert read_tensorboard(board)["calls"] == [(3, 0), (3, 1)]
