import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.jobs.due.inputs import OutputPlaces, is_one_input, iter_tasks, output_places
from genrm_cli.settings import Settings, settings_from
from genrm_cli.storage.location import is_rollout_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give a test an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder, *names):
    """Make empty files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def tasks_of(*inputs, **given_settings):
    """Return what a command line means."""
    return list(iter_tasks(inputs, settings_from(**given_settings)))


def test_one_file_keeps_its_freedom(folder):
    """The only input may have any output: -o, a template without {stem}, or a name like an
    input's.
    """
    make(folder, "a.jsonl")
    assert is_one_input(["a.jsonl"])
    assert tasks_of("a.jsonl", output="b.jsonl")[0].places.scored == "b.jsonl"
    assert tasks_of("a.jsonl", output_template="{dir}/all.jsonl")[0].places.scored == "all.jsonl"
    with pytest.raises(UsageError, match="is the input"):
        tasks_of("a.jsonl", output_template="{dir}/{stem}.jsonl")


@pytest.mark.parametrize(
    "inputs",
    [
        ["a", "b"],
        ["s3://b/rl/"],
        ["s3://b/rl/*.jsonl"],
        ["*.jsonl"],
        ["."],
        ["s3://b"],
    ],
)
def test_what_may_name_many_is_not_one_input(folder, inputs):
    """Several words, a folder, a prefix, a pattern: each is a run of many files, even when it finds
    one.
    """
    del folder
    assert not is_one_input(inputs)


def test_the_command_line_is_refused_before_it_is_looked_at(folder):
    """What cannot work for several inputs is found out before the first of them is given to
    anyone.
    """
    make(folder, "a.jsonl", "b.jsonl")
    for inputs, settings in [
        (["a.jsonl", "-"], Settings()),
        (["a.jsonl", "b.jsonl"], settings_from(output="c.jsonl")),
        (["a.jsonl", "b.jsonl"], settings_from(output_template="-")),
        (["a.jsonl", "b.jsonl"], settings_from(output_template="{stem}/{key}.scored.jsonl")),
        (["."], settings_from(output_template="{dir}/{stem}.jsonl")),
    ]:
        with pytest.raises(UsageError):
            next(iter_tasks(inputs, settings))


@given(
    st.text(st.sampled_from("ab./{}-_"), max_size=8),
    st.sampled_from([".jsonl", ".scored.jsonl", ".ndjson.gz", ""]),
)
def test_an_output_of_many_is_never_an_input(middle, suffix):
    """Whatever template is let through, no output of it, nor a file beside it, is found as rollouts
    later.
    """
    template = f"{{dir}}/{{stem}}{middle}{suffix}"
    try:
        (first, second) = iter_tasks(
            ["x/one.jsonl", "x/two.jsonl.gz"], settings_from(output_template=template)
        )
    except UsageError:
        return
    for task in (first, second):
        if task.problem is None:
            assert not any(
                is_rollout_file(place) for place in (task.places.scored, *task.places.sides())
            )


def test_a_file_is_one_task_however_it_is_spelled(folder):
    """Relative, absolute, doubled slashes, through a linked folder: the first spelling counts."""
    make(folder, "runs/a.jsonl")
    (folder / "link").symlink_to("runs")
    inputs = (
        "runs/a.jsonl",
        "./runs/a.jsonl",
        str(folder / "runs"),
        "runs//*.jsonl",
        "link/a.jsonl",
        "runs/",
    )
    assert [task.uri for task in tasks_of(*inputs)] == ["runs/a.jsonl"]


def test_one_place_for_two_inputs_is_a_problem_of_the_second(folder):
    """It names the output and a remedy; {path} or {dir} in the template is one."""
    make(folder, "x/run.jsonl", "y/run.jsonl", "y/other.jsonl")
    tasks = tasks_of(".", output_template="out/{stem}.scored.jsonl")
    assert [task.uri for task in tasks if task.problem is None] == ["x/run.jsonl", "y/other.jsonl"]
    (problem,) = [task.problem for task in tasks if task.problem is not None]
    assert str(problem).startswith(
        "y/run.jsonl: another input has the same output out/run.scored.jsonl"
    )
    apart = tasks_of(".", output_template="out/{path}/{stem}.scored.jsonl")
    assert [task.places.scored for task in apart] == [
        "out/x/run.scored.jsonl",
        "out/y/other.scored.jsonl",
        "out/y/run.scored.jsonl",
    ]
    assert all(task.problem is None for task in apart)


def test_what_cannot_be_listed_is_one_task_with_a_problem(folder, s3_bucket):
    """A missing folder, a bucket that is not there and a key outside rl/ do not keep the others
    from being found.
    """
    make(folder, "a/run.jsonl", "b/run.jsonl")
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="sft/run.jsonl", Body=b"{}")
    inputs = (
        "a",
        "gone/",
        "s3://no-such-bucket/rl/",
        f"s3://{s3_bucket.name}/sft/",
        "https://host/x.jsonl",
        "b",
    )
    tasks = tasks_of(*inputs)
    kinds = [
        None,
        InputError,
        StorageError,
        UsageError,
        UsageError,
        None,
    ]
    assert [None if task.problem is None else type(task.problem) for task in tasks] == kinds
    assert tasks[1].uri == "gone/"
    assert tasks[3].uri == f"s3://{s3_bucket.name}/sft/run.jsonl"


@pytest.mark.parametrize("name", ["b.parquet", "b.CSV", "b.tsv.gz", "b.eval", "b.jsonl.bz2"])
def test_an_output_is_named_like_what_is_written(name):
    """A name that promises another format than JSON lines is refused with the names that work."""
    with pytest.raises(UsageError, match=r"b\..*name the output \.jsonl, \.jsonl\.gz or"):
        output_places("a.parquet", settings_from(output=name))
    with pytest.raises(UsageError, match="only JSON"):
        output_places("a.parquet", settings_from(output_template="{dir}/{stem}" + name))


def test_only_the_outputs_of_a_place_have_sides(folder):
    """Beside a stream or a device there is no place; beside a file all four carry its stem."""
    make(folder, "a.jsonl")
    assert output_places("-", Settings()) == OutputPlaces("-")
    assert output_places("a.jsonl", settings_from(output=os.devnull)) == OutputPlaces(os.devnull)
    places = output_places(
        "a.jsonl", settings_from(output_template="{dir}/{stem}.scored.jsonl.zst")
    )
    assert places.sides() == ["a.comparisons.jsonl", "a.rejects.jsonl", "a.metrics.json"]
