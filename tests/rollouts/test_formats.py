"""The table of formats: recognition, force, annotation, and nothing but one error for any JSON
object.
"""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rollouts import formats
from genrm_cli.rollouts.formats import FORMATS, Score, recognise
from genrm_cli.rollouts.group_keys import group_key, value_at
from genrm_cli.rollouts.grouping import GroupTable, Place
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.rollouts.views import view_group

EXAMPLES = json.loads(Path(formats.__file__).with_name("examples.json").read_bytes())
SAMPLES = Path(__file__).parents[2] / "sample_data"
# One record of each format with most of what it can hold; those of single writers are samples.
VALID = json.loads(Path(__file__).with_name("valid_records.json").read_bytes())
WRITERS = [
    json.loads(line)
    for line in (SAMPLES / "writers.jsonl").read_text(encoding="utf-8").splitlines()
]
VALID = {recognise(record).name: record for record in WRITERS} | VALID


def follow(format_, record):
    """Read a record, name its group, show it and annotate it: if reading works, all must."""
    rollouts = FORMATS[format_].read(record)
    assert rollouts
    table = GroupTable()
    for position, rollout in enumerate(rollouts):
        table.append(
            group_key(rollout, 1, value_at(record, "prompt.0")), rollout, Place(1, position)
        )
    for rows in table.iter_groups():
        table.mixed(rows)
    answered = [rollout for rollout in rollouts if rollout.answer is not None]
    if answered:
        assert all(isinstance(text, str) for text in view_group(answered).responses)
    for position in range(len(rollouts)):
        assert isinstance(FORMATS[format_].own_record(record, position), dict)
    before = copy.deepcopy(record)
    FORMATS[format_].annotate(record, [Score(1.5, {"status": "scored"}) for _ in rollouts])
    assert_nothing_lost(before, record)
    return rollouts


def assert_nothing_lost(before, after):
    """Every field is still there; what has another value now is kept somewhere under `genrm`, or is
    a reward.
    """
    kept = json.dumps(genrm_of(after), default=str, sort_keys=True)
    for path, value in leaves_of(before):
        if value_of(after, path) != value:
            assert json.dumps(value, default=str) in kept, path


def genrm_of(record):
    """Return all objects under a key `genrm`, wherever they stand."""
    return [value_of(record, path) for path in paths_of(record) if path[-1] == "genrm"]


def leaves_of(value):
    """Return the path and the value of everything that is neither object nor list."""
    found = [(path, value_of(value, path)) for path in paths_of(value)]
    return [(path, leaf) for path, leaf in found if not isinstance(leaf, dict | list)]


def value_of(value, path):
    """Return the value at a path; a mark of its own where nothing is."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return "(lost)"
    return value


def test_the_example_of_a_format_is_one():
    """Each example is recognised as its format, and read."""
    assert EXAMPLES.keys() == FORMATS.keys()
    for name, example in EXAMPLES.items():
        assert recognise(example) is FORMATS[name]
        assert all(rollout.answer for rollout in follow(name, copy.deepcopy(example)))


def test_every_format_has_a_valid_record_here():
    """A new format brings its record to this file, and so to the tests below."""
    assert set(VALID) == set(FORMATS)


def test_each_shape_is_recognised():
    """A record is recognised as the format it is written in, and read by it."""
    for name in VALID:
        record = copy.deepcopy(VALID[name])
        assert recognise(record).name == name
        assert follow(name, record)


def test_the_more_particular_shape_goes_first():
    """A record with the keys of several formats is read as the most particular of them."""
    cases = [
        ({"responses_create_params": {}}, "nemo_gym"),
        (
            {
                "conversation_history": [],
                "response_objs": [],
            },
            "compare",
        ),
        ({"scenario": {"scenario_id": "s"}}, "episode"),
        ({}, "completion"),
    ]
    for more, name in cases:
        assert (
            recognise(
                {
                    "prompt": "Why?",
                    "completion": "Because.",
                    "messages": [],
                }
                | more
            ).name
            == name
        )


def test_the_sample_files_are_recognised_as_what_they_are():
    """Every line of the shipped samples is read, and the samples hold every format."""
    seen = set()
    for name in (
        "rollouts.jsonl",
        "episodes.jsonl",
        "other-formats.jsonl",
        "writers.jsonl",
    ):
        for line in (SAMPLES / name).read_text(encoding="utf-8").strip().split("\n"):
            record = json.loads(line)
            format_ = recognise(record)
            assert format_.read(record)
            seen.add(format_.name)
    request = json.loads((SAMPLES / "compare-request.json").read_text(encoding="utf-8"))
    assert seen | {recognise(request).name} == set(FORMATS)


def test_a_forced_format_refuses_a_line_that_does_not_fit():
    """`--format` on other lines makes them unreadable; it does not end in a bug."""
    cases = [
        {},
        {"text": "x"},
        {
            "messages": None,
            "prompt": 5,
            "response_objs": {},
        },
    ]
    for forced in FORMATS:
        for record in cases:
            with pytest.raises(UnreadableRecordError):
                FORMATS[forced].read(dict(record))


def test_a_forced_format_reads_a_line_that_another_would_take():
    """An episode can be read as a chat: its last assistant turn is judged then."""
    episode = copy.deepcopy(VALID["episode"])
    (rollout,) = FORMATS["chat"].read(episode | {"messages": episode["messages"][:-1]})
    assert rollout.session is None
    assert rollout.answer == "Because."


def test_annotating_a_line_keeps_all_it_carried():
    """`reward` is the number, the old one and every other field are kept, the order of the keys
    too.
    """
    for name in ["nemo_gym", "completion", "chat"]:
        record = copy.deepcopy(VALID[name]) | {
            "mask_sample": True,
            "reward": {"nested": [1, 2.5]},
            "note": "ä\u2028",
        }
        before = copy.deepcopy(record)
        FORMATS[name].annotate(record, [Score(4.25, {"status": "scored", "rank": 1})])
        assert record == before | {
            "reward": 4.25,
            "genrm": {
                "status": "scored",
                "rank": 1,
                "previous_reward": {"nested": [1, 2.5]},
            },
        }
        assert list(record) == [*before, "genrm"]


def test_an_unscored_rollout_has_a_null_reward():
    """A failure is no number: the reward is null, and the detail says why."""
    for name in VALID:
        record = copy.deepcopy(VALID[name])
        count = len(FORMATS[name].read(record))
        FORMATS[name].annotate(record, [Score(12345.0, {})] * count)
        FORMATS[name].annotate(record, [Score(None, {"reason": "why"})] * count)
        assert json.dumps(genrm_of(record)).count("why") >= count
        rewards = [value for path, value in leaves_of(record) if "genrm" not in path[:-1]]
        assert 12345.0 not in rewards


def test_scoring_twice_keeps_the_first_result():
    """What an earlier run left under `genrm` is not lost."""
    for name in VALID:
        record = copy.deepcopy(VALID[name])
        count = len(FORMATS[name].read(record))
        FORMATS[name].annotate(record, [Score(1.0, {"first": True})] * count)
        FORMATS[name].annotate(record, [Score(2.0, {})] * count)
        assert json.dumps(genrm_of(record)).count("first") >= count


# Anything

FIELDS = (
    "prompt input completion response output messages responses completions conversation_history "
    "response_objs responses_create_params instructions role content type text refusal summary "
    "tool_calls "
    "function name arguments reasoning reasoning_content scenario scenario_id example_id prompt_id "
    "_ng_task_index _ng_rollout_index episode_index principle reward rewards components genrm "
    "choices outputs "
    "samples eval epoch id traces nodes parent sampled trajectories steps turns conversations "
    "from value resps "
    "arguments doc_id prompts question answer instruction scores custom_id body finish_reason "
    "mask_sample error"
)
KEYS = st.sampled_from(FIELDS.split()) | st.text(max_size=3)
WORDS = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "message",
        "reasoning",
        "function_call",
        "<think>",
        "",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | WORDS
    | st.text(max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def paths_of(value, path=()):
    """Yield the path of everything within a JSON value."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in pairs:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


@st.composite
def mutants(draw, name):
    """Draw a valid record in which a few places hold something else, or nothing."""
    record = copy.deepcopy(VALID[name])
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(list(paths_of(record)) or [("x",)]))
        place = record
        for key in parents:
            place = place[key]
        if isinstance(place, dict) and draw(st.booleans()):
            place.pop(last, None)
        else:
            place[last] = draw(JSON)
    return record


@pytest.mark.parametrize("name", FORMATS)
@given(st.data())
def test_any_object_is_read_or_refused(name, data):
    """Whatever JSON object a line holds, reading it as any format gives rollouts or the one
    error.
    """
    record = data.draw(st.dictionaries(KEYS, JSON, max_size=8) | mutants(name))
    try:
        follow(name, record)
    except UnreadableRecordError as error:
        assert str(error)  # noqa: PT017


@given(st.dictionaries(KEYS, JSON, max_size=8))
def test_recognition_never_fails_otherwise(record):
    """Whatever JSON object a line holds, it is recognised or refused with the one error."""
    try:
        assert recognise(record).name in FORMATS
    except UnreadableRecordError as error:
        assert str(error)  # noqa: PT017
