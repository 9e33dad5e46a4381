"""Components that need no judge of their own, and what they become, from the line to the reward."""

import pytest
from scored_here import LEXICAL, completions, settings_of

from genrm_cli.errors import UsageError
from genrm_cli.groups.check import check_settings
from genrm_cli.verdicts import Reason

FIELD = "[components.q]\nkind = 'field'\n"
SECOND = "[components.p]\nkind = 'field'\n"
ALONE = "[total]\nweights = { q = 1 }\n"


def test_a_field_is_a_component(score):
    """Numbers of 0 and more count, true is 1; what is missing, negative or no number is missing,
    never 0.
    """
    values = [0.5, 2, True, 0, -1, "1", None, [1]]
    lines = completions(*"abcdefgh", info=[{"q": value} for value in values])
    scored = score(lines, f"{FIELD}field = 'info.q'\n{ALONE}", max_unscored="1")
    assert scored.rewards == [0.5, 2.0, 1.0, 0.0, None, None, None, None]
    assert scored.reasons[4:] == [Reason.COMPONENT_MISSING] * 4
    assert scored.metrics["components"]["q"]["missing"] == 4


FUNCTIONS = """
import numpy as np
def plain(group): return [len(rollout["response"]) for rollout in group]
async def waits(group):
    import asyncio
    await asyncio.sleep(0)
    return plain(group)
def lazily(group): return (rollout["record"]["q"] for rollout in group)
def array(group): return np.array(plain(group), dtype=np.float32)
def raises(group): raise KeyError("nothing")
def leaves(group): raise SystemExit(3)
def too_many(group): return [1.0, *plain(group)]
def negative(group): return [-1.0] * len(group)
def not_a_number(group): return [float("nan")] * len(group)
def beyond(group): return [10 ** 400] * len(group)
def text(group): return "12"
def mapping(group): return {0: 1.0, 1: 2.0}
def parts(group):
    with open("calls", "a") as calls: calls.write("called ")
    return [{"words": each["index"], "known": each["reference"] == "four" if each["index"] else None} for each in group]
def keyed(group): return [float(bool(each["group"])) for each in group]
def texts(group): return ["1"] * len(group)
def nothing(group): pass
def late(group):
    yield 1.0
    raise OSError("gone")
"""  # noqa: E501


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Work in a folder; return what writes a module there, and returns a name of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write_module(name, source):
        name = f"{name}_of_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write_module


@pytest.fixture
def functions(write_module):
    """Return the name of a module of functions."""
    return write_module("functions", FUNCTIONS)


@pytest.mark.parametrize("name", ["plain", "waits", "lazily", "array"])
def test_a_function_of_the_users_is_a_component(score, functions, name):
    """Plain, async, a generator or an array of numpy's: the numbers are the same."""
    toml = f"[components.q]\npython = '{functions}:{name}'\n{ALONE}"
    scored = score(completions("a", "bbb", q=[1, 3]), toml)
    assert scored.rewards == [1.0, 3.0]
    assert scored.metrics["reward_sources"] == {"functions": 1.0}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", "raised KeyError: 'nothing'"),
        ("leaves", "raised SystemExit: 3"),
        ("late", "raised OSError: gone"),
        ("beyond", "raised OverflowError: int too large to convert to float"),
        ("too_many", "returned 3 values for 2 rollouts"),
        ("negative", "returned -1; components must be finite, from 0 to 1e+09"),
        ("not_a_number", "returned nan; components must be finite, from 0 to 1e+09"),
        ("text", "returned str, not a list of 2 values"),
        ("mapping", "returned dict, not a list of 2 values"),
        ("texts", "returned '1', which is not a number"),
        ("nothing", "returned NoneType, not a list of 2 values"),
        ("parts", "returned words, known, not q; name the component after one of them"),
    ],
)
def test_what_a_function_does_wrong_is_a_failure_by_name(score, functions, name, says):
    """No number comes of it; the reason names the function and what it did, and the other
    components stand.
    """
    toml = f"{LEXICAL}[components.q]\npython = '{functions}:{name}'\n{ALONE}"
    scored = score(completions("a", "bbb"), toml)
    assert scored.rewards == [None, None]
    assert scored.reason_texts == [f"a component has no value: q ({functions}:{name} {says})"] * 2
    assert scored.metrics["component_failures"] == {"q": 1}
    assert scored.code == 6


def test_a_function_of_several_numbers_is_called_once(tmp_path, score, functions):
    """Each component takes the number of its name; the function sees group, index and the known
    answer.
    """
    tables = "".join(
        f"[components.{name}]\npython = '{functions}:{function}'\n"
        for name, function in (("words", "parts"), ("known", "parts"), ("keyed", "keyed"))
    )
    total = "[total]\nweights = { words = 1, known = 1, keyed = 10 }\noptional = ['known']\n"
    lines = completions("a", "bbb", known=["four", "four"])
    scored = score(lines, f"reference_field = 'known'\n{LEXICAL}{tables}{total}")
    values = [scored.component(name) for name in ("words", "known", "keyed")]
    assert values == [[0.0, 1.0], [None, 1.0], [1.0, 1.0]]
    assert (tmp_path / "calls").read_text() == "called "


@pytest.mark.parametrize(
    ("module", "source", "says"),
    [
        ("fails", "1 / 0", "fails cannot be imported: ZeroDivisionError: division by zero"),
        ("leaves", "raise SystemExit(0)", "leaves cannot be imported: SystemExit: 0"),
        ("torn", "def f(", "torn cannot be imported: SyntaxError"),
        ("empty", "", "empty has no function f"),
        ("number", "f = 3", "number has no function f"),
        ("absent_altogether", None, "No module named"),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_before_anything(
    write_module, module, source, says
):
    """The message is the user's own error, not a traceback."""
    name = module if source is None else write_module(module, source)
    with pytest.raises(UsageError) as caught:
        check_settings(settings_of(f"{LEXICAL}[components.q]\npython = '{name}:f'"))
    assert says.replace(module, name) in str(caught.value)


def test_a_rank_of_a_rank_of_a_win_rate(score):
    """Each is computed after what it is made of, in whatever order the tables stand; ties share
    their ranks.
    """
    tables = "[components.top]\nkind = 'rank'\nof = 'place'\n"
    tables += "[components.place]\nkind = 'rank'\nof = 'win_rate'\n[components.win_rate]\n"
    toml = f"{LEXICAL}strategy = 'all_pairs'\n{tables}[total]\nweights = {{ top = 1 }}"
    better = "Because light bends as it passes from air into water, slowly."
    scored = score(completions("Because light bends.", "x", better), toml)
    assert sorted(map(float, filter(None, scored.component("win_rate")))) == [0.5, 1.0]
    assert scored.component("place") == scored.component("top") == scored.rewards
    assert sorted(map(float, scored.rewards)) == [0.0, 0.5, 1.0]  # none is missing
    assert scored.metrics["reward_sources"] == {"judge": 1.0}


def test_a_rollout_alone_has_a_rank_and_no_win_rate(score):
    """It is the best of one; of no comparison there is no share, and the reason is that nobody is
    there.
    """
    place = "[components.rank]\nof = 'q'\n[total]\nweights = { rank = 1 }"
    ranked = score(completions("a", q=[7]), FIELD + place)
    assert ranked.rewards == [1.0]
    assert ranked.lines[0]["genrm"]["status"] == "scored"
    toml = f"{LEXICAL}[components.win_rate]\n[total]\nweights = {{ win_rate = 1 }}"
    alone = score(completions("a"), toml)
    assert alone.rewards == [None]
    assert alone.reasons == [Reason.ALONE]
    assert alone.code == 6


def test_a_gate_makes_the_reward_0_and_is_counted(score):
    """The line says which one, and what the reward would have been."""
    toml = f"{FIELD}{SECOND}{ALONE}gates = {{ p = 0.5 }}"
    scored = score(completions("a", "b", q=[3, 2], p=[0.4, 1]), toml)
    assert scored.rewards == [0.0, 2.0]
    assert scored.metrics["gated"] == 1
    total = scored.lines[0]["genrm"]["total"]
    assert total["gates"] == {"p": 0.5}
    assert total["gated_by"] == ["p"]
    assert total["terms"] == {"q": 3.0}


def test_without_a_total_the_reward_is_that_of_the_verdicts(score):
    """Components are written beside it, and change nothing."""
    lines = completions("a", "because of the tide", q=[5, 6])
    plain = score(lines, LEXICAL)
    beside = score(lines, LEXICAL + FIELD)
    assert beside.rewards == plain.rewards == beside.component("genrm")
    assert beside.component("q") == [5, 6]
    assert "total" not in beside.lines[0]["genrm"]
    assert "components" not in plain.lines[0]["genrm"]


def test_a_total_without_verdicts_needs_no_judge_and_asks_no_pair(tmp_path, score):
    """No comparison is planned, no journal appears, and no judge is named."""
    scored = score(completions("a", "b", q=[1, 2]), FIELD + ALONE)
    assert scored.rewards == [1.0, 2.0]
    assert scored.comparisons == []
    assert scored.metrics["comparisons_planned"] == 0
    assert scored.metrics["judge"]["name"] is None
    assert scored.metrics["judge"]["is_baseline"] is False
    assert not list(tmp_path.glob("*.sqlite*"))
    assert [line["genrm"]["rank"] for line in scored.lines] == [2, 1]
    assert scored.advantages == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_what_is_missing_is_missing_unless_optional(score):
    """What one rollout lacks none of its group gets; a gate needs its component, too."""
    cases = [
        ("", [5.0, None, 2.0]),
        ("optional = ['p']", [3.0, 3.0, 2.0]),
        ("optional = ['p']\ngates = { p = 1 }", [3.0, None, 0.0]),
    ]
    for more, rewards in cases:
        lines = completions(*"abc", q=[3, 3, 2], p=[1, None, 0])
        toml = f"{FIELD}{SECOND}[total]\nweights = {{ q = 1, p = 2 }}\n{more}"
        scored = score(lines, toml, max_unscored="1")
        assert scored.rewards == pytest.approx(rewards)
        assert scored.lines[1]["genrm"]["total"]["missing"] == (["p"] if rewards[1] is None else [])
    toml = f"{FIELD}{SECOND}[total]\nweights = {{ q = 1, p = 2 }}\noptional = ['p']"
    assert score(completions(*"ab", q=[3, 2], p=[1, 0]), toml).rewards == [5.0, 2.0]


def test_components_that_are_not_there_are_refused():
    """By a total, a gate, diversity and a rank; the message says which there are. The component
    `genrm` needs a judge.
    """
    unknown = r"unknown component 'x'; configured: .*q"
    for toml, says in (
        (f"{LEXICAL}{FIELD}[total]\nweights = {{ x = 1 }}", unknown),
        (f"{LEXICAL}{FIELD}{ALONE}gates = {{ x = 1 }}", unknown),
        (f"{LEXICAL}{FIELD}[diversity]\ncomponents = ['x']", unknown),
        (f"{LEXICAL}{FIELD}[components.rank]\nof = 'x'", unknown),
        (f"{FIELD}[total]\nweights = {{ q = 1, genrm = 1 }}", "no judge given"),
    ):
        with pytest.raises(UsageError, match=says):
            check_settings(settings_of(toml))


def test_near_copies_share_their_reward(score):
    """Every weighed component is divided by the size of the cluster; what is not named is not."""
    texts = ["same approach here", "Same approach here ", "totally different tactic", None]
    lines = completions(*texts, q=[0.1, 0.1, 0.1, 0.1], p=[0.5, 0.5, 1.0, 1.0])
    toml = f"{FIELD}{SECOND}[total]\nweights = {{ q = 1, p = 1 }}\n[diversity]\n"
    scored = score(lines, toml)
    assert scored.rewards == pytest.approx([0.05 + 0.25, 0.05 + 0.25, 0.1 + 1.0, 0.1 + 1.0])
    assert [line["genrm"]["diversity"]["size"] for line in scored.lines] == [2, 2, 1, 1]
    assert [line["genrm"]["diversity"]["cluster"] for line in scored.lines] == [0, 0, 1, None]
    assert scored.component("p") == [0.5, 0.5, 1.0, 1.0]
    named = score(lines, f"{toml}components = ['p']")
    assert named.rewards == pytest.approx([0.1 + 0.25, 0.1 + 0.25, 0.1 + 1.0, 0.1 + 1.0])


def test_a_gate_looks_at_what_was_not_divided(score):
    """Copies are worth less; they are not unsafe."""
    toml = f"{FIELD}{ALONE}gates = {{ q = 1 }}\n[diversity]"
    assert score(completions("same", "same", q=[1, 1]), toml).rewards == [0.5, 0.5]


LONG = "tides and moons and tides again " * 20
NEGATIVE = f"{LEXICAL}[shaping]\ngroup_answer_length_penalty_coeff = 30.0\n"
"""Long responses have negative rewards."""


def test_a_negative_reward_is_raised_before_it_is_divided(score):
    """To divide it would reward copying: the group is raised until its lowest is 1; the component
    stays as it is.
    """
    scored = score(completions(LONG, LONG, "x", "another answer"), f"{NEGATIVE}[diversity]")
    lowest, *others = scored.component("genrm")
    assert lowest == min(lowest, *others) < 0
    raised = [value + 1 - lowest for value in others[1:]]
    assert scored.rewards == pytest.approx([0.5, 0.5, *raised])


def test_a_gated_rollout_is_the_worst_among_negative_rewards(score):
    """Its reward is 0, and that of every other one is above, whatever the judge and the length
    terms made of them.
    """
    lines = completions(LONG, LONG + "now", "x", "y", q=[1, 1, 0, 1])
    toml = f"{NEGATIVE}{FIELD}[total]\nweights = {{ genrm = 1 }}\ngates = {{ q = 1 }}"
    scored = score(lines, toml)
    rewards = scored.rewards
    genrm = scored.component("genrm")
    assert min(genrm) < 0 < genrm[2]
    assert rewards[2] == 0 < min(rewards[:2] + rewards[3:])
    assert scored.lines[2]["genrm"]["rank"] == len(lines)


def test_a_group_of_several_prompts_keeps_what_is_each_rollouts_own(score):
    """Fields stand; what compares rollouts is missing, and nobody shares anything."""
    lines = completions("a", q=[2], task=["t"]) + completions("a", prompt="?", q=[3], task=["t"])
    toml = f"group_by = 'task'\n{FIELD}"
    assert score(lines, f"{toml}{ALONE}[diversity]").rewards == [2.0, 3.0]
    toml += "[components.consistency]\nextract = 'number'\n"
    mixed = score(lines, f"{toml}[total]\nweights = {{ q = 1, consistency = 1 }}")
    assert mixed.rewards == [None, None]
    assert mixed.reasons == [Reason.MIXED_PROMPTS] * 2


def test_each_response_of_a_line_has_its_own_fields(score):
    """A list that the format knows holds one entry a response; every other field is the line's."""
    lines = [
        {"prompt": "Hi.", "responses": ["a", "b"], "scores": [1, 2]},
        {"prompt": "Alone?", "responses": ["c"], "scores": [3]},
        {"prompt": "One for all?", "responses": ["d", "e", "f"], "scores": 4},
    ]
    scored = score(lines, f"{FIELD}field = 'scores'\n{ALONE}")
    assert [line["rewards"] for line in scored.lines] == [[1.0, 2.0], [3.0], [4.0, 4.0, 4.0]]
    values = [part["components"] for part in scored.lines[0]["genrm"]["rollouts"]]
    assert values == [{"q": 1}, {"q": 2}]
