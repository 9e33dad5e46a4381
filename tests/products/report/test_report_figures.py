"""What the page says in numbers is in the figures, too: nothing is computed for the page alone."""

import html
import json
import math
import re

from scored_lines import metrics, scored, verdict, write_lines

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
# Numbers of the page's own sentences.
_WORDS = r"settings [0-9a-f]{12}|50 % is fair|reliability below 0\.5|p is below 0\.01|95 % interval"


def write_run(genrm, name, shift, day):
    """Write a scored file with every kind of figure, its comparisons and its metrics."""
    lines = []
    asked = []
    for group, letter in enumerate("abcdefghijkl"):
        key = f"task:{letter}"
        for index in range(4):
            is_unscored = group == 5 and index == 3
            reward = None if is_unscored else shift + (group * 7 + index * index * 3) % 11 / 3
            text = "word " * (3 + index * group) + "**b**" * index
            more = {
                "components": {"safety": 1.0, "empathy": index / 7},
                "reliability": None if group == 1 else group / 13,
                "advantage": 0.1,
            }
            lines.append(scored(text, reward, group=key, index=index, size=4, **more))
        for i, j in ((0, 1), (1, 2), (2, 0), (1, 0), (2, 3)):
            asked.append(verdict(i, j, 1 + (i + group) % 5, 1 + (j * group) % 5, group=key))
        failure = {"kind": "not_asked" if group % 2 else "timeout", "detail": "x"}
        missing = dict.fromkeys(("score_1", "score_2", "ranking"), None)
        asked.append(verdict(3, 0, 0, 0, group=key) | missing | {"failure": failure})
    panel = {"judges": [], "pairs": [], "krippendorff_alpha": 0.4321, "correlation": 0.217}
    written = metrics(
        time=f"2026-11-0{day}T10:11:12+00:00",
        calls=1234,
        wall_time_s=77.2,
        prompt_tokens=98765,
        repeat_agreement=0.913,
        pairs_of_repeats=1000,
        panel=panel,
        redactions={"email": 17},
    )
    write_lines(genrm.folder / f"{name}.metrics.json", [written])
    write_lines(genrm.folder / f"{name}.comparisons.jsonl", asked)
    write_lines(genrm.folder / f"{name}.scored.jsonl", lines)


def iter_numbers(value):
    """Yield every number in a JSON value in all the forms in which the page writes it, those in
    texts as they are.
    """
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from iter_numbers(each)
    elif isinstance(value, str):
        yield from _NUMBER.findall(value.replace(",", ""))
    elif value is not None and not isinstance(value, bool):
        for number in (abs(value), 100 * abs(value)):
            yield from (f"{number:.3g}", f"{number:.1g}")
            for digits in range(4):
                yield f"{number:.{digits}f}"
                # Ends of intervals are rounded outward.
                whole = math.floor(round(number * 10**digits, 6))
                yield from (f"{each / 10**digits:.{digits}f}" for each in (whole, whole + 1))


def test_every_number_of_the_page_is_in_the_figures(genrm, call):
    """The overview of two runs and its charts hold no number that --json lacks."""
    for name, shift, day in (("before", 1.0, 1), ("after", 2.0, 2)):
        write_run(genrm, name, shift, day)
    done = call("report before.scored.jsonl after.scored.jsonl -o out.html --json").ended(0)
    known = set(iter_numbers(json.loads(done.out)))
    page = genrm.text("out.html")
    overview = page[page.index('<section id="overview">') : page.index('<section id="list"')]
    # Texts of axes are ends and middle of the edges.
    overview = re.sub(r"<text [^>]*>[^<]*</text>", "", overview)
    text = re.sub(_WORDS, "", re.sub(r"<[^>]*>", " ", overview.replace(",", "")))
    shown = _NUMBER.findall(html.unescape(text))
    assert len(shown) > 400
    assert set(shown) - known == set()
