"""Names that users, policies and files choose pass every way out unchanged: each thing keeps its
own, and none is taken for another or for one of ours.
"""

import json
import re

import pytest
from report_pages import unpacked

from genrm_cli.products.export.formats import FORMATS
from genrm_cli.products.export.rows import TRL_READS

# Of fields, of objects in JavaScript and Python, of tables of ours; paths, controls, long ones.
NAMES = (
    *["rank", "reward", "group_id", "index", "total", "mean", "all", "tie", "null", "0", "-"],
    *["__proto__", "constructor", "toString", "hasOwnProperty", "length", "__class__", "items"],
    *["a.b", "a/b", "a:b", "a#b", "a=b", "a,b", "..", "{dir}", "%s", "\\", "'q'", '"q"'],
    *(" x", "x ", "x", "a\tb", "😀", "é", "e\u0301", "\u202etxt", "n" * 300),
    *("<svg/onload=x>", "</script>"),
)
OURS = ("reward", "genrm")
FILES = (
    "-x",
    "a b",
    "$(x)",
    "a&b",
    "#h",
    "?q",
    "[x]",
    "{dir}",
    "__proto__",
    "😀",
    "\u202etxt",
    "%s",
)


def named_lines(names=NAMES):
    """Make a group for each name, which is also the name of a policy and of a field."""
    return [
        {
            "prompt": f"Question of {number}?",
            "response": f"answer {index} " + "word " * index,
            "prompt_id": name,
            "policy": name if index else "base",
            "step": {name: number},
            **({} if name in OURS else {name: index}),
        }
        for number, name in enumerate(names)
        for index in range(2)
    ]


@pytest.fixture
def named(genrm, call):
    """Score a file of such lines."""
    genrm.write("in.jsonl", named_lines())
    call("score in.jsonl --offline --max-unscored 1").ended(0)
    return genrm.lines()


def test_a_scored_line_is_the_line_and_its_reward(named):
    """No name is lost, renamed or joined with another; `reward` and `genrm` are ours."""
    ours = dict.fromkeys(OURS, 1)
    assert [line | ours for line in named] == [line | ours for line in named_lines()]
    groups = {line["genrm"]["group"]: line["prompt_id"] for line in named}
    assert sorted(groups.values()) == sorted(NAMES)


@pytest.mark.slow
@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("to", FORMATS)
def test_every_format_has_every_group_and_kept_fields(to, genrm, call):
    """A field may have any name but those of a column that the format or its trainer reads."""
    kept = [name for name in NAMES if name == name.strip() and name != ".."]
    flags = [word for name in kept for word in ("--keep", f"step.{name}")]
    call(f"export in.scored.jsonl -o out.jsonl --to {to}", *flags).ended(0)
    rows = genrm.lines("out.jsonl")
    assert len(rows) >= len(NAMES)
    for name in kept:
        [column] = {f"step.{name}", f"step.{name}_chosen"} & rows[0].keys()
        assert any(row[column] not in (None, [None]) for row in rows)


@pytest.mark.parametrize("to", ["trl-sft", "trl-kto"])
def test_a_kept_field_never_stands_for_what_a_trainer_reads(to, genrm, call):
    """TRL takes tokens in place of texts, and tools, wherever a column has the name."""
    for name in sorted(TRL_READS):
        genrm.write("in.jsonl", [{**line, name: 1} for line in named_lines("a")])
        call(f"score in.jsonl --offline --force --ignore-fields {name}").ended(0)
        done = call(f"export in.scored.jsonl -o out.jsonl --to {to} --keep {name}").ended(2)
        assert f"--keep {name}: {name} is a column" in done.err


def test_a_ranking_has_every_policy(genrm, call):
    """A policy may be named like a figure, a row or a part of the ranking."""
    genrm.write("in.jsonl", named_lines())
    done = call("rank in.jsonl --policy-field policy --offline --json").ended(0)
    assert {row["name"] for row in json.loads(done.out)["policies"]} == {"base", *NAMES}


def test_an_evaluation_has_every_category(genrm, call):
    """A category may be named like a figure."""
    pair = {"chosen": "one", "rejected": "two words"}
    pairs = [{"prompt": f"{name}?", **pair, "category": name} for name in NAMES]
    genrm.write("pairs.jsonl", pairs)
    done = call("eval pairs.jsonl --offline --json").ended(0)
    assert set(json.loads(done.out)["by_category"]) == set(NAMES)


def test_a_report_has_every_group_and_no_markup_of_others(genrm, call, named):
    """The page's data are in inert blocks, and its script keeps names in no plain object."""
    call("report in.scored.jsonl").ended(0)
    page = genrm.text("in.report.html")
    index = unpacked(page, "index")
    keys = {row[index["columns"].index("key")] for row in index["groups"]}
    assert keys == {line["genrm"]["group"] for line in named}
    assert "<svg/onload" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["__proto__", "a/b", "😀", "n" * 300, "lexical"])
def test_a_judge_may_have_any_name(genrm, call, judge_server, name):
    """Line, record, journal and page name a judge as the user does."""
    genrm.write("in.jsonl", named_lines("a"))
    call(f"score in.jsonl --no-probe --base-url {judge_server.base_url} --model {name}").ended(0)
    assert genrm.metrics()["judge"]["name"] == name
    call("report in.scored.jsonl").ended(0)


def test_requests_are_named_by_digests(genrm, call_judged):
    """Whatever the names of groups are, a batch API takes the ids of their requests."""
    genrm.write("in.jsonl", named_lines())
    call_judged("score in.jsonl --requests-to requests.jsonl").ended(0)
    ids = [request["custom_id"] for request in genrm.lines("requests.jsonl")]
    assert len(set(ids)) == len(ids) == 2 * len(NAMES)
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in ids)


@pytest.mark.parametrize(
    "name", ["x", *(pytest.param(name, marks=pytest.mark.slow) for name in FILES)]
)
def test_a_file_may_have_any_name(name, genrm, call):
    """Outputs stand beside it under its name, and every product reads them; ids of rows tell files
    of one name apart.
    """
    for folder in ("one", "two"):
        (genrm.folder / folder).mkdir()
        genrm.write(f"{folder}/{name}.jsonl", named_lines("ab"))
        call("score", f"{folder}/{name}.jsonl", "--offline").ended(0)
    scored = [f"{folder}/{name}.scored.jsonl" for folder in ("one", "two")]
    call("report", *scored, "-o", "page.html").ended(0)
    call("rank", f"one/{name}.jsonl", f"two/{name}.jsonl", "--offline").ended(0)
    call("export", *scored, "--to", "groups", "-o", "out.jsonl").ended(0)
    ids = [each for row in genrm.lines("out.jsonl") for each in row["completion_ids"]]
    assert ids[0].startswith(f"{scored[0]}/")
    assert len(set(ids)) == len(ids) == 8
