"""Rewards of several parts from the command line: flags, what is said on the screen, exit codes."""

from genrm_process import make_rollouts, read_lines

LEXICAL = ("--judge", "lexical")


def said(text):
    """Return what was said, without its line breaks."""
    return " ".join(text.split())


def test_components_by_flags(genrm, call):
    """Rules, a rank and a field without any settings file, and where rewards come from."""
    episodes = genrm.sample("episodes.jsonl")
    flags = [
        part
        for short in ("guard", "form", "rank", "field:reward.total_reward")
        for part in ("--component", short)
    ]
    finished = call("score", episodes, *LEXICAL, *flags).ended(0)
    first = read_lines(genrm.folder / "episodes.scored.jsonl")[0]["genrm"]
    assert list(first["components"]) == [
        "genrm",
        "guard",
        "form",
        "rank",
        "total_reward",
    ]
    assert "made of 100% judge; judgements are advisory" in said(finished.err)


def test_what_a_component_is_not_fit_for_is_said(genrm, call):
    """Agreement of a few, and a share of wins where not all pairs were judged."""
    genrm.write("in.jsonl", make_rollouts(groups=2, size=4))
    flags = (
        *LEXICAL,
        "--component",
        "win_rate",
        "--component",
        "consistency:number",
        "--force",
    )
    err = said(call("score", "in.jsonl", *flags, "--strategy", "circular").err)
    assert (
        "consistency means little in groups of fewer than 8 rollouts; 2 groups of that size." in err
    )
    assert (
        "win_rate is wins / comparisons judged; --strategy circular does not judge all pairs" in err
    )
    err = said(call("score", "in.jsonl", *flags, "--strategy", "all_pairs").err)
    assert "not all pairs" not in err
    genrm.write("in.jsonl", make_rollouts(groups=1, size=8)[:8])
    assert "means little" not in said(call("score", "in.jsonl", *flags).err)


def test_a_function_is_tried_before_a_call_is_paid(genrm, call, judge_server):
    """On the first group that can be compared: not even the probe asks if the function does not
    return its values.
    """
    genrm.write(
        "in.jsonl", [{"prompt": "alone", "completion": "x"}, *make_rollouts(groups=1, size=4)]
    )
    (genrm.folder / "mine_42.py").write_text("def brevity(group):\n    return 4\n")
    finished = call(
        "score", "in.jsonl", *judge_server.flags, "--component", "python:mine_42:brevity"
    ).ended(2)
    assert (
        "component brevity: mine_42:brevity returned int, not a list of 4 values for the first "
        "group" in finished.err
    )
    assert judge_server.stats()["requests"] == 0
    assert "in.scored.jsonl" not in genrm.names()


def test_a_mistake_in_a_component_ends_with_2_before_anything(genrm, call):
    """A kind, a module or a rubric set that there is not: nothing is written, nothing asked."""
    genrm.write("in.jsonl", make_rollouts())
    before = genrm.names()
    for short, says in {
        "tone": "--component tone: expected one of",
        "python:no_such_module_at_all:f": "cannot be imported: ModuleNotFoundError",
        "rubric:kindness": "unknown rubric set 'kindness'",
        "rank:x": "rank: unknown component 'x'",
    }.items():
        finished = call("score", "in.jsonl", *LEXICAL, "--component", short).ended(2)
        assert says in said(finished.err)
    assert genrm.names() == before


def test_too_much_without_a_value_ends_with_6(genrm, call):
    """The outputs are there, and the message gives the reason by the component's name."""
    genrm.write("in.jsonl", make_rollouts())
    (genrm.folder / "genrm.toml").write_text(
        "[components.q]\nkind = 'field'\n[total]\nweights = { q = 1 }\n"
    )
    finished = call("score", "in.jsonl", "--config", "genrm.toml").ended(6)
    assert "8 × a component has no value" in said(finished.err)
    assert {line["reward"] for line in read_lines(genrm.folder / "in.scored.jsonl")} == {None}
