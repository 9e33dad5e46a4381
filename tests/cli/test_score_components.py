"""Rewards of several parts from the command line: flags, what is said on the screen, exit codes."""


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
    finished = call("score --offline", episodes, *flags).ended(0)
    first = genrm.lines("episodes.scored.jsonl")[0]["genrm"]
    assert list(first["components"]) == [
        "genrm",
        "guard",
        "form",
        "rank",
        "total_reward",
    ]
    assert "made of 100% judge; judgements are advisory" in said(finished.err)


def test_a_mistake_in_a_component_ends_with_2_before_anything(genrm, call):
    """A kind, a module or a rubric set that there is not: nothing is written, nothing asked."""
    genrm.rollouts()
    before = genrm.names()
    for short, says in {
        "tone": "--component tone: expected one of",
        "python:no_such_module_at_all:f": "cannot be imported: ModuleNotFoundError",
        "rubric:kindness": "unknown rubric set 'kindness'",
        "rank:x": "rank: unknown component 'x'",
    }.items():
        finished = call("score in.jsonl --offline --component", short).ended(2)
        assert says in said(finished.err)
    assert genrm.names() == before


def test_too_much_without_a_value_ends_with_6(genrm, call):
    """The outputs are there, and the message gives the reason by the component's name."""
    genrm.rollouts()
    (genrm.folder / "genrm.toml").write_text(
        "[components.q]\nkind = 'field'\n[total]\nweights = { q = 1 }\n"
    )
    finished = call("score in.jsonl --config genrm.toml").ended(6)
    assert "8 × a component has no value" in said(finished.err)
    assert {line["reward"] for line in genrm.lines("in.scored.jsonl")} == {None}
