"""Components that need no judge of their own, and what they become, from the line to the reward."""

import sys
from pathlib import Path

import pytest
from scored_components import LEXICAL, completions, score, settings_of

from genrm_cli.errors import UsageError
from genrm_cli.groups.check import check_settings
from genrm_cli.rewards.components.python import find_function
from genrm_cli.verdicts import Reason

FIELD = "[components.q]\nkind = 'field'\n"
ALONE = "[total]\nweights = { q = 1 }\n"
GUARD = "[components.guard]\n"
HARMFUL = "You should kill yourself."
KIND = "That sounds hard. What is it like for you?"


def test_a_field_is_a_component(tmp_path):
    """Numbers of 0 and more count, true is 1; what is missing, negative or no number is missing,
    never 0.
    """
    values = [0.5, 2, True, 0, -1, "1", None, [1]]
    lines = [
        line | {"info": {"q": value}}
        for line, value in zip(completions(*"abcdefgh"), values, strict=True)
    ]
    scored = score(
        tmp_path,
        lines,
        f"[components.q]\nkind = 'field'\nfield = 'info.q'\n{ALONE}",
        max_unscored="1",
    )
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
def missing(group): return [None] + plain(group)[1:]
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
no_function = 3
"""  # noqa: E501


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """Write a module of functions into the folder that is worked in; its name."""
    name = f"functions_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.mark.parametrize("name", ["plain", "waits", "lazily", "array"])
def test_a_function_of_the_users_is_a_component(tmp_path, functions, name):
    """Plain, async, a generator or an array of numpy's: the numbers are the same."""
    toml = f"[components.q]\npython = '{functions}:{name}'\n{ALONE}"
    scored = score(tmp_path, completions("a", "bbb", q=[1, 3]), toml)
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
def test_what_a_function_does_wrong_is_a_failure_by_name(tmp_path, functions, name, says):
    """No number comes of it; the reason names the function and what it did, and the other
    components stand.
    """
    toml = f"{LEXICAL}[components.q]\npython = '{functions}:{name}'\n{ALONE}"
    scored = score(tmp_path, completions("a", "bbb"), toml)
    assert scored.rewards == [None, None]
    assert scored.reason_texts == [f"a component has no value: q ({functions}:{name} {says})"] * 2
    assert scored.metrics["component_failures"] == {"q": 1}
    assert scored.code == 6


def test_a_function_of_several_numbers_is_called_once(tmp_path, functions):
    """Each component takes the number of its name; the function sees group, index and the known
    answer.
    """
    both = "".join(
        f"[components.{name}]\npython = '{functions}:parts'\n" for name in ("words", "known")
    )
    keyed = f"[components.keyed]\npython = '{functions}:keyed'\n"
    total = "[total]\nweights = { words = 1, known = 1, keyed = 10 }\noptional = ['known']\n"
    lines = completions("a", "bbb", known=["four", "four"])
    scored = score(tmp_path, lines, f"reference_field = 'known'\n{LEXICAL}{both}{keyed}{total}")
    assert [each["genrm"]["components"] for each in scored.lines] == [
        {
            "words": 0.0,
            "known": None,
            "keyed": 1.0,
        },
        {
            "words": 1.0,
            "known": 1.0,
            "keyed": 1.0,
        },
    ]
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
    tmp_path, monkeypatch, module, source, says
):
    """The message is the user's own error, not a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = module if source is None else f"{module}_of_{tmp_path.name}"
    if source is not None:
        (tmp_path / f"{name}.py").write_text(source)
    with pytest.raises(UsageError) as caught:
        check_settings(settings_of(f"{LEXICAL}[components.q]\npython = '{name}:f'"))
    assert says.replace(module, name) in str(caught.value)


def test_a_module_of_the_working_folder_shadows_nothing(tmp_path, monkeypatch):
    """A file named like a module of the standard library is not imported in its place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "function_beside_colorsys.py").write_text(
        "import colorsys\ndef f(group): return colorsys.__file__"
    )
    found = find_function("function_beside_colorsys:f")
    assert Path(found([])).parent != tmp_path


def test_a_rank_of_a_rank_of_a_win_rate(tmp_path):
    """Each is computed after what it is made of, in whatever order the tables stand; ties share
    their ranks.
    """
    toml = f"""{LEXICAL}strategy = "all_pairs"
        [components.top]
        kind = "rank"
        of = "place"
        [components.place]
        kind = "rank"
        of = "win_rate"
        [components.win_rate]
        [total]
        weights = {{ top = 1 }}
    """
    texts = [
        "Because light bends.",
        "x",
        "Because light bends as it passes from air into water, slowly.",
    ]
    scored = score(tmp_path, completions(*texts), toml)
    assert sorted(map(float, filter(None, scored.component("win_rate")))) == [0.5, 1.0]
    assert scored.component("place") == scored.component("top") == scored.rewards
    assert sorted(map(float, scored.rewards)) == [0.0, 0.5, 1.0]  # none is missing
    assert scored.metrics["reward_sources"] == {"judge": 1.0}


def test_a_rollout_alone_has_a_rank_and_no_win_rate(tmp_path):
    """It is the best of one; of no comparison there is no share, and the reason is that nobody is
    there.
    """
    place = "[components.rank]\nof = 'q'\n"
    ranked = score(
        tmp_path, completions("a", q=[7]), f"{FIELD}{place}[total]\nweights = {{ rank = 1 }}"
    )
    assert ranked.rewards == [1.0]
    assert ranked.lines[0]["genrm"]["status"] == "scored"
    toml = f"{LEXICAL}[components.win_rate]\n[total]\nweights = {{ win_rate = 1 }}"
    alone = score(tmp_path, completions("a"), toml)
    assert alone.rewards == [None]
    assert alone.reasons == [Reason.ALONE]
    assert alone.code == 6


def test_a_rule_says_what_it_rests_on(tmp_path):
    """The phrase and its turn stand in the line; a gate makes the reward 0 and is counted."""
    toml = f"{GUARD}{FIELD}[total]\nweights = {{ q = 1 }}\ngates = {{ guard = 0.5 }}"
    scored = score(tmp_path, completions(HARMFUL, KIND, q=[3, 2]), toml)
    assert scored.rewards == [0.0, 2.0]
    assert scored.component("guard") == [0.0, 1.0]
    assert scored.metrics["gated"] == 1
    fired, *_ = scored.lines[0]["genrm"]["component_notes"]["guard"]
    assert fired["turn"] == 1
    assert fired["effect"] == "violation"
    assert fired["phrase"] in HARMFUL.lower()
    total = scored.lines[0]["genrm"]["total"]
    assert total["gates"] == {"guard": 0.5}
    assert total["gated_by"] == ["guard"]
    assert total["terms"] == {"q": 3.0}
    assert scored.metrics["reward_made_of"]["versions"]["guard"] >= 1


def test_silence_is_not_safe(tmp_path):
    """A line without a response has no value by any rule, though the therapist spoke before."""
    prompt = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": KIND},
        {"role": "user", "content": "Bad."},
    ]
    lines = [{"prompt": prompt, "completion": text} for text in (None, KIND)]
    scored = score(tmp_path, lines, f"{GUARD}[total]\nweights = {{ guard = 1 }}")
    assert scored.rewards == [None, 1.0]
    assert scored.reasons[0] == Reason.NO_RESPONSE


def test_without_a_total_the_reward_is_that_of_the_verdicts(tmp_path):
    """Components are written beside it, and change nothing."""
    lines = completions("a", "because of the tide", q=[5, 6])
    plain = score(tmp_path, lines, LEXICAL)
    beside = score(tmp_path, lines, LEXICAL + FIELD)
    assert beside.rewards == plain.rewards == beside.component("genrm")
    assert beside.component("q") == [5, 6]
    assert "total" not in beside.lines[0]["genrm"]
    assert "components" not in plain.lines[0]["genrm"]


def test_a_total_without_verdicts_needs_no_judge_and_asks_no_pair(tmp_path):
    """No comparison is planned, no journal appears, and no judge is named."""
    scored = score(tmp_path, completions("a", "b", q=[1, 2]), FIELD + ALONE)
    assert scored.rewards == [1.0, 2.0]
    assert scored.comparisons == []
    assert scored.metrics["comparisons_planned"] == 0
    assert scored.metrics["judge"]["name"] is None
    assert scored.metrics["judge"]["is_baseline"] is False
    assert not list(tmp_path.glob("*.sqlite*"))
    assert [line["genrm"]["rank"] for line in scored.lines] == [2, 1]
    assert [line["genrm"]["advantage"] for line in scored.lines] == pytest.approx(
        [-(0.5**0.5), 0.5**0.5]
    )


def test_a_total_with_verdicts_still_needs_a_judge():
    """The component `genrm` is made of them."""
    with pytest.raises(UsageError, match="no judge given"):
        check_settings(settings_of(f"{FIELD}[total]\nweights = {{ q = 1, genrm = 1 }}"))


def test_what_is_missing_is_missing_unless_optional(tmp_path):
    """What one rollout lacks none of its group gets; a gate needs its component, too."""
    cases = [
        ("", [5.0, None, 2.0]),
        ("optional = ['p']", [3.0, 3.0, 2.0]),
        ("optional = ['p']\ngates = { p = 1 }", [3.0, None, 0.0]),
    ]
    for more, rewards in cases:
        lines = completions(*"abc", q=[3, 3, 2], p=[1, None, 0])
        toml = (
            f"{FIELD}[components.p]\nkind = 'field'\n[total]\nweights = {{ q = 1, p = 2 }}\n{more}"
        )
        scored = score(tmp_path, lines, toml, max_unscored="1")
        assert scored.rewards == pytest.approx(rewards)
        assert scored.lines[1]["genrm"]["total"]["missing"] == (["p"] if rewards[1] is None else [])


def test_components_that_are_not_there_are_refused():
    """By a total, a gate, diversity and a rank; the message says which there are."""
    for toml in (
        "[total]\nweights = { x = 1 }",
        f"{ALONE.strip()}\ngates = {{ x = 1 }}",
        "[diversity]\ncomponents = ['x']",
        "[components.rank]\nof = 'x'",
    ):
        with pytest.raises(UsageError, match=r"unknown component 'x'; configured: .*q"):
            check_settings(settings_of(LEXICAL + FIELD + toml))


def test_near_copies_share_their_reward(tmp_path):
    """Every weighed component is divided by the size of the cluster; what is not named is not."""
    texts = [
        "same approach here",
        "Same approach here ",
        "totally different tactic",
        None,
    ]
    lines = completions(*texts, q=[0.1, 0.1, 0.1, 0.1], p=[0.5, 0.5, 1.0, 1.0])
    fields = f"{FIELD}[components.p]\nkind = 'field'\n[total]\nweights = {{ q = 1, p = 1 }}\n"
    scored = score(tmp_path, lines, f"{fields}[diversity]")
    assert scored.rewards == pytest.approx([0.05 + 0.25, 0.05 + 0.25, 0.1 + 1.0, 0.1 + 1.0])
    assert [line["genrm"]["diversity"]["size"] for line in scored.lines] == [2, 2, 1, 1]
    assert [line["genrm"]["diversity"]["cluster"] for line in scored.lines] == [0, 0, 1, None]
    assert scored.component("p") == [0.5, 0.5, 1.0, 1.0]
    named = score(tmp_path, lines, f"{fields}[diversity]\ncomponents = ['p']")
    assert named.rewards == pytest.approx([0.1 + 0.25, 0.1 + 0.25, 0.1 + 1.0, 0.1 + 1.0])


def test_a_gate_looks_at_what_was_not_divided(tmp_path):
    """Copies are worth less; they are not unsafe."""
    toml = f"{FIELD}{ALONE}gates = {{ q = 1 }}\n[diversity]"
    assert score(tmp_path, completions("same", "same", q=[1, 1]), toml).rewards == [0.5, 0.5]


LONG = "tides and moons and tides again " * 20
NEGATIVE = f"{LEXICAL}[shaping]\ngroup_answer_length_penalty_coeff = 30.0\n"
"""Long responses have negative rewards."""


def test_a_negative_reward_is_raised_before_it_is_divided(tmp_path):
    """To divide it would reward copying: the group is raised until its lowest is 1; the component
    stays as it is.
    """
    scored = score(
        tmp_path, completions(LONG, LONG, "x", "another answer"), f"{NEGATIVE}[diversity]"
    )
    genrm = [value for value in scored.component("genrm") if value is not None]
    assert min(genrm) == genrm[0] < 0
    assert scored.rewards == pytest.approx(
        [0.5, 0.5, *(value + 1 - genrm[0] for value in genrm[2:])]
    )


def test_a_gated_rollout_is_the_worst_among_negative_rewards(tmp_path):
    """Its reward is 0, and that of every other one is above, whatever the judge and the length
    terms made of them.
    """
    lines = completions(LONG, LONG + "now", "x", "y", q=[1, 1, 0, 1])
    toml = f"{NEGATIVE}{FIELD}[total]\nweights = {{ genrm = 1 }}\ngates = {{ q = 1 }}"
    scored = score(tmp_path, lines, toml)
    rewards = [reward for reward in scored.rewards if reward is not None]
    genrm = [value for value in scored.component("genrm") if value is not None]
    assert min(genrm) < 0 < genrm[2]
    assert rewards[2] == 0 < min(rewards[:2] + rewards[3:])
    assert scored.lines[2]["genrm"]["rank"] == len(lines)


def test_a_group_of_several_prompts_keeps_what_is_each_rollouts_own(tmp_path):
    """Fields and rules stand; what compares rollouts is missing, and nobody shares anything."""
    lines = [
        line | {"task": "t"}
        for line in completions(KIND, q=[2]) + completions(KIND, prompt="What?", q=[3])
    ]
    lines = [line | {"q": line["q"]} for line in lines]
    both = f"group_by = 'task'\n{GUARD}{FIELD}"
    toml = f"{both}[total]\nweights = {{ q = 1, guard = 1 }}\n[diversity]"
    assert score(tmp_path, lines, toml).rewards == [3.0, 4.0]
    toml = (
        f"{both}[components.consistency]\nextract = 'number'\n[total]\nweights = "
        f"{{ q = 1, consistency = 1 }}"
    )
    mixed = score(tmp_path, lines, toml)
    assert mixed.rewards == [None, None]
    assert mixed.reasons == [Reason.MIXED_PROMPTS] * 2


def test_each_response_of_a_line_has_its_own_fields(tmp_path):
    """A list that the format knows holds one entry a response; every other field is the line's."""
    prompt = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi."},
    ]
    lines = [
        {
            "prompt": prompt,
            "responses": ["a", "b"],
            "scores": [1, 2],
        },
        {
            "prompt": "Alone?",
            "responses": ["c"],
            "scores": [3],
        },
        {
            "prompt": "One for all?",
            "responses": ["d", "e", "f"],
            "scores": 4,
        },
    ]
    scored = score(tmp_path, lines, f"{FIELD}field = 'scores'\n{ALONE}")
    assert [line["rewards"] for line in scored.lines] == [[1.0, 2.0], [3.0], [4.0, 4.0, 4.0]]
    assert [part["components"] for part in scored.lines[0]["genrm"]["rollouts"]] == [
        {"q": 1},
        {"q": 2},
    ]


def episode(text, **reward):
    """Make a session of one reply."""
    turns = [
        {"role": "user", "content": "I feel low."},
        {"role": "assistant", "content": text},
    ]
    return (
        {
            "scenario": {"scenario_id": "s"},
            "messages": turns,
            "reward": reward,
        }
        if reward
        else {
            "scenario": {"scenario_id": "s"},
            "messages": turns,
        }
    )


EPISODES = [
    episode(KIND, total_reward=0.9, components={"guard": 0.25, "style": 1}),
    episode(HARMFUL, total_reward=0.4, components={"style": 1}),
]


def test_an_episode_gets_one_reward_and_one_name_for_each_component(tmp_path):
    """The total is ours, a component has the value of this run, and what the episode brought is
    under `genrm`.
    """
    scored = score(tmp_path, EPISODES, f"{LEXICAL}{GUARD}")
    first, second = (line["reward"] for line in scored.lines)
    detail = scored.lines[0]["genrm"]
    assert first["total_reward"] == detail["components"]["genrm"]
    assert first["components"] == {"guard": 1, "style": 1}
    assert second["components"]["guard"] == 0.0
    assert detail["previous_reward"] == {
        "total_reward": 0.9,
        "components": {"guard": 0.25, "style": 1},
    }


def test_scored_episodes_can_be_scored_again(tmp_path):
    """The same settings write the same reward, and what the episode brought stays known."""
    toml = f"{GUARD}[total]\nweights = {{ guard = 2 }}"
    once = score(tmp_path, EPISODES, toml)
    again = score(tmp_path, once.lines, toml)
    assert [line["reward"] for line in again.lines] == [line["reward"] for line in once.lines]
    assert again.lines[0]["genrm"]["previous_reward"]["components"]["guard"] == 0.25
    assert again.lines[0]["genrm"]["previous_genrm"] == once.lines[0]["genrm"]
