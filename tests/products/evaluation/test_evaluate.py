import json
import re
from pathlib import Path

import pytest

from genrm_cli.cli.options import run_to_end
from genrm_cli.errors import (
    ChangedInputError,
    InputError,
    JudgeError,
    TooManyUnscoredError,
    UsageError,
)
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.judging_session import PlanEvent
from genrm_cli.products.evaluation.evaluate import EvalResult, evaluate_judge, refuse_partial
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings import Settings, changed, settings_from
from genrm_cli.typed_json import from_json


def make_pairs(longer_right=3, shorter_right=2):
    """Make pairs whose better answer is the longer or the shorter one."""
    long = "word " * 12
    sides = [(long, "word")] * longer_right + [("word", long)] * shorter_right
    return [
        {
            "id": number,
            "prompt": f"Q{number}?",
            "chosen": f"{one}!",
            "rejected": other,
            "subset": "s",
        }
        for number, (one, other) in enumerate(sides)
    ]


def write(path, records):
    """Write lines; what is a text is written as it is."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def settings_for(server, **given):
    """Return settings for the local judge that ask once and do not wait."""
    return settings_from(
        base_url=(server.base_url,),
        model="m",
        **{"probe": False, "retries": 0, "use_journal": False, **given},
    )


def evaluate(uri, settings, result_uri=None):
    """Evaluate and return the result."""
    return to_json(run_to_end(evaluate_judge(uri, result_uri, new_run(settings))))


def refuse(result):
    """Refuse a result as the command does."""
    refuse_partial(from_json(EvalResult, result), Settings())


def test_what_the_judge_is_shown_and_what_is_recorded(tmp_path, judge_server):
    """Each pair is asked in both orders, and its record has the result of each."""
    uri = write(tmp_path / "pairs.jsonl", make_pairs(1, 0))
    result = evaluate(uri, settings_for(judge_server, concurrency="1", profile="nemotron"))
    recent = judge_server.stats()["recent"]
    shown = [[turn["content"] for turn in one["body"]["messages"]] for one in recent]
    assert shown == [["Q0?", "word " * 12 + "!", "word"], ["Q0?", "word", "word " * 12 + "!"]]
    (pair,) = result["pairs"]
    assert (pair["id"], pair["category"], pair["line"]) == ("0", "s", 1)
    assert (pair["chosen_chars"], pair["rejected_chars"]) == (61, 4)
    assert (pair["chosen_first"]["result"], pair["chosen_second"]["result"]) == ("right", "right")
    assert [pair["chosen_second"][name] for name in ("score_1", "score_2", "ranking")] == [1, 5, 6]
    assert result["judge"]["name"] == "m"
    assert result["judge"]["profile"] == "nemotron"
    assert set(result["by_category"]) == {"s"}
    assert result["figures"]["calls_per_judgement"] == 1
    assert result["figures"]["latency_median_s"] > 0


def test_judges_are_told_what_the_labelled_line_has_for_them(tmp_path, judge_server):
    """Reference and rubric come from the line, whatever other names are in it; one without them is
    rejected.
    """
    given = {"answer": {"text": "forty-two"}, "criteria": ["Be exact."], "response": "mine"}
    others = {"reward": 1.0, "step": 3, "messages": [{"role": "user", "content": "other"}]}
    lines = [pair | given | others for pair in make_pairs(1, 1)]
    uri = write(tmp_path / "pairs.jsonl", [*lines, *make_pairs(0, 3)[1:2]])
    fields = {"reference_field": "answer.text", "rubric_field": "criteria"}
    result = evaluate(uri, settings_for(judge_server, **fields))
    assert (result["figures"]["verdicts"], result["rejected_lines"]) == (4, 1)
    shown = [json.dumps(one["body"]["messages"]) for one in judge_server.stats()["recent"]]
    assert [("forty-two" in text, "Be exact." in text) for text in shown] == [(True, True)] * 4


def test_replies_without_a_verdict_are_failures_with_a_kind(tmp_path, judge_server):
    """Unreadable replies are counted by kind and never as wrong, and nothing is asked in their
    place; a judge without any verdict is exit code 6.
    """
    uri = write(tmp_path / "pairs.jsonl", make_pairs(2, 0))
    judge_server.behave(
        script=[{"content": "no idea"}, {"content": None, "finish_reason": "length"}]
    )
    given = {"concurrency": "1", "profile": "nemotron", "max_extra": 1.0}
    settings = settings_for(judge_server, **given)
    result = evaluate(uri, settings)
    figures = result["figures"]
    assert result["calls"] == 4
    assert figures["failures_by_kind"] == {"no_verdict": 1, "truncated": 1}
    assert (figures["failure_rate"], figures["accuracy"]["value"]) == (0.5, 1.0)
    refuse(result)
    judge_server.behave(fault={"content": "no idea"})
    with pytest.raises(TooManyUnscoredError, match="4 × no_verdict"):
        refuse(evaluate(uri, settings))


def test_a_second_run_asks_nothing_again(tmp_path, judge_server):
    """The journal beside the result knows every verdict, with what it cost; the figures are the
    same.
    """
    uri = write(tmp_path / "pairs.jsonl", make_pairs())
    result_uri = str(tmp_path / "out.json")
    first = evaluate(uri, settings_for(judge_server, use_journal=True), result_uri)
    assert (tmp_path / "out.journal.sqlite").exists()
    again = evaluate(uri, settings_for(judge_server, use_journal=True, force=True), result_uri)
    assert judge_server.stats()["requests"] == first["calls"] == 10
    assert (again["calls"], again["journal_hits"]) == (0, 10)
    for name in (
        "accuracy",
        "calls_per_judgement",
        "prompt_tokens_per_judgement",
        "latency_median_s",
    ):
        assert again["figures"][name] == pytest.approx(first["figures"][name]), name
    assert json.loads(Path(result_uri).read_bytes()) == again


def test_a_budget_leaves_a_partial_result(tmp_path, judge_server):
    """What was not asked counts nowhere; the result says it is partial, and the command would end
    with 6.
    """
    uri = write(tmp_path / "pairs.jsonl", make_pairs(3, 0))
    settings = settings_for(judge_server, concurrency="1", max_calls=3)
    result = evaluate(uri, settings)
    assert (result["partial"], result["stopped_by"]) == (True, "max_calls")
    assert (result["figures"]["verdicts"], result["figures"]["not_asked"]) == (3, 3)
    assert result["figures"]["accuracy"]["value"] == 1.0
    with pytest.raises(TooManyUnscoredError, match="max_calls"):
        refuse(result)


def test_a_judge_that_is_down_leaves_no_result(tmp_path, judge_server):
    """A connection that is refused ends the run, and nothing is written."""
    uri = write(tmp_path / "pairs.jsonl", make_pairs())
    result_uri = tmp_path / "out.json"
    settings = settings_from(
        base_url=("http://127.0.0.1:9/v1",), model="m", use_journal=False, give_up_after=0.2
    )
    with pytest.raises(JudgeError):
        evaluate(uri, settings, str(result_uri))
    assert not result_uri.exists()


def test_bad_lines_are_named_and_the_rest_is_evaluated(tmp_path):
    """Lines that hold no pair, or one that was there before, are rejects with number and reason;
    --strict refuses.
    """
    pairs = make_pairs(1, 1)
    again = {**pairs[0], "id": "again"}
    lines = ["{", {"prompt": "Q?"}, pairs[0], "", again, pairs[1], json.dumps("x" * 2_000)]
    uri = write(tmp_path / "pairs.jsonl", lines)
    result = evaluate(uri, settings_from(judge="lexical", max_line_bytes=1_000))
    assert [pair["line"] for pair in result["pairs"]] == [3, 6]
    reasons = {reject["line"]: reject["reason"] for reject in result["rejects"]}
    assert list(reasons) == [1, 2, 5, 7]
    assert "not JSON" in reasons[1]
    assert "no labelled pair" in reasons[2]
    assert reasons[5] == "the same pair as in line 3"
    assert "--max-line-bytes 1000" in reasons[7]
    assert (result["lines"], result["rejected_lines"]) == (6, 4)
    with pytest.raises(InputError, match=r"4 bad lines \(line 1: not JSON"):
        evaluate(uri, settings_from(judge="lexical", max_line_bytes=1_000, strict=True))


@pytest.mark.parametrize("lines", [[], ["{"], [{"prompt": "Q?", "completion": "a"}]])
def test_an_input_without_a_pair_is_refused(tmp_path, lines):
    """An empty file, and one that holds something else, end with what was expected."""
    with pytest.raises(InputError, match="is a labelled pair"):
        evaluate(write(tmp_path / "pairs.jsonl", lines), settings_from(judge="lexical"))


def test_an_error_of_the_job_names_the_labelled_pairs(tmp_path):
    """What it asks about is written to a file of its own, which nobody knows."""
    uri = write(tmp_path / "pairs.jsonl", make_pairs())
    with pytest.raises(InputError, match=f"^{re.escape(uri)}: no response has a value under"):
        evaluate(uri, settings_from(judge="lexical", answer_field="x"))


def test_what_must_be_declared_or_masked_holds_here_too(tmp_path, judge_server):
    """Pairs that do not declare what they must are not sent, and matches are masked in all that is
    sent.
    """
    mail = {"prompt": "Mail a@example.org", "chosen": "to a@example.org", "rejected": "no"}
    pair = {**mail, "synthetic": True}
    uri = write(tmp_path / "pairs.jsonl", [*make_pairs(1, 0), pair])
    rules = {"require_metadata": ("synthetic=true",), "redact_pattern": ("email",)}
    result = evaluate(uri, settings_for(judge_server, **rules))
    assert (result["rejected_lines"], result["redactions"]) == (1, {"email": 2})
    assert "a@example.org" not in json.dumps(judge_server.stats()["recent"])


@pytest.mark.parametrize("change", [(9, 9), (1, 0), (2, 3), (3, 2)])
def test_pairs_that_change_while_they_are_judged_give_no_result(tmp_path, judge_server, change):
    """More pairs, fewer, others or the same written anew: what was judged may be neither the old
    nor the new ones.
    """
    uri = write(tmp_path / "pairs.jsonl", make_pairs())
    result_uri = tmp_path / "out.json"

    def on_event(event):
        if isinstance(event, PlanEvent):
            write(Path(uri), make_pairs(*change))

    run = new_run(settings_for(judge_server), on_event=on_event)
    with pytest.raises(ChangedInputError):
        run_to_end(evaluate_judge(uri, str(result_uri), run))
    assert not result_uri.exists()


def test_defaults_in_the_place_of_verdicts_are_refused(tmp_path):
    """`compat` would make failures look like ties."""
    uri = write(tmp_path / "pairs.jsonl", make_pairs())
    with pytest.raises(UsageError, match="compat"):
        evaluate(uri, settings_from(judge="lexical", compat="nemo-gym"))


def test_a_result_is_not_replaced_unasked(tmp_path):
    """What exists stays without --force, and the input is never the output."""
    uri = write(tmp_path / "pairs.jsonl", make_pairs())
    result_uri = tmp_path / "out.json"
    result_uri.write_text("mine")
    with pytest.raises(UsageError, match="force"):
        evaluate(uri, settings_from(judge="lexical"), str(result_uri))
    assert result_uri.read_text() == "mine"
    with pytest.raises(UsageError, match="is an input"):
        evaluate(uri, settings_from(judge="lexical", force=True), uri)


def test_best_of_four_counts_prompts(tmp_path):
    """A line with one better answer and three others is one choice among four."""
    others = ["a word", "two more words", "a few more words still"]
    chosen = ["The sky is blue because air scatters blue light more than red light."]
    line = {"prompt": "Why is the sky blue?", "chosen": chosen, "rejected": others}
    result = evaluate(write(tmp_path / "pairs.jsonl", [line]), settings_from(judge="lexical"))
    assert result["figures"]["pairs"] == 3
    share = result["benchmarks"]["RewardBench 2"]["share"]
    assert (share["value"], share["pairs"]) == (1, 1)


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ASKED = [{"role": "user", "content": [{"type": "text", "text": "What is "}, PICTURE]}]
PICTURED = [
    {"prompt": ASKED, "chosen": "a cat", "rejected": "a dog"},
    {
        "prompt": "Draw it.",
        "chosen": [{"role": "assistant", "content": [PICTURE]}],
        "rejected": "no",
    },
    {"chosen": [*ASKED, {"role": "assistant", "content": "a cat"}], "rejected": "a cow"}
    | {"rejected": [*ASKED, {"role": "assistant", "content": "a cow"}]},
]


def test_images_are_shown_in_their_places(tmp_path, judge_server):
    """Of the prompt, of an answer, and of messages that hold both, as `genrm score` shows them."""
    uri = write(tmp_path / "pairs.jsonl", PICTURED)
    settings = settings_for(judge_server, images=True)
    result = evaluate(uri, settings)
    assert (result["figures"]["verdicts"], result["rejected_lines"]) == (6, 0)
    for one in judge_server.stats()["recent"]:
        parts = [part for m in one["body"]["messages"] for part in m["content"]]
        assert [part for part in parts if part["type"] == "image_url"] == [PICTURE]
        assert "[image" not in "".join(part.get("text", "") for part in parts)


@pytest.mark.parametrize("line", [*PICTURED, {**make_pairs()[1], "images": [{"path": "a.png"}]}])
def test_a_judge_that_would_not_see_an_image_is_not_asked(tmp_path, judge_server, line):
    """The line is rejected with the remedy, and judged without its images on request."""
    uri = write(tmp_path / "pairs.jsonl", [*make_pairs(1, 0), line])
    settings = settings_for(judge_server)
    result = evaluate(uri, settings)
    (reject,) = result["rejects"]
    assert reject["line"] == 2
    assert "the judge would not see its image" in reject["reason"]
    assert reject["reason"].endswith("set --images if it sees images, or --ignore-media")
    ignored = evaluate(uri, changed(settings, ignore_media=True))
    assert (ignored["figures"]["verdicts"], ignored["rejected_lines"]) == (4, 0)
