"""Rewards of several parts from the command line: flags, what is said on the screen, exit codes."""


def test_components_by_flags(genrm, call):
    """Rules, a rank and a field without any settings file, and where rewards come from."""
    genrm.sample("episodes.jsonl")
    components = ("guard", "form", "rank", "field:reward.total_reward")
    flags = " ".join(f"--component {each}" for each in components)
    finished = call(f"score episodes.jsonl --offline {flags}").ended(0)
    first = genrm.lines("episodes.scored.jsonl")[0]["genrm"]
    assert list(first["components"]) == ["genrm", "guard", "form", "rank", "total_reward"]
    said = " ".join(finished.err.split())
    assert "made of 100% judge; judgements are advisory" in said


def test_too_much_without_a_value_ends_with_6(genrm, call):
    """The outputs are there, and the message gives the reason by the component's name."""
    genrm.rollouts()
    field = "[components.q]\nkind = 'field'\n[total]\nweights = { q = 1 }\n"
    (genrm.folder / "genrm.toml").write_text(field)
    finished = call("score in.jsonl --config genrm.toml").ended(6)
    assert "8 × a component has no value" in " ".join(finished.err.split())
    assert {line["reward"] for line in genrm.lines()} == {None}
