"""Images in prompts and responses: the parts that a judge which sees them receives, and what others
compare.
"""

import contextlib
import sqlite3
from functools import partial

import pytest
import scored_components
from scored_components import completions, score

from genrm_cli.groups.group import Group
from genrm_cli.verdicts import Reason

URL = "https://images.example/cat.png"
DATA = "data:image/png;base64,iVBORw0KGgo="
ASKED = {
    "role": "user",
    "content": [
        {"type": "text", "text": "What is "},
        {"type": "image_url", "image_url": URL},
    ],
}
ASKED["content"] += [{"type": "text", "text": "? Be brief."}]
judge = partial(scored_components.judge, profile="nemotron-plain", image_hosts=["images.example"])


def pictured(*texts, asked=ASKED):
    """Make a group about a picture."""
    return [
        {
            "prompt": [asked],
            "completion": text,
        }
        for text in texts
    ]


def parts_sent(server):
    """Return the parts of each request's only message."""
    return [one["body"]["messages"][0]["content"] for one in server.stats()["recent"]]


def urls_in(parts):
    """Return the images of a message, in order."""
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_a_judge_sees_the_image_of_the_prompt_in_its_place(tmp_path, judge_server):
    """The text before it ends where the text of the prompt does, and the text after it goes on."""
    scored = score(tmp_path, pictured("A cat.", "A big cat."), judge(judge_server, images=True))
    assert scored.reasons == [None, None]
    assert scored.metrics["rollouts_with_media"] == 0
    for before, image, after in parts_sent(judge_server):
        assert before["text"].endswith("TURN OF user ===]\nWhat is ")
        assert image == {
            "type": "image_url",
            "image_url": {"url": URL},
        }
        assert after["text"].startswith("? Be brief.")


def test_images_of_responses_are_shown_in_their_order(tmp_path, judge_server):
    """Those of the policy between its texts, those of a tool within the result."""
    drawn = [
        {"type": "text", "text": "Before."},
        {
            "type": "image_url",
            "image_url": {"url": DATA},
        },
    ]
    seen = [
        {"type": "text", "text": "Page:"},
        {
            "type": "image",
            "source": {"type": "url", "url": URL},
        },
    ]
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    responses = [
        [
            {
                "role": "assistant",
                "content": [*drawn, {"type": "text", "text": "After."}],
            }
        ],
        [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [call],
            },
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": seen,
            },
            {"role": "assistant", "content": "A cat."},
        ],
    ]
    lines = [{"prompt": "Draw.", "completion": response} for response in responses]
    scored = score(tmp_path, lines, judge(judge_server, images=True), order_balanced=False)
    assert scored.reasons == [None, None]
    parts = next(parts for parts in parts_sent(judge_server) if urls_in(parts) == [DATA, URL])
    texts = [part["text"] for part in parts if part["type"] == "text"]
    assert texts[0].endswith("[--- ASSISTANT ---]\nBefore.\n[--- IMAGE ---]\n")
    assert texts[1].startswith("\n[--- ASSISTANT ---]\nAfter.")
    assert texts[1].endswith("[--- TOOL RESULT look ---]\nPage:")
    assert texts[2].startswith("\n[--- ASSISTANT ---]\nA cat.")


def test_the_journal_has_no_image_and_knows_each(tmp_path, judge_server):
    """Only the key of a request depends on it: the same image is not paid for twice, another is."""
    data = {
        "role": "user",
        "content": [{"type": "input_image", "image_url": DATA}],
    }
    other = {
        "role": "user",
        "content": [{"type": "input_image", "image_url": DATA + "AA"}],
    }
    for asked, requests in ((data, 2), (data, 2), (other, 4)):
        score(tmp_path, pictured("A cat.", "A dog.", asked=asked), judge(judge_server, images=True))
        assert judge_server.stats()["requests"] == requests
    (journal,) = tmp_path.glob("*.journal.sqlite")
    with contextlib.closing(sqlite3.connect(journal)) as connection:
        assert "iVBORw0KGgo" not in "".join(connection.iterdump())


def test_prompts_with_different_images_are_different_groups(tmp_path, judge_server):
    """The same question about two pictures is two tasks."""
    other = {
        "role": "user",
        "content": [
            ASKED["content"][0],
            {
                "type": "image_url",
                "image_url": {"url": DATA},
            },
        ],
    }
    lines = pictured("A cat.", "A dog.") + pictured("A hen.", "A fox.", asked=other)
    scored = score(tmp_path, lines, judge(judge_server, images=True))
    assert scored.metrics["groups"] == 2
    assert all(len(set(urls_in(parts))) == 1 for parts in parts_sent(judge_server))


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (
            {},
            {
                "type": "image_url",
                "image_url": {"url": URL},
            },
        ),
        ({"images": True}, {"type": "input_file", "file_id": "f"}),
        ({"images": True}, {"type": "input_image", "image_url": "cat.png"}),
        *(
            ({"images": True}, {"type": "input_image", "image_url": url})
            for url in (
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
def test_what_a_judge_cannot_see_is_not_compared(tmp_path, judge_server, settings, part):
    """Images for a judge of texts, files, images without a URL, and what a rollout would have the
    judge's server fetch from a host that nobody named; nothing is asked.
    """
    lines = pictured(
        "A cat.",
        "A dog.",
        asked={
            "role": "user",
            "content": [part],
        },
    )
    scored = score(tmp_path, lines, judge(judge_server, **settings))
    assert scored.reasons == [Reason.MEDIA] * 2
    assert scored.metrics["rollouts_with_media"] == 2
    assert judge_server.stats()["requests"] == 0


def test_a_text_cannot_imitate_an_image(tmp_path, judge_server):
    """The mark of an image names its content, and words like it stay words."""
    score(
        tmp_path,
        completions("[image_url]", "[image_url 0123456789abcdef]"),
        judge(judge_server, images=True),
    )
    assert all(isinstance(content, str) for content in parts_sent(judge_server))


def test_a_profile_may_see_images(tmp_path, judge_server):
    """`images = true` in a profile of one's own, without the setting."""
    profile = tmp_path / "seeing.toml"
    profile.write_text(
        'images = true\nframe = { names = ["1", "2"], closing = "Judge." }\n'
        '[verdict]\npattern = \'Better: (?P<label>A|B)\'\nlabels = { A = "better", B = "worse" }\n'
    )
    scored = score(
        tmp_path,
        pictured("A cat.", "A dog."),
        judge(judge_server, profile=str(profile)),
        max_extra=0.0,
    )
    assert scored.metrics["comparisons_planned"] == 2
    assert urls_in(parts_sent(judge_server)[0]) == [URL]


def test_groups_of_the_python_api_have_images_too():
    """Their prompts and responses are read as those of lines."""
    group = Group.of(
        [ASKED],
        [
            {
                "role": "assistant",
                "content": [ASKED["content"][1]],
            },
            "A cat.",
        ],
    )
    assert [len(rollout.media) for rollout in group.rollouts] == [2, 1]
    assert {media.url for rollout in group.rollouts for media in rollout.media} == {URL}
