"""The page in a real browser, offline and opened from disk."""

from pathlib import Path
from typing import Any

import pytest
from genrm_process import SAMPLE_DATA, Genrm
from hostile_texts import TEXTS
from scored_lines import scored, verdict, write_lines

pytestmark = pytest.mark.browser
HOW = "pip install playwright, and apt-get install chromium"
CHROMIUM = next(
    (path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(path).exists()),
    None,
)
_INJECTIONS = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "[a](javascript:alert(1)) <a href=javascript:alert(1)>b</a>",
    "```html\n<svg onload=alert(1)>\n```\n# <b>bold</b>\n**<i>x</i>** `<iframe src=//example.org>`",
    "<!--blocks--> {{ 7 * 7 }} {% raw %}",
    "__proto__ constructor \u0000 \u202e",
]
_FAINT = """() => {
    const light = (rgb) => {
        const [r, g, b] = rgb.map((v) => v / 255).map(
            (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
    const behind = (each) => {
        for (let at = each; at; at = at.parentElement) {
            const found = rgba(getComputedStyle(at).backgroundColor);
            if (found.length < 4 || found[3] > 0.99) return found.slice(0, 3);
        }
        return [255, 255, 255];
    };
    return [...document.querySelectorAll("body *")].filter((each) => {
        const words = [...each.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
        if (!words || !each.getClientRects().length) return false;
        const style = getComputedStyle(each);
        const colour = light(rgba(each.ownerSVGElement ? style.fill : style.color).slice(0, 3));
        const ground = light(behind(each.ownerSVGElement?.parentElement ?? each));
        const [low, high] = [colour, ground].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05) < 4.5;
    }).map((each) => each.outerHTML.slice(0, 80));
}"""
_CUT = """() => [...document.querySelectorAll(".scroll, table")].filter((each) => {
    const hides = getComputedStyle(each).overflowX !== "visible";
    const box = each.getBoundingClientRect();
    const room = 1.25 * innerWidth;  // browsers shrink a page by as much
    return box.width && ((hides && each.scrollWidth > each.clientWidth) || box.right > room);
}).map((each) => each.outerHTML.slice(0, 80))"""
_FOCUS = """() => {
    const style = getComputedStyle(document.activeElement);
    const box = document.activeElement.getBoundingClientRect();
    return {
        outlined: style.outlineStyle !== "none",
        within: box.top >= 0 && box.bottom <= innerHeight,
    };
}"""
CORPUS = [*TEXTS, *_INJECTIONS]
CORPUS += ["plain"] * (-len(CORPUS) % 4)  # groups of four


@pytest.fixture(scope="module")
def browser():
    """Start Debian's Chromium; skip where it or Playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason=f"needs {HOW}")
    if CHROMIUM is None:
        pytest.skip(f"needs {HOW}")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


class Opened:
    """A page with all that it said and asked for."""

    def __init__(
        self, browser: Any, path: Path, *, width: int = 1400, ready: str = "html[data-ready]"
    ) -> None:
        self.said: list[str] = []
        self.ready = ready
        self.page = browser.new_context(
            offline=True, viewport={"width": width, "height": 900}
        ).new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on(
            "request",
            lambda sent: self.said.append(sent.url) if not sent.url.startswith("file:") else None,
        )
        self.url = path.as_uri()
        self.visit("")

    def visit(self, fragment: str) -> None:
        """Open the page at a fragment, as a deep link does."""
        self.page.goto("about:blank")
        self.page.goto(self.url + fragment)
        self.page.wait_for_selector(self.ready, state="attached")

    @property
    def text(self) -> str:
        """What is visible."""
        return str(self.page.inner_text("main"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make pages of the sample and of hostile texts."""
    folder = tmp_path_factory.mktemp("pages")
    genrm = Genrm(folder)
    genrm.run(
        "score",
        SAMPLE_DATA / "rollouts.jsonl",
        "--offline",
        "--keep-replies",
        "-o",
        "sample.scored.jsonl",
    )
    genrm.run("report", "sample.scored.jsonl")
    (folder / "grid.toml").write_text("[axes]\nrepeats = [1, 2]\n", encoding="utf-8")
    cells = ("--judge", "lexical", "--grid", "grid.toml", "--page", "grid.html")
    assert genrm.run("eval", SAMPLE_DATA / "labelled-pairs.jsonl", *cells).code == 0
    policies = [
        {"prompt": f"Question {n}?", "response": f"{name} {n}", "model": f"{name}-of-step-1200"}
        for n in range(25)
        for name in ("a-checkpoint", "another-checkpoint")
    ]
    genrm.write("policies.jsonl", policies)
    ranked = ("--policy-field", "model", "--offline", "--report", "rank.html")
    assert genrm.run("rank", "policies.jsonl", *ranked).code == 0
    genrm.write("large.jsonl", [{"prompt": "Why?", "response": f"Reason {n}."} for n in range(24)])
    every = ("--offline", "--strategy", "all_pairs", "-o", "large.scored.jsonl")
    assert genrm.run("score", "large.jsonl", *every).code == 0
    assert genrm.run("report", "large.scored.jsonl").code == 0
    lines = [
        scored(
            text,
            float(place),
            group=f"<b>{place // 4}</b>",
            index=place % 4,
            prompt=text,
            reason_text=text,
        )
        for place, text in enumerate(CORPUS)
    ]
    replies = [
        verdict(0, 1, 5, 2, group=f"<b>{place // 4}</b>", reply=text, judge=text)
        for place, text in enumerate(CORPUS)
        if place % 4 == 0
    ]
    write_lines(folder / "hostile.scored.jsonl", lines)
    write_lines(folder / "hostile.comparisons.jsonl", replies)
    assert genrm.run("report", "hostile.scored.jsonl", "-o", "hostile.html").code == 0
    return folder


def test_the_overview_opens_from_disk_without_a_request(browser, folder):
    """Nothing is fetched and no error is logged; the answer is the first thing on the page."""
    opened = Opened(browser, folder / "sample.report.html")
    assert "Can I train on this?" in opened.text
    assert opened.said == []


def test_a_bar_leads_to_its_groups_and_a_cell_to_the_words(browser, folder):
    """Every number is a link: from a histogram to a list, to a group, to what the judge said of a
    pair.
    """
    opened = Opened(browser, folder / "sample.report.html")
    opened.page.locator("figure a").first.click()
    opened.page.wait_for_selector("#list tbody tr")
    opened.page.locator("#list tbody a").first.click()
    opened.page.wait_for_selector("[data-pair]")
    opened.page.locator("[data-pair]").first.click()
    assert "shown first" in opened.text
    assert "baseline counts words" in opened.text
    assert opened.page.locator(".diff mark").count() > 2
    assert opened.said == []


def test_a_head_sorts_the_list_and_a_range_of_rewards_filters_it(browser, folder):
    """A click sorts by a column, the next one turns the order round; both are part of the link."""
    opened = Opened(browser, folder / "sample.report.html")
    opened.visit("#list=")
    head = opened.page.locator("#list th button", has_text="mean")
    head.click()
    opened.page.wait_for_selector("th[aria-sort=ascending]")
    first = opened.page.locator("#list tbody tr").first.inner_text()
    head.click()
    opened.page.wait_for_selector("th[aria-sort=descending]")
    rows = opened.page.locator("#list tbody tr")
    assert rows.first.inner_text() != first
    count = rows.count()
    opened.page.locator("#min").fill("4.03")
    opened.page.locator("#min").press("Enter")
    opened.page.wait_for_function(
        "document.querySelector('#list p').textContent.includes('from 4.03 to the highest')"
    )
    assert 0 < opened.page.locator("#list tbody tr").count() < count
    assert "min=4.03" in opened.page.url
    assert opened.said == []


def test_the_overview_needs_no_script(browser, folder):
    """With scripts off, the answer, the figures and the groups to look at are there, with their
    prompts.
    """
    page = browser.new_context(offline=True, java_script_enabled=False).new_page()
    page.goto((folder / "sample.report.html").as_uri())
    text = page.inner_text("main")
    for words in (
        "Can I train on this?",
        "Rewards in numbers",
        "Look here",
        "the difference between simple and compound",
    ):
        assert words in text


def test_keys_and_search_find_groups(browser, folder):
    """j opens the next group; the search looks into prompts and responses."""
    opened = Opened(browser, folder / "sample.report.html")
    opened.visit("#group=task%3A6")
    first = opened.page.inner_text("#group h2")
    opened.page.keyboard.press("j")
    opened.page.wait_for_function(
        "(old) => document.querySelector('#group h2').textContent !== old", arg=first
    )
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("Okafor\n")
    opened.page.wait_for_selector("#list tbody tr")
    opened.page.wait_for_function(
        "document.querySelector('#list p').textContent.includes('of 7 groups searched')"
    )
    assert opened.page.locator("#list tbody tr").count() == 1
    assert opened.said == []


def test_hostile_texts_are_shown_as_text(browser, folder):
    """The whole corpus as prompts, responses, judges and replies: no request, dialog, error or
    foreign element.
    """
    opened = Opened(browser, folder / "hostile.html")
    keys = [f"<b>{number}</b>" for number in range(len(CORPUS) // 4)]
    opened.visit("#list=")
    opened.page.wait_for_selector("#list tbody tr")
    assert opened.page.locator("#list tbody tr").count() == len(keys)
    for key in keys:
        for raw in ("", "&raw="):
            opened.page.evaluate(
                "(hash) => { location.hash = hash; }", f"group={key}{raw}".replace("<", "%3C")
            )
            opened.page.wait_for_function(
                "(key) => document.querySelector('#group h2')?.textContent === key", arg=key
            )
            opened.page.locator("[data-pair]").first.click()
            assert (
                opened.page.locator(
                    "main :is(img, script, iframe, b b, i, [onload], [onerror])"
                ).count()
                == 0
            )
            assert opened.page.locator("main a:not([href^='#'])").count() == 0
    assert "__proto__ constructor" in opened.text
    assert opened.said == []


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_of_a_grid_opens_from_disk_without_a_request(browser, folder, width):
    """Answer, chart and tables are there without a script, and nothing is wider than the window."""
    opened = Opened(browser, folder / "grid.html", width=width, ready="polyline.line")
    for words in ("Which judge, how asked?", "repeats 2", "prefers the first place", "seconds"):
        assert words in opened.text
    assert opened.page.locator("circle.dot").count() == 4
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.said == []


@pytest.mark.parametrize("fragment", ["", "#list=", "#group=task%3A6"])
def test_a_phone_shows_all_pages_without_scrolling_sideways(browser, folder, fragment):
    """At 400 pixels nothing but tables is wider than the window, and those scroll by themselves."""
    opened = Opened(browser, folder / "sample.report.html", width=400)
    opened.visit(fragment)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["sample.report.html", "grid.html", "rank.html"])
def test_all_text_stands_out_from_its_background(browser, folder, name, width, scheme):
    """WCAG's ratio of 4.5 in both schemes, and nothing is wider than the window."""
    context = browser.new_context(
        offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = context.new_page()
    page.goto((folder / name).as_uri())
    page.wait_for_selector("svg, table")
    assert page.evaluate(_FAINT) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", ["large.report.html#list=", "grid.html", "rank.html"])
def test_a_printed_page_is_light_and_cuts_no_table(browser, folder, name):
    """Whatever the screen's scheme is, paper is white, and no part of a table lies beyond A4."""
    file, _, fragment = name.partition("#")
    opened = Opened(browser, folder / file, width=718, ready="table")
    if fragment:
        opened.visit(f"#{fragment}")
        opened.page.locator("#list tbody a").first.click()
        opened.page.wait_for_selector("[data-pair]")
    opened.page.emulate_media(media="print", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert opened.page.evaluate(background) == "rgb(255, 255, 255)"
    assert opened.page.evaluate(_CUT) == []


def test_what_has_the_focus_is_visible(browser, folder):
    """Tab goes through links, fields and bars, each with an outline and within the window."""
    opened = Opened(browser, folder / "sample.report.html")
    for _ in range(12):
        opened.page.keyboard.press("Tab")
        shown = opened.page.evaluate(_FOCUS)
        assert shown == {"outlined": True, "within": True}
