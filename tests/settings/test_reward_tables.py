"""Parsing of `[components]`, `[diversity]`, `[total]` and `--component`."""

import tomllib

import pytest

from genrm_cli.errors import UsageError
from genrm_cli.extensions import Seam
from genrm_cli.settings.components import (
    Component,
    ComponentKind,
    TotalTable,
    find_kind,
    kind_names,
    needs_verdicts,
)
from genrm_cli.settings.panel import graders_of
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import digest_of


def resolve(toml="", *shorts):
    """Return the settings of a file with this text, and of these `--component` flags."""
    flags = {"component": shorts} if shorts else {}
    return resolve_settings(flags, {}, SettingsFile("genrm.toml", tomllib.loads(toml)))[0]


def refusal(toml="", *shorts):
    """Return why a file is refused."""
    with pytest.raises(UsageError) as caught:
        resolve(toml, *shorts)
    return str(caught.value)


def test_a_table_of_every_kind_is_read():
    """The name decides the kind where no kind is given; defaults are filled in."""
    cases = [
        ("[components.genrm]", "genrm", "genrm", {}),
        (
            "[components.win_rate]",
            "win_rate",
            "win_rate",
            {},
        ),
        ("[components.rank]", "rank", "rank", {}),
        (
            "[components.place]\nkind = 'rank'\nof = 'genrm'\nties = 'order'",
            "place",
            "rank",
            None,
        ),
        (
            "[components.consistency]\nextract = 'boxed'",
            "consistency",
            "consistency",
            {"extract": "boxed"},
        ),
        (
            "[components.consistency]\npattern = '(a+)'",
            "consistency",
            "consistency",
            {"pattern": "(a+)"},
        ),
        (
            "[components.complementarity]\nfield = 'x'",
            "complementarity",
            "complementarity",
            {"field": "x"},
        ),
        (
            "[components.c]\nkind = 'rubric'\nset = 's'\njson_schema = false",
            "c",
            "rubric",
            None,
        ),
        (
            "[components.guard]",
            "guard",
            "rule",
            {"rule": "guard"},
        ),
        (
            "[components.care]\nkind = 'rule'\nrule = 'form'",
            "care",
            "rule",
            {"rule": "form"},
        ),
        (
            "[components.quality]\nkind = 'field'",
            "quality",
            "field",
            {"field": "quality"},
        ),
        (
            "[components.mine]\npython = 'a.b:c'",
            "mine",
            "python",
            {"python": "a.b:c"},
        ),
        (
            "[components.guard]\nkind = 'field'\nfield = 'x'",
            "guard",
            "field",
            {"field": "x"},
        ),
    ]
    for toml, name, kind, options in cases:
        (component,) = resolve(toml).rewards.components
        assert component.name == name
        assert component.kind == kind
        assert options is None or dict(component.options) == options


def test_a_short_of_every_kind_is_read():
    """`--component KIND` or `KIND:OPTION`; the name comes from the option."""
    cases = [
        ("genrm", "genrm", "genrm", {}),
        (
            "rank:win_rate",
            "rank",
            "rank",
            {"of": "win_rate"},
        ),
        (
            "consistency:number",
            "consistency",
            "consistency",
            {"extract": "number"},
        ),
        (
            "complementarity:info.passed",
            "complementarity",
            "complementarity",
            {"field": "info.passed"},
        ),
        (
            "rubric:therapeutic",
            "rubric",
            "rubric",
            {"set": "therapeutic"},
        ),
        (
            "guard",
            "guard",
            "rule",
            {"rule": "guard"},
        ),
        ("rule:form", "form", "rule", {"rule": "form"}),
        (
            "field:reward.components.Style-1",
            "style_1",
            "field",
            {"field": "reward.components.Style-1"},
        ),
        (
            "python:mine.more:brevity",
            "brevity",
            "python",
            {"python": "mine.more:brevity"},
        ),
    ]
    for short, name, kind, options in cases:
        assert resolve("", short).rewards.components == (
            Component(name, kind, tuple(options.items())),
        )


REFUSED = [
    ("components = 3", "expected tables"),
    ("[components.Safety]", "lower-case letters, digits and _"),
    ("[components.tone]", "kind 'tone' is not one of complementarity, consistency"),
    (
        "[components.guard]\nmodel = 'm'",
        "unknown key 'model'; a component of kind rule has kind, rule",
    ),
    ("[components.rank]\nties = 'best'", "components.rank.ties: 'best' is not one of mean, order"),
    (
        "[components.consistency]\nfield = 'x'\nextract = 'boxed'",
        "exactly one of extract, pattern and field",
    ),
    ("[components.consistency]\npattern = '(x)(?=y)'", "RE2 has no lookaround"),
    ("[components.consistency]\npattern = 'a'", "has 0 groups"),
    ("[components.rubric]", "kind rubric requires set"),
    ("[components.rubric]\nset = 's'\njson_schema = 'maybe'", "not true or false"),
    (
        "[components.mine]\npython = 'brevity'",
        "'brevity' is not of the form package.module:function",
    ),
    ("[components.quality]\nkind = 'genrm'", "the name genrm is reserved"),
    ("[components.limits]\nkind = 'rank'", "the name limits is reserved"),
    ("[components.signal]\nkind = 'rank'", "the name signal is reserved"),
    ("[components.rewards]\nkind = 'rank'", "the name rewards is reserved"),
    ("[diversity]\nmethod = 'llm'\nthreshold = 0.5", "threshold has no effect with method llm"),
    ("[diversity]\nthreshold = nan", "nan is not a finite number"),
    ("[diversity]\ncomponents = [1]", "neither text nor a list of texts"),
    ("[diversity]\nmodel = 'm'", "unknown key 'model'"),
    ("[shaping]\nanswer_bonus = -1", "shaping.answer_bonus: -1.0 is out of bounds"),
    ("[shaping]\nstyle = 1", "unknown key 'style'"),
    ("[shaping]\ntop_percentile = 0.5", "top_percentile has no effect without reasoning_bonus"),
    ("[total]", "at least one component must have a weight above 0"),
    ("[total]\nweights = { genrm = -1 }", "total.weights.genrm: -1.0 is out of bounds"),
    ("[total]\nweights = { genrm = 1 }\noptional = ['x']", "'x' has no weight"),
]


def test_a_table_that_cannot_be_used_is_refused():
    """The message names the place and what is expected."""
    for toml, says in REFUSED:
        assert says in refusal(toml)


def test_a_short_that_cannot_be_used_is_refused():
    """The message names the setting."""
    cases = [
        ("tone", "component='tone': expected one of complementarity, consistency"),
        ("genrm:x", "genrm takes no option"),
        ("rubric", "requires set"),
        ("field:...", "cannot derive a name"),
        ("field:x.genrm", "give the component another name"),
    ]
    for short, says in cases:
        assert says in refusal("", short)


def test_a_name_may_be_given_once():
    """Two flags, or a flag and a table, cannot define the same component."""
    assert "'guard' is defined twice" in refusal("[components.guard]", "guard")
    assert "a table [components.NAME]" in refusal("", "rubric:a", "rubric:b")


def test_ranks_of_one_another_are_refused():
    """A cycle is named in the order in which each is the rank of the next."""
    tables = "".join(
        f"[components.{a}]\nkind = 'rank'\nof = '{b}'\n" for a, b in ("ab", "bc", "ca")
    )
    said = refusal(tables)
    assert any(
        f"depend on each other: {cycle};" in said
        for cycle in ("a of b of c of a", "b of c of a of b", "c of a of b of c")
    )
    assert "genrm_rank" not in said
    assert "depend on each other: a of a" in refusal("[components.a]\nkind = 'rank'\nof = 'a'")


def test_pairs_are_judged_only_where_something_is_made_of_verdicts():
    """The default reward, a weight, a gate or a requested component needs verdicts."""
    cases = [
        ("[components.guard]", True),
        ("[components.guard]\n[total]\nweights = { guard = 1 }", False),
        ("[components.guard]\n[total]\nweights = { guard = 1, genrm = 1 }", True),
        ("[components.guard]\n[total]\nweights = { guard = 1 }\ngates = { genrm = 2 }", True),
        ("[components.win_rate]\n[total]\nweights = { win_rate = 1 }", True),
        ("[components.rank]\n[total]\nweights = { rank = 1 }", True),
        (
            "[components.q]\nkind = 'field'\n[components.rank]\nof = 'q'\n[total]\nweights = "
            "{ rank = 1 }",
            False,
        ),
        ("[diversity]", True),
    ]
    for toml, asked in cases:
        settings = resolve(toml)
        assert needs_verdicts(settings.rewards.components, settings.rewards.total) is asked


def test_a_total_is_read():
    """Weights, gates and optional components."""
    toml = "weights = { genrm = 1, x = 0 }\ngates = { y = 0.5 }\noptional = ['x']"
    expected = TotalTable((("genrm", 1.0), ("x", 0.0)), (("y", 0.5),), ("x",))
    assert resolve(f"[total]\n{toml}").rewards.total == expected


SAME_REWARDS = [
    (
        "[components.c]\nkind = 'rubric'\nset = 's'",
        "api_key_env = 'K'\nconcurrency = 3\ncall_timeout = 9",
    ),
    ("[diversity]\nmethod = 'llm'", "base_url = 'http://x/v1'\njudge_id = 'j'"),
]
OTHER_REWARDS = [
    ("[components.c]\nkind = 'rubric'\nset = 's'", "model = 'm'"),
    ("[components.c]\nkind = 'rubric'\nset = 's'", "temperature = 0.5"),
    ("[components.c]\nkind = 'rubric'\nset = 's'", "json_schema = false"),
    ("[components.rank]", "ties = 'order'"),
    ("[shaping]", "answer_bonus = 0.1"),
    ("[diversity]", "threshold = 0.6"),
    ("[diversity]\nmethod = 'llm'", "model = 'm'"),
    ("[total]\nweights = { genrm = 1 }", "gates = { genrm = 1 }"),
]


def test_the_digest_follows_what_a_table_says_of_rewards():
    """A grader's endpoint and limits do not change the digest; everything else in a table does."""
    cases = [(*a, True) for a in SAME_REWARDS] + [(*b, False) for b in OTHER_REWARDS]
    for toml, more, same in cases:
        assert (digest_of(resolve(toml)) == digest_of(resolve(f"{toml}\n{more}"))) is same


def test_a_short_and_its_table_are_the_same_rewards():
    """Outputs made with one are up to date for the other."""
    assert digest_of(resolve("", "guard")) == digest_of(resolve("[components.guard]"))
    assert digest_of(resolve("", "guard")) != digest_of(resolve("", "form")) != digest_of(resolve())


def test_a_grader_is_the_runs_judge_with_what_its_table_says():
    """Another model is no longer the judge of that id; another endpoint gets no key of a panel's
    judge.
    """
    toml = """
        api_key_env = "RUN"
        judge_id = "ours"
        temperature = 0.7
        [components.a]
        kind = "rubric"
        set = "helpfulness"
        [components.b]
        kind = "rubric"
        set = "helpfulness"
        model = "other"
        temperature = 0
    """
    one, other = (
        seat.judge for seat in graders_of(resolve(f'model = "m"\nbase_url = "http://x/v1"\n{toml}'))
    )
    assert one.model == "m"
    assert one.judge_id == "ours"
    assert one.temperature == 0.7
    assert other.model == "other"
    assert other.judge_id is None
    assert other.temperature == 0
    panel = '[[judge]]\nmodel = "p"\nbase_url = "http://p/v1"\napi_key_env = "OWN"\n'
    elsewhere = toml.replace('model = "other"', 'base_url = "http://q/v1"')
    one, other = (seat.judge for seat in graders_of(resolve(f"{elsewhere}\n{panel}")))
    assert one.model == "p"
    assert one.base_url == ("http://p/v1",)
    assert one.api_key_env == "OWN"
    assert other.model == "p"
    assert other.base_url == ("http://q/v1",)
    assert other.api_key_env == "RUN"


def test_every_module_of_components_is_a_kind():
    """A kind is added with one module."""
    assert {
        "genrm",
        "win_rate",
        "rank",
        "consistency",
        "rubric",
        "field",
        "python",
    } < set(kind_names())
    assert all(isinstance(find_kind(name), ComponentKind) for name in kind_names())


def test_an_installed_package_registers_a_kind(install_package):
    """Its options are checked like those of the built-in kinds; an object of another type is
    refused by name.
    """
    source = (
        "from genrm_cli.rewards.component import Column, LocalKind\n"
        "from genrm_cli.settings import checks\n"
        "BREVITY = LocalKind(options={'most': checks.integer(1, 9)}, source='responses',\n"
        "    compute=lambda component, rollouts, records, ids: Column([1.0 for _ in rollouts]))\n"
        "WRONG = 3\n"
    )
    entries = {"brevity": "brief_kinds:BREVITY", "wrong": "brief_kinds:WRONG"}
    install_package("brief_kinds", source, {Seam.COMPONENTS: entries})
    (brevity,) = resolve("[components.brevity]\nmost = 3").rewards.components
    assert brevity == Component("brevity", "brevity", (("most", 3),))
    assert "must be between 1 and 9" in refusal("[components.brevity]\nmost = 30")
    assert "wrong = brief_kinds:WRONG of brief-kinds 1.0 is a int" in refusal("[components.wrong]")
