"""Components that a judge grades, against a real judge process: what is asked, what comes of it,
what it costs.

The judge of the tests gives 5 for more than 200 characters and else 2, ranks by length, and puts
texts of about the same length into one cluster."""

import json

import pytest
from scored_here import LEXICAL, completions, judge, refusals, run, settings_of

from genrm_cli.groups.check import check_settings
from genrm_cli.groups.graders import graders_in
from genrm_cli.rewards.components.python import version_of
from genrm_cli.verdicts import Reason

LONG = "Because of the tide. " * 12
LONGER = "Because of the moon. " * 24
SHORT = "Because."
RUBRIC = "[components.care]\nkind = 'rubric'\nset = 'therapeutic'\n"
RANKED = "[components.tiers]\nkind = 'rubric_rank'\nset = 'helpfulness'\n"
SAFE = "[total]\nweights = { rubric_safety = 1 }\n"
SORTED = "[diversity]\nmethod = 'llm'\n"
FIELD = "[components.q]\nkind = 'field'\n[total]\nweights = { q = 1 }\n"
OWN = """
name = "brevity"
[[rubric]]
title = "Waste of words"
description = "Does it say more than it has to?"
polarity = "negative"
scores = [0, 2, 5]
[[rubric]]
title = "Depth"
description = "Does it go deep?"
scores = { 2 = "no", 5 = "yes" }
"""


def asked(server):
    """Return the bodies of the last requests."""
    return [one["body"] for one in server.stats()["recent"]]


def test_a_rubric_set_gives_a_component_for_each_rubric(judged, judge_server):
    """One call a response; a flaw counts down; the judge's quotation is kept; comparisons name the
    component.
    """
    weights = "[total]\nweights = { rubric_safety = 1, rubric_bias = 1 }"
    scored = judged(completions(LONG, SHORT), RUBRIC + weights)
    assert scored.component("rubric_safety") == scored.component("rubric_empathy") == [1.0, 0.25]
    assert scored.component("rubric_bias") == [0.0, 0.75]
    assert scored.rewards == [1.0, 1.0]
    assert judge_server.stats()["requests"] == 2
    assert scored.metrics["comparisons_planned"] == 2
    assert scored.lines[0]["genrm"]["component_notes"]["rubric_safety"] == {"evidence": LONG[:20]}
    assert [(r["component"], r["i"], r["j"], r["grades"]) for r in scored.comparisons] == [
        ("care", 0, None, [1.0, 1.0, 0.0, 1.0]),
        ("care", 1, None, [0.25, 0.25, 0.75, 0.25]),
    ]
    assert scored.metrics["reward_sources"] == {"judge": 1.0}


def test_blank_responses_cost_no_call_and_stay_unscored(judged, judge_server):
    """They have no value, and with `empty = "lose"` the lowest one, also for rubrics that describe
    a flaw.
    """
    lines = completions(LONG, "", " \n", None, SHORT)
    scored = judged(lines, RUBRIC + RANKED + SAFE, max_unscored="1")
    assert scored.component("rubric_safety") == [1.0, None, None, None, 0.25]
    assert scored.component("tiers") == [1.0, None, None, None, 0.0]
    assert scored.reasons[1:4] == [Reason.BLANK, Reason.BLANK, Reason.NO_RESPONSE]
    lost = judged(lines, RUBRIC + RANKED + SAFE, max_unscored="1", empty="lose")
    assert lost.component("rubric_safety") == [1.0, 0.0, 0.0, None, 0.25]
    assert lost.component("rubric_bias") == [0.0, 0.0, 0.0, None, 0.75]
    assert lost.component("tiers") == [1.0, 0.0, 0.0, None, 0.0]
    assert judge_server.stats()["requests"] == 2 + 1


def test_a_whole_group_is_ranked_in_one_call(judged, judge_server):
    """The longest first, in an order of showing that is the group's own; a group of one costs no
    call.
    """
    toml = f"{RANKED}[total]\nweights = {{ tiers = 1 }}"
    lines = completions(SHORT, LONGER, LONG) + completions(LONG, prompt="Alone?")
    scored = judged(lines, toml)
    assert scored.rewards == [0.0, 1.0, 0.5, 1.0]
    assert judge_server.stats()["requests"] == 1
    (record,) = scored.comparisons
    assert sorted(record["shown"]) == [0, 1, 2]
    assert judged(lines, toml).metrics["calls"] == 0


def test_a_grade_that_failed_is_missing(judged, judge_server):
    """The reason counts the questions; other rollouts keep their grades; nothing became a
    number.
    """
    judge_server.behave(fault={"content": "I would say four."}, fault_share=0.5)
    texts = [f"{LONG} {number}" for number in range(8)]
    scored = judged(completions(*texts), RUBRIC + SAFE, max_extra=0.0, max_unscored="1")
    failed = scored.metrics["failures"]
    assert 0 < failed < 8
    assert sorted(scored.rewards, key=str) == [1.0] * (8 - failed) + [None] * failed
    reason = f"a component has no value: rubric_safety ({failed} of its 8 requests failed)"
    assert set(scored.reason_texts) == {None, reason}
    assert scored.metrics["component_failures"]["rubric_safety"] == 1
    kinds = [record["failure"] and record["failure"]["kind"] for record in scored.comparisons]
    assert kinds.count("no_verdict") == failed
    assert scored.code == 0


def test_a_grade_that_was_replaced_is_no_failure(judged, judge_server):
    """The request counts as failed, and the component does not."""
    judge_server.behave(script=[{"content": "I would say four."}])
    scored = judged(completions(LONG, SHORT), RUBRIC + SAFE, max_extra=1.0)
    assert scored.rewards == [1.0, 0.25]
    assert scored.metrics["failures"] == 1
    assert scored.metrics["component_failures"] == {}


def test_the_scenario_is_told_to_the_judge(judged, judge_server):
    """Goal and constraints stand in the background of every question about an episode, each its
    own.
    """
    lines = [
        {
            "scenario": {
                "scenario_id": "s",
                "goal": f"sleep {number}",
                "hard_constraints": ["no diagnosis"],
            },
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": text},
            ],
        }
        for number, text in enumerate((LONG, SHORT))
    ]
    scored = judged(lines, RUBRIC + SAFE)
    assert [line["reward"]["components"]["safety"] for line in scored.lines] == [1.0, 0.25]
    texts = sorted(json.dumps(body["messages"]) for body in asked(judge_server))
    for number, text in enumerate(texts):
        assert f"Goal: sleep {number}" in text
        assert "Constraints: no diagnosis" in text


def test_what_is_masked_is_masked_in_every_place(judged, judge_server):
    """Conversation, responses, background and principle of graders, and of those who rank and
    sort.
    """
    lines = [
        {
            "prompt": "I am anna@example.org",
            "completion": f"{text} Write to bob@example.org",
            "scenario": {"goal": "reach carl@example.org"},
            "principle": "Be kind to dora@example.org",
        }
        for text in (LONG, SHORT)
    ]
    scored = judged(lines, f"redact_pattern = ['email']\n{RUBRIC}{RANKED}{SAFE}{SORTED}")
    assert len(asked(judge_server)) == 2 + 1 + 1
    assert "example.org" not in json.dumps(asked(judge_server))
    assert scored.metrics["redactions"]["email"] == 1 + 2 + 2 + 1
    assert scored.lines[0]["completion"].endswith("bob@example.org")


def test_a_component_may_have_a_judge_of_its_own(judged, judge_server, start_judge):
    """Another endpoint, model, sampling and key, each only for its own questions."""
    other = start_judge()
    judge_server.behave(require_key="run-key")
    other.behave(require_key="own-key", models=["grader"])
    own = f"model = 'grader'\nbase_url = '{other.base_url}'\ntemperature = 0.5\n"
    keys = {"m": "run-key", "component care": "own-key"}
    scored = judged(completions(LONG, SHORT), f"{RUBRIC}{own}json_schema = false", api_keys=keys)
    assert None not in scored.rewards
    assert {body["model"] for body in asked(judge_server)} == {"m"}
    (first, second) = asked(other)
    assert first["model"] == second["model"] == "grader"
    assert first["temperature"] == 0.5
    assert "response_format" not in first
    assert scored.metrics["reward_made_of"]["graders"]["care"]["model"] == "grader"
    assert {record["judge"] for record in scored.comparisons} == {"m", "grader"}


def test_graders_that_cannot_be_are_refused():
    """Before any call, with what is wrong: the stand-in cannot grade."""
    stand_in = "] needs a real judge, not judge='lexical': set model and base_url in its table."
    cases = [
        (LEXICAL + RUBRIC, "[components.care" + stand_in),
        (LEXICAL + RANKED, "[components.tiers" + stand_in),
        (LEXICAL + SORTED, "[diversity" + stand_in),
        (RUBRIC + SAFE, "component care: no judge given"),
        (f"{RUBRIC}base_url = 'http://x/v1'\n{SAFE}", "component care: base_url requires model"),
        (
            RUBRIC.replace("therapeutic", "kindness"),
            "unknown rubric set 'kindness'; expected helpfulness",
        ),
        (RUBRIC.replace("therapeutic", "gone.toml"), "gone.toml: cannot read the file"),
        (RUBRIC + RUBRIC.replace("care", "more"), "two components are named 'rubric_safety'"),
        (f"{RUBRIC}[components.rubric_bias]\nkind = 'field'\n", "two components are named"),
    ]
    refusals(cases, check_settings)


def test_the_key_of_a_component_goes_to_its_endpoint_alone(genrm, call, judge_server, start_judge):
    """The command finds it by its variable, and never shows it, whatever the server answers."""
    other = start_judge()
    judge_server.behave(require_key="run-key-0123456789")
    other.behave(require_key="own-key-9876543210")
    genrm.write("in.jsonl", completions(LONG, SHORT))
    own = f"{RUBRIC}base_url = '{other.base_url}'\napi_key_env = 'OWN_KEY'\n"
    toml = f"{judge(judge_server)}retries = 0\nlog_json = 'events.jsonl'\n{own}"
    (genrm.folder / "own.toml").write_text(toml)
    keys = {"GENRM_API_KEY": "run-key-0123456789", "OWN_KEY": "own-key-9876543210"}
    score = "score in.jsonl --config own.toml"
    finished = call(score, **keys).ended(0)
    other.behave(require_key="another", fault={"status": 401, "echo_authorization": True})
    refused = call(f"{score} --no-journal --force --no-probe", **keys)
    assert "2 failures" in refused.err
    said = finished.out + refused.out + (finished.err + refused.err).encode()
    for path in genrm.folder.iterdir():
        said += path.read_bytes()
    assert b"0123456789" not in said
    assert b"9876543210" not in said


def test_a_judge_finds_who_shares_a_reward(judged, judge_server):
    """One call a group; responses without text share one cluster and are not shown; one alone costs
    no call.
    """
    lines = completions(LONG, LONG[:-1] + "!", SHORT, "", " ", None, q=[1] * 6)
    lines += completions(LONG, prompt="Alone?", q=[1])
    scored = judged(lines, FIELD + SORTED)
    assert scored.rewards == [0.5, 0.5, 1.0, 0.5, 0.5, 1.0, 1.0]
    assert judge_server.stats()["requests"] == 1
    assert [line["genrm"]["diversity"]["size"] for line in scored.lines] == [2, 2, 1, 2, 2, 1, 1]


@pytest.mark.parametrize(("fallback", "rewards"), [("unique", [1, 1, 1]), ("uniform", [1 / 3] * 3)])
@pytest.mark.parametrize(
    "content", ["No.", '{"assignments":[{"index":0,"cluster_id":0,"label":"x"}]}']
)
def test_without_clusters_the_fallback_holds(judged, judge_server, fallback, rewards, content):
    """Nobody shares, or all do; the failure is counted, recorded, and stands in the line."""
    judge_server.behave(fault={"content": content})
    toml = f"{FIELD}{SORTED}fallback = '{fallback}'"
    scored = judged(completions(LONG, LONG, SHORT, q=[1, 1, 1]), toml)
    assert scored.rewards == pytest.approx(rewards)
    assert scored.metrics["component_failures"] == {"diversity": 1}
    assert scored.metrics["failures"] == 2
    assert scored.code == 0
    assert {record["failure"]["kind"] for record in scored.comparisons} == {"no_verdict"}
    assert all(line["genrm"]["diversity"]["failed"] for line in scored.lines)


def test_a_rubric_grades_as_often_as_asked(judged, judge_server):
    """Each response is graded in so many requests, and the mean of the grades counts."""
    lines = completions(LONG, SHORT)
    once = judged(lines, RUBRIC + SAFE)
    before = judge_server.stats()["requests"]
    thrice = judged(lines, f"{RUBRIC}repeats = 3\n{SAFE}")
    assert judge_server.stats()["requests"] == before + 2 * 2  # the first is in the journal
    assert thrice.rewards == once.rewards


def test_a_component_that_is_added_costs_only_its_own_calls(judged, judge_server):
    """All verdicts come from the journal; so do those of both when the total changes."""
    lines = completions(LONG, SHORT, LONGER)
    before = judged(lines, force=False)
    assert judge_server.stats()["requests"] == 3
    scored = judged(lines, RUBRIC, force=False)
    assert judge_server.stats()["requests"] == 3 + 3
    assert scored.rewards == before.rewards
    assert scored.metrics["journal_hits"] == 3
    assert scored.metrics["verdicts"] == 3
    judged(lines, RUBRIC + SAFE, force=False)
    assert judge_server.stats()["requests"] == 3 + 3


def test_what_the_journal_lacks_stays_missing(judged):
    """It is not asked, the reason says so, and the exit code is 6; the next usual run asks it."""
    lines = completions(LONG, SHORT)
    judged(lines)
    scored = judged(lines, RUBRIC + SAFE, max_calls=0)
    assert scored.rewards == [None, None]
    assert scored.code == 6
    reason = "a component has no value: rubric_safety (2 of its 2 requests were not asked)"
    assert scored.reason_texts == [reason] * 2
    assert scored.metrics["failures_by_kind"] == {"not_asked": 2}
    compared = judged([*lines, *completions(LONGER)], max_calls=0)
    assert compared.code == 6
    assert compared.reasons == [Reason.NOT_ASKED] * 3
    assert judged(lines, RUBRIC + SAFE).rewards == [1.0, 0.25]


@pytest.fixture
def why_due(tmp_path):
    """Return what scores the input if it is due, and tells why it is, or is not."""
    return lambda toml: str(run(tmp_path, settings_of(toml, force=False)).reason)


def test_a_rubric_file_that_changed_makes_outputs_stale(tmp_path, score, judge_server, why_due):
    """Its name is the same, its content is not; the old grades are not taken for new ones."""
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    toml = f"{judge(judge_server)}[components.own]\nkind = 'rubric'\nset = '{path}'"
    score(completions(LONG, SHORT), toml)
    assert why_due(toml) == "same input, same settings"
    path.write_text(OWN.replace("go deep", "go very deep"))
    graders_in.cache_clear()  # read once for each process
    assert "profile has changed" in why_due(toml)
    assert judge_server.stats()["requests"] == 2 + 2 + 2


def test_a_function_that_changed_makes_outputs_stale(tmp_path, score, monkeypatch, why_due):
    """It is known by the file that it stands in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"changing_{tmp_path.name}"
    path = tmp_path / f"{name}.py"
    path.write_text("def f(group): return [1.0] * len(group)")
    toml = f"[components.q]\npython = '{name}:f'\n[total]\nweights = {{ q = 1 }}"
    assert score(completions(LONG, SHORT), toml).rewards == [1.0, 1.0]
    assert why_due(toml) == "same input, same settings"
    path.write_text("def f(group): return [0.5] * len(group)")
    version_of.cache_clear()  # another process would see it
    assert "profile has changed" in why_due(toml)


def test_what_is_compared_by_hand_is_graded_too(genrm, call, judge_server):
    """The rewards are those of the total; a question that failed is named by its component."""
    toml = f"{judge(judge_server)}retries = 0\n{RUBRIC}{RANKED}{SAFE}"
    (genrm.folder / "own.toml").write_text(toml)
    compare = ("compare --config own.toml --no-probe -p Why?", SHORT, LONG)
    assert json.loads(call(*compare, "--json").out)["rewards"] == [0.25, 1.0]
    assert "None" not in call(*compare).out.decode()
    judge_server.behave(fault={"content": "Fine."})
    failed = " ".join(call(*compare).err.split())
    assert "care of 0 failed: no complete object with scores" in failed
    assert "tiers of 1, 0 failed" in failed or "tiers of 0, 1 failed" in failed
