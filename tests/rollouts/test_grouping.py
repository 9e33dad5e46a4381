"""The group key, and the groups of an input."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rollouts.formats import FORMATS
from genrm_cli.rollouts.group_keys import digest_of_prompt, group_key, value_at
from genrm_cli.rollouts.grouping import GroupTable, Place
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.verdicts import Explanation, Reason

QUESTION = (Turn("user", "Why?"),)


def rollout(task=None, index=None, prompt=QUESTION, **others):
    """Make a rollout with an answer."""
    response = others.pop("response", (Text("Because."),))
    return Rollout(prompt, response, task=task, index=index, **others)


def table_of(*rollouts):
    """Put rollouts, one a line, into a table under their own keys."""
    table = GroupTable()
    for line, each in enumerate(rollouts, 1):
        table.append(group_key(each, line), each, Place(line, 0))
    return table


def test_without_a_task_the_prompt_is_the_key():
    """Equal conversations are one group; another role or text is another group."""
    keys = [
        group_key(rollout(prompt=prompt), line)
        for line, prompt in enumerate(
            [
                QUESTION,
                QUESTION,
                (Turn("system", "Why?"),),
                (Turn("user", "How?"),),
                (*QUESTION, *QUESTION),
            ]
        )
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_without_task_and_prompt_a_rollout_is_its_own_group():
    """Empty prompts of different tasks must not be merged."""
    cases = [(), (Turn("user", ""),), (Turn("system", " \n"), Turn("user", ""))]
    for prompt in cases:
        assert group_key(rollout(prompt=prompt), 1) != group_key(rollout(prompt=prompt), 2)
        assert group_key(rollout(prompt=prompt), 1) == group_key(rollout(prompt=prompt), 1)


def test_the_principle_is_always_part_of_the_key():
    """Different principles are different groups, and so are a principle and none."""
    cases = [
        {"task": "task:0"},
        {},
        {"line_is_group": True},
        {"prompt": ()},
    ]
    for own in cases:
        keys = {
            group_key(rollout(**own, principle=principle), 1, override)
            for principle in (None, "Be safe.", "Be brief.")
            for override in (None, "metadata.task:x")
        }
        assert len(keys) == 6


def test_a_line_of_many_is_its_own_group():
    """A line that holds a whole group stays apart, even from a line of the same prompt or task."""
    many = rollout("prompt_id:p", line_is_group=True)
    assert group_key(many, 1) == group_key(many, 1)
    assert len({group_key(many, 1), group_key(many, 2), group_key(rollout("prompt_id:p"), 1)}) == 3


def test_the_override_goes_before_everything():
    """`--group-by` decides even for a line of many and for a rollout that names a task."""
    rollouts = [rollout("task:0"), rollout("task:1", prompt=()), rollout(line_is_group=True)]
    assert len({group_key(each, line, "step:5") for line, each in enumerate(rollouts)}) == 1


def test_a_dotted_path_finds_texts_and_numbers():
    """0 and False are values; an empty text, null, an object, a list and a missing field are
    not.
    """
    cases = [
        ("step", "step:0"),
        ("metadata.task", "metadata.task:x"),
        ("metadata.flag", "metadata.flag:False"),
        ("metadata.rate", "metadata.rate:0.5"),
        ("empty", None),
        ("null", None),
        ("metadata", None),
        ("listed", None),
        ("missing", None),
        ("step.deeper", None),
        ("metadata.task.deeper", None),
        ("", None),
        (".", None),
    ]
    for path, value in cases:
        metadata = {
            "task": "x",
            "flag": False,
            "rate": 0.5,
        }
        assert (
            value_at(
                {
                    "step": 0,
                    "metadata": metadata,
                    "empty": "",
                    "null": None,
                    "listed": [1],
                },
                path,
            )
            == value
        )


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3))
def test_moving_text_between_turns_changes_the_digest(turns):
    """The digest knows where one text ends and the next begins."""
    prompt = tuple(Turn(*turn) for turn in turns)
    joined = (Turn("".join(role + text for role, text in turns), ""),)
    assert (digest_of_prompt(prompt) == digest_of_prompt(joined)) == (prompt == joined)


def test_rollouts_are_ordered_by_index_where_all_have_one():
    """The rollout index decides, negative ones included; one missing and the place in the input
    does.
    """
    assert list(table_of(*(rollout("a", index) for index in (3, -1, 0, 2))).iter_groups()) == [
        [1, 2, 3, 0]
    ]
    assert list(table_of(*(rollout("a", index) for index in (3, None, 0))).iter_groups()) == [
        [0, 1, 2]
    ]
    mixed = table_of(rollout("a", 1), rollout("b"), rollout("a", 0), rollout("b", 0))
    assert list(mixed.iter_groups()) == [[2, 0], [1, 3]]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 20)), unique=True, max_size=20),
    st.randoms(),
)
def test_the_order_of_the_lines_does_not_change_the_groups(names, shuffler):
    """The same rollouts in another line order form the same groups, in the same order within
    each.
    """

    def groups(order):
        table = table_of(*(rollout(f"task:{task}", index) for task, index in order))
        return {tuple(order[row] for row in rows) for rows in table.iter_groups()}

    shuffled = list(names)
    shuffler.shuffle(shuffled)
    assert groups(names) == groups(shuffled)


@given(st.lists(st.integers(0, 6), max_size=40))
def test_every_row_is_in_exactly_one_group(tasks):
    """The groups partition the rows: none is lost, and none occurs twice."""
    table = table_of(*(rollout(f"task:{task}") for task in tasks))
    groups = list(table.iter_groups())
    assert sorted(row for rows in groups for row in rows) == list(range(len(tasks)))
    assert len(groups) == len(set(tasks))
    assert all(len({tasks[row] for row in rows}) == 1 for rows in groups)


def test_the_second_of_a_name_is_a_duplicate():
    """A rollout index that occurred before in its group is a duplicate; none and other groups are
    not.
    """
    table = table_of(
        *(rollout("a", index) for index in (1, 0, 1, 1)),
        rollout("b", 1),
        rollout("b"),
        rollout("b"),
    )
    found = [table.duplicates(rows) for rows in table.iter_groups()]
    assert found == [[2, 3], []]


def test_many_lines_joined_by_a_field_are_no_duplicates():
    """Responses of two lines that `--group-by` joins are ordered by place, none of them there
    twice.
    """
    table = GroupTable()
    for line in (1, 2):
        responses = FORMATS["completion"].read(
            {
                "prompt": "Why?",
                "responses": ["a", "b"],
            }
        )
        for position, each in enumerate(responses):
            table.append(group_key(each, line, "step:1"), each, Place(line, position))
    assert list(table.iter_groups()) == [[0, 1, 2, 3]]
    assert table.duplicates([0, 1, 2, 3]) == []


HOW = (Turn("user", "How?"),)


def test_one_task_index_with_two_prompts_is_two_groups():
    """Rollouts of a reused index are compared within each prompt, and the keys of the groups
    differ.
    """
    table = table_of(
        rollout("a"), rollout("a", prompt=HOW), rollout("b"), rollout("a"), rollout("a", prompt=HOW)
    )
    groups = list(table.iter_groups())
    assert sorted(groups) == [[0, 3], [1, 4], [2]]
    keys = [table.key_of(rows, "a") for rows in sorted(groups)]
    assert len(set(keys)) == 3
    assert keys[2] == "a"
    assert not any(table.mixed(rows) for rows in groups)


def test_prompts_that_differ_under_a_field_are_found():
    """Where the user names the group, different prompts in it are a mistake, and the group stays
    whole.
    """
    table = GroupTable()
    for line, prompt in enumerate((QUESTION, QUESTION, HOW), 1):
        table.append("step:1", rollout(prompt=prompt), Place(line, 0), may_split=False)
    assert list(table.iter_groups()) == [[0, 1, 2]]
    assert table.mixed([0, 1, 2])
    assert not table.mixed([0, 1])


def test_a_later_attempt_at_a_group_replaces_the_earlier_one():
    """No rollout of an earlier group attempt is a sibling of a later one, regardless of its
    index.
    """
    table = table_of(
        *(rollout("g", index, group_attempt=attempt) for index, attempt in ((0, 0), (1, 0), (0, 1)))
    )
    (rows,) = table.iter_groups()
    replaced = table.superseded(rows)
    assert replaced == dict.fromkeys(
        (0, 1), Explanation(Reason.SUPERSEDED, "attempt 1 of the group")
    )
    assert table.compared(rows) == [2]
    assert table.duplicates(rows) == []


def test_a_resent_rollout_replaces_the_earlier_attempt():
    """The last attempt at an index counts, for any order of lines; other indices keep theirs."""
    table = table_of(
        *(
            rollout("g", index, attempt=attempt)
            for index, attempt in ((0, 2), (0, 0), (1, 0), (0, 1))
        )
    )
    (rows,) = table.iter_groups()
    assert sorted(table.compared(rows)) == [0, 2]
    assert set(table.superseded(rows)) == {1, 3}
    assert table.count_answered(rows) == 2


def test_excluded_rollouts_are_not_compared():
    """Masked and failed rollouts stay in their group and are not counted among those compared."""
    table = table_of(rollout("a"), rollout("a", excluded="masked"), rollout("a", response=None))
    (rows,) = table.iter_groups()
    assert rows == [0, 1, 2]
    assert table.compared(rows) == [0]


def test_a_rollout_without_a_response_does_not_spoil_its_group():
    """Where the environment states the task in the output, a line without one lacks the prompt."""
    table = table_of(rollout("a"), rollout("a"), rollout("a", prompt=(), response=None))
    assert not table.mixed([0, 1, 2])
    assert table.count_answered([0, 1, 2]) == 2


def test_episodes_may_open_differently():
    """What the sessions of a scenario share is found later; their prompts need not be equal."""
    table = table_of(
        *(
            rollout("s", prompt=(Turn("user", text),), is_session=True, opens_freely=True)
            for text in ("a", "b")
        )
    )
    assert not table.mixed([0, 1])


def test_the_table_keeps_no_text():
    """A rollout takes less than 56 bytes, for any length of its text."""
    for chars in [10, 10_000]:
        table = GroupTable()
        each = rollout(
            "a" * chars, 0, prompt=(Turn("user", "x" * chars),), response=(Text("y" * chars),)
        )
        for line in range(2000):
            table.append(group_key(each, line), each, Place(line, 0))
        columns = [value for value in vars(table).values() if hasattr(value, "itemsize")]
        assert sum(sys.getsizeof(column) for column in columns) < 56 * 2000


def set_of(*files):
    """Put the rollouts of several files into one table."""
    table = GroupTable(spans_files=True)
    for number, rollouts in enumerate(files):
        table.begin_file()
        for line, each in enumerate(rollouts, 1):
            table.append(group_key(each, f"{number}:{line}"), each, Place(line, 0))
    return table


def keys_in(table, key="given"):
    """Return the key of each group, and its rows."""
    return {table.key_of(rows, key): rows for rows in table.iter_groups()}


def test_a_task_id_of_one_prompt_spans_files():
    """Where the prompts agree, ids count, and two tasks of one prompt stay apart."""
    table = set_of([rollout("a"), rollout("b")], [rollout("b"), rollout("a")])
    assert sorted(table.iter_groups()) == [[0, 3], [1, 2]]
    assert table.contradicting_ids == 0
    assert [table.place(row).file for row in range(4)] == [0, 0, 1, 1]


def test_task_ids_that_contradict_each_other_give_way_to_the_prompt():
    """Their rollouts, and those of other ids with the same prompts, are grouped by the prompt; the
    rest by its id.
    """
    table = set_of(
        [rollout("a"), rollout("b", prompt=HOW)],
        [rollout("a", prompt=HOW), rollout("c", prompt=(Turn("user", "Who?"),))],
    )
    digest = f"prompt:{digest_of_prompt(HOW):016x}"
    assert sorted(table.iter_groups()) == [[0], [1, 2], [3]]
    assert table.contradicting_ids == 1
    assert keys_in(table) == {
        f"prompt:{digest_of_prompt(QUESTION):016x}": [0],
        digest: [1, 2],
        "given": [3],
    }


def test_rollouts_without_a_prompt_are_not_taken_for_one_group():
    """Under contradicting ids, too, an absent prompt is not the same as another absent one."""
    table = set_of(
        [rollout("a"), rollout("b", prompt=())], [rollout("a", prompt=HOW), rollout("c", prompt=())]
    )
    assert sorted(table.iter_groups()) == [[0], [1], [2], [3]]


def test_principles_keep_equal_prompts_of_contradicting_ids_apart():
    """Rollouts judged by different principles are never one group."""
    table = set_of(
        [rollout("a", principle="Be safe."), rollout("b", prompt=HOW, principle="Be safe.")],
        [
            rollout("a", prompt=HOW, principle="Be safe."),
            rollout("b", prompt=HOW, principle="Be brief."),
        ],
    )
    assert sorted(table.iter_groups()) == [[0], [1, 2], [3]]


def test_attempts_and_duplicates_count_within_their_file():
    """A second attempt in one file replaces nothing in another, where the same index is no
    duplicate either.
    """
    table = set_of(
        [rollout("a", index=0, attempt=1), rollout("a", index=0, attempt=2)],
        [rollout("a", index=0), rollout("a", index=1), rollout("a", index=1)],
    )
    (rows,) = table.iter_groups()
    assert list(table.superseded(rows)) == [0]
    assert table.duplicates(rows) == [4]


def test_the_shard_of_a_group_never_changes():
    """Other machines and versions share the groups out alike: these numbers must stay."""
    table = table_of(
        *(rollout(f"task:{number}") for number in range(8)), rollout("task:0", prompt=HOW)
    )
    shards = [table.shard_of(rows, 4) for rows in table.iter_groups()]
    assert shards == [3, 2, 1, 3, 0, 0, 2, 0, 2]
