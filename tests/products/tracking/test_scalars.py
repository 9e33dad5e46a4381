"""What trackers are told about a run."""

import math

import pytest
from msgspec.structs import replace

from genrm_cli.groups.compile import compile_plan
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.tracking.log_run import run_name, tracked_run
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.settings import settings_from
from genrm_cli.settings.table import digest_of

SETTINGS = settings_from(judge="lexical", price_in=2.0, price_out=10.0)


@pytest.fixture(scope="module")
def tracked():
    """Return what trackers are told about a run that made two calls, one of which failed."""
    metrics = RunMetrics(calls=2, prompt_tokens=1_000_000, completion_tokens=100_000)
    metrics.failures_by_kind["timeout"] = 1
    totals = run_totals(SETTINGS, metrics, compile_plan(SETTINGS), (), 4.0)
    return tracked_run("x", totals, SETTINGS)


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        (("a/b/run.jsonl.gz",), "run"),
        (("s3://bucket/rl/env/",), "env"),
        (("-",), "stdin"),
        (("a/one.jsonl", "two.jsonl", "three.jsonl"), "one and 2 more"),
    ],
)
def test_a_run_is_named_after_its_input(inputs, name):
    """The name is that of the file or folder, without its place and suffixes."""
    assert run_name(inputs) == name


def test_the_numbers_are_finite_and_what_was_not_measured_is_left_out(tracked):
    """Counts, failures by kind and the cost are there; the mean of no reward is not."""
    scalars = tracked.scalars
    assert all(isinstance(value, float) and math.isfinite(value) for value in scalars.values())
    named = [scalars[name] for name in ("calls", "failures_by_kind/timeout", "cost")]
    assert named == [2.0, 1.0, 3.0]
    assert "reward/mean" not in scalars


def test_the_parameters_identify_how_rewards_were_made(tracked):
    """They name the plan and the digest of the settings, and leave out what the run has not."""
    params = tracked.params
    named = (params["strategy"], params["estimator"], params["settings_digest"])
    assert named == ("ring", "adaptive", digest_of(SETTINGS))
    assert None not in params.values()


def test_every_text_can_be_encoded_and_the_name_be_a_folder():
    """Lone surrogates of a model's name are written as escapes, and a long name is
    cut, so that no text costs the numbers of its step.
    """
    totals = run_totals(SETTINGS, RunMetrics(), compile_plan(SETTINGS), (), 4.0)
    totals = replace(totals, judge=replace(totals.judge, name="a\ud800b"))
    run = tracked_run("a\0\n\udfff" + "é" * 300, totals, SETTINGS)
    assert run.params["judge"] == "a\\ud800b"
    assert run.name.startswith("a___é")
    assert len(run.name.encode()) <= 200
