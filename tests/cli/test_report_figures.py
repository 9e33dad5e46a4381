"""What the page says in numbers is in the figures, too: nothing is computed for the page alone."""

import html
import json
import math
import re

from scored_lines import metrics, scored, verdict, write_lines

FAILURE = {
    "score_1": None,
    "score_2": None,
    "ranking": None,
}
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_WORDS = (  # numbers of the page's own sentences
    r"settings [0-9a-f]{12}",
    r"50 % is fair",
    r"reliability below 0\.5",
    r"p is below 0\.01",
    r"95 % interval",
)


def write_run(folder, name, shift, day):
    """Write a scored file with every kind of figure, its comparisons and its metrics."""
    lines = []
    asked = []
    for group in range(12):
        key = f"task:{'abcdefghijkl'[group]}"
        for index in range(4):
            reward = (
                None
                if group == 5 and index == 3
                else shift + (group * 7 + index * index * 3) % 11 / 3
            )
            text = "word " * (3 + index * group) + "**b**" * index
            components = {"safety": 1.0, "empathy": index / 7}
            more = {
                "components": components,
                "reliability": None if group == 1 else group / 13,
                "advantage": 0.1,
            }
            lines.append(scored(text, reward, group=key, index=index, size=4, **more))
        for i, j in ((0, 1), (1, 2), (2, 0), (1, 0), (2, 3)):
            asked.append(verdict(i, j, 1 + (i + group) % 5, 1 + (j * group) % 5, group=key))
        failure = {"kind": "not_asked" if group % 2 else "timeout", "detail": "x"}
        asked.append(verdict(3, 0, 0, 0, group=key) | FAILURE | {"failure": failure})
    panel = {
        "judges": [],
        "pairs": [],
        "krippendorff_alpha": 0.4321,
        "correlation": 0.217,
    }
    written = metrics(
        time=f"2026-11-0{day}T10:11:12+00:00", calls=1234, wall_time_s=77.2, prompt_tokens=98765
    )
    written |= {
        "repeat_agreement": 0.913,
        "pairs_of_repeats": 1000,
        "panel": panel,
        "redactions": {"email": 17},
    }
    (folder / f"{name}.metrics.json").write_text(json.dumps(written))
    write_lines(folder / f"{name}.comparisons.jsonl", asked)
    return write_lines(folder / f"{name}.scored.jsonl", lines)


def iter_numbers(value):
    """Yield every number in a JSON value in all the forms in which the page writes it, those in
    texts as they are.
    """
    if isinstance(value, dict):
        for each in value.values():
            yield from iter_numbers(each)
    elif isinstance(value, list):
        for each in value:
            yield from iter_numbers(each)
    elif isinstance(value, str):
        yield from _NUMBER.findall(value.replace(",", ""))
    elif value is not None and not isinstance(value, bool):
        for number in (abs(value), 100 * abs(value)):
            yield from (f"{number:.{digits}f}" for digits in range(4))
            # Ends of intervals are rounded outward.
            for digits in range(4):
                whole = math.floor(round(number * 10**digits, 6))
                yield from (f"{(whole + more) / 10**digits:.{digits}f}" for more in (0, 1))
            yield from (f"{number:.3g}", f"{number:.1g}")


def test_every_number_of_the_page_is_in_the_figures(genrm, call):
    """The overview of two runs and its charts hold no number that --json lacks."""
    for name, shift, day in (("before", 1.0, 1), ("after", 2.0, 2)):
        write_run(genrm.folder, name, shift, day)
    done = call("report before.scored.jsonl after.scored.jsonl -o out.html --json").ended(0)
    known = set(iter_numbers(json.loads(done.out)))
    page = genrm.text("out.html")
    overview = page[page.index('<section id="overview">') : page.index('<section id="list"')]
    overview = re.sub(
        r"<text [^>]*>[^<]*</text>", "", overview
    )  # axes: ends and middle of the edges
    text = re.sub(r"<[^>]*>", " ", overview.replace(",", ""))
    text = re.sub("|".join(_WORDS), "", text)
    shown = _NUMBER.findall(html.unescape(text))
    assert len(shown) > 400
    assert {number for number in shown if number not in known} == set()


def test_what_was_not_asked_is_no_failure(genrm, call, judge_server):
    """After --max-calls the figures tell comparisons without an answer from those that were never
    asked.
    """
    lines = [{"prompt": f"Question {n // 3}?", "completion": "word " * (n + 1)} for n in range(12)]
    genrm.write("in.jsonl", lines)
    call("score in.jsonl --profile nemotron --no-probe -q --max-calls 5", *judge_server.flags)
    run = json.loads(call("report in.scored.jsonl -o out.html --json").out)["runs"][0]
    assert run["verdicts"] == 5
    assert run["not_asked"] == 7
    assert run["failures"] == {}
    assert run["failed"]["count"] == 0
    assert run["failed"]["of"] == 5
    assert {
        "weight": "care",
        "text": "7 planned comparisons were not asked.",
        "tag": "not-asked",
    } in run["reasons"]
    assert "max_calls stopped the run" in run["partial"]
