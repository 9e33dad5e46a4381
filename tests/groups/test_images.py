"""Images in prompts and responses: the parts that a judge which sees them receives, and what others
compare.
"""

import contextlib
import sqlite3
from functools import partial

import pytest
from scored_here import completions

from genrm_cli.groups.group import Group
from genrm_cli.verdicts import Reason

URL = "https://images.example/cat.png"
DATA = "data:image/png;base64,iVBORw0KGgo="


def asked(*parts, role="user"):
    """Make a turn of texts and other parts."""
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]
    return {"role": role, "content": content}


def image(url):
    """Make a part with an image."""
    return {"type": "image_url", "image_url": {"url": url}}


ASKED = asked("What is ", {"type": "image_url", "image_url": URL}, "? Be brief.")


@pytest.fixture
def judged(judged):
    """Score with a judge that may fetch images from one host."""
    return partial(judged, profile="nemotron-plain", image_hosts=["images.example"])


@pytest.fixture
def seen(judged):
    """Score with a judge that sees images."""
    return partial(judged, images=True)


def pictured(*texts, asked=ASKED):
    """Make a group about a picture."""
    return [{"prompt": [asked], "completion": text} for text in texts]


def parts_sent(server):
    """Return the parts of each request's only message."""
    return [one["body"]["messages"][0]["content"] for one in server.stats()["recent"]]


def urls_in(parts):
    """Return the images of a message, in order."""
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_a_judge_sees_the_image_of_the_prompt_in_its_place(seen, judge_server):
    """The text before it ends where the text of the prompt does, and the text after it goes on."""
    scored = seen(pictured("A cat.", "A big cat."))
    assert scored.reasons == [None, None]
    assert scored.metrics["rollouts_with_media"] == 0
    for before, shown, after in parts_sent(judge_server):
        assert before["text"].endswith("TURN OF user ===]\nWhat is ")
        assert shown == image(URL)
        assert after["text"].startswith("? Be brief.")


def test_images_of_responses_are_shown_in_their_order(seen, judge_server):
    """Those of the policy between its texts, those of a tool within the result."""
    look = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    fetched = {"type": "image", "source": {"type": "url", "url": URL}}
    responses = [
        [asked("Before.", image(DATA), "After.", role="assistant")],
        [
            {"role": "assistant", "content": "", "tool_calls": [look]},
            asked("Page:", fetched, role="tool") | {"tool_call_id": "c"},
            {"role": "assistant", "content": "A cat."},
        ],
    ]
    lines = [{"prompt": "Draw.", "completion": response} for response in responses]
    assert seen(lines, order_balanced=False).reasons == [None, None]
    parts = next(parts for parts in parts_sent(judge_server) if urls_in(parts) == [DATA, URL])
    texts = [part["text"] for part in parts if part["type"] == "text"]
    assert texts[0].endswith("[--- ASSISTANT ---]\nBefore.\n[--- IMAGE ---]\n")
    assert texts[1].startswith("\n[--- ASSISTANT ---]\nAfter.")
    assert texts[1].endswith("[--- TOOL RESULT look ---]\nPage:")
    assert texts[2].startswith("\n[--- ASSISTANT ---]\nA cat.")


def test_the_journal_has_no_image_and_knows_each(tmp_path, seen, judge_server):
    """Only the key of a request depends on it: the same image is not paid for twice, another is."""
    for data, requests in ((DATA, 2), (DATA, 2), (DATA + "AA", 4)):
        shown = asked({"type": "input_image", "image_url": data})
        seen(pictured("A cat.", "A dog.", asked=shown))
        assert judge_server.stats()["requests"] == requests
    (journal,) = tmp_path.glob("*.journal.sqlite")
    with contextlib.closing(sqlite3.connect(journal)) as connection:
        assert "iVBORw0KGgo" not in "".join(connection.iterdump())


def test_prompts_with_different_images_are_different_groups(seen, judge_server):
    """The same question about two pictures is two tasks."""
    other = pictured("A hen.", "A fox.", asked=asked("What is ", image(DATA), "? Be brief."))
    scored = seen(pictured("A cat.", "A dog.") + other)
    assert scored.metrics["groups"] == 2
    assert all(len(set(urls_in(parts))) == 1 for parts in parts_sent(judge_server))


@pytest.mark.parametrize(
    ("images", "part"),
    [
        (False, image(URL)),
        (True, {"type": "input_file", "file_id": "f"}),
        *(
            (True, {"type": "input_image", "image_url": url})
            for url in (
                "cat.png",
                "http://169.254.169.254/latest/meta-data",
                "http://127.0.0.1:8330/metrics",
                "http://images.example@10.0.0.1/x",
                "http://images.example:80@10.0.0.1/x",
                "https://images.example.evil.net/x.png",
                "https://evil.net/?images.example",
                "file:///etc/passwd",
            )
        ),
    ],
)
def test_what_a_judge_cannot_see_is_not_compared(judged, judge_server, images, part):
    """Images for a judge of texts, files, images without a URL, and what a rollout would have the
    judge's server fetch from a host that nobody named; nothing is asked.
    """
    scored = judged(
        pictured("A cat.", "A dog.", asked=asked(part)),
        images=images,
        image_hosts=["images.example"] if images else [],
    )
    assert scored.reasons == [Reason.MEDIA] * 2
    assert scored.metrics["rollouts_with_media"] == 2
    assert judge_server.stats()["requests"] == 0


def test_a_text_cannot_imitate_an_image(seen, judge_server):
    """The mark of an image names its content, and words like it stay words."""
    seen(completions("[image_url]", "[image_url 0123456789abcdef]"))
    assert all(isinstance(content, str) for content in parts_sent(judge_server))


def test_a_profile_may_see_images(tmp_path, judged, judge_server):
    """`images = true` in a profile of one's own, without the setting."""
    profile = tmp_path / "seeing.toml"
    profile.write_text(
        'images = true\nframe = { names = ["1", "2"], closing = "Judge." }\n'
        '[verdict]\npattern = \'Better: (?P<label>A|B)\'\nlabels = { A = "better", B = "worse" }\n'
    )
    scored = judged(pictured("A cat.", "A dog."), profile=str(profile), max_extra=0.0)
    assert scored.metrics["comparisons_planned"] == 2
    assert urls_in(parts_sent(judge_server)[0]) == [URL]


def test_groups_of_the_python_api_have_images_too():
    """Their prompts and responses are read as those of lines."""
    drawn = {"role": "assistant", "content": [ASKED["content"][1]]}
    group = Group.of([ASKED], [drawn, "A cat."])
    assert [len(rollout.media) for rollout in group.rollouts] == [2, 1]
    assert {media.url for rollout in group.rollouts for media in rollout.media} == {URL}
