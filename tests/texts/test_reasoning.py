"""Reasoning and chat-template tokens are told from the answer, wherever they stand."""

from hypothesis import given
from hypothesis import strategies as st
from linear_time import LINEAR, growth

from genrm_cli.rollouts.reading.messages import items_of_text
from genrm_cli.rollouts.rollout import Reasoning, Text
from genrm_cli.texts.reasoning import find_answer, split_reasoning, strip_end_tokens


def test_blocks_of_reasoning_are_removed_wherever_they_stand():
    """Several, unclosed, pre-filled, nested or in another family's tags: the answer holds none of
    it.
    """
    cases = [
        ("<think>a</think>b", "a", "b"),
        ("a</think>b", "a", "b"),
        ("<think>a", "a", ""),
        ("<think>a</think>b<think>c</think>d", "ac", "bd"),
        ("<think>a</think>b\n<think>c", "ac", "b"),
        ("a</think>\n\nb</think>\n\nc", "a", "b</think>\n\nc"),
        ("<think>a<think>b</think>c</think>d", "a<think>bc", "d"),
        ("<think>a</think>b</think>c", "a", "b</think>c"),
        ("<THINK>a</Think>b", "a", "b"),
        ("<reasoning>a</reasoning>b", "a", "b"),
        ("<seed:think>a</seed:think>b", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("◁think▷a◁/think▷b", "a", "b"),
        ("<|begin_of_thought|>a<|end_of_thought|>b", "a", "b"),
        ("Use the <think> tag.", "", "Use the <think> tag."),
        ("Close it with `</think>`.", "", "Close it with `</think>`."),
        ("Line\n  <think>a", "a", "Line"),
        ("no tags  ", "", "no tags  "),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
            "a",
            "b",
        ),
        ("about <|channel|> only", "", "about <|channel|> only"),
        ("<|channel>thought\na<channel|>b", "a", "b"),
        ("<|channel>thought\n<channel|>b", "", "b"),
        ("analysisWe need a.assistantfinalb", "We need a.", "b"),
        (
            "analysis1+1assistantcommentary to=functions.f json{}assistantfinal**b**",
            "1+1",
            "{}\n\n**b**",
        ),
        ("analysisThe user asks", "The user asks", ""),
        ("analysis of the text", "", "analysis of the text"),
        ("analysisResult = 5", "", "analysisResult = 5"),
        ('<think>It says "a"</think>b "c"', 'It says "a"', 'b "c"'),
        ("<think>I don't</think>It's b", "I don't", "It's b"),
        ("<think>use `</think>` to\nclose</think>b", "use `</think>` to\nclose", "b"),
        ("<think>```\na\n</think>b\n```\nc\n```", "```\na", "b\n```\nc\n```"),
        ("```\na\n```\n</think>b ```c```", "```\na\n```", "b ```c```"),
    ]
    for text, reasoning, answer in cases:
        assert split_reasoning(text)[:2] == (reasoning, answer)


def test_tags_in_quotes_and_code_are_text():
    """An answer about the tags is not reasoning: they stand between quotes or backticks, or in a
    fenced block.
    """
    cases = [
        "Use re.sub(r'<think>.*?</think>', '', t) in Python.",
        "Use re.sub(r'\\s*<think>.*?</think>\\s*', '', t).",
        'Say `a <think>b</think>` or "c\\n</think>".',
        "I don't know 'the </think> tag'.",
        "It writes:\n```\n<think>\nreasoning\n</think>\nanswer\n```\nThat is all.",
        "It writes:\n~~~xml\n<think>a</think>\n<think>\n~~~",
        "The tags are “<think>” and “</think>”.",
        "Put it between <think> and </think>, or write <think></think>.",
    ]
    for text in cases:
        assert split_reasoning(text)[:2] == ("", text)
        assert split_reasoning(f"<think>a</think>{text}")[:2] == ("a", text)


def test_tokens_of_a_chat_template_are_stripped_from_the_end():
    """They are counted; within a text they stay, and a text without them is not touched."""
    cases = [
        ("30<|im_end|>", "30", 1),
        ("30 <|eot_id|>\n<|end_of_text|> ", "30", 2),
        ("30</s></s>", "30", 2),
        ("30<|endoftext|>", "30", 1),
        ("<|im_end|>", "", 1),
        ("a <|im_end|> b", "a <|im_end|> b", 0),
        ("30 \n", "30 \n", 0),
    ]
    for text, rest, count in cases:
        assert strip_end_tokens(text) == (rest, count)


def test_a_text_becomes_reasoning_and_answer():
    """The length of the reasoning is kept, and so is the number of tokens removed."""
    assert items_of_text("<think>a</think>\nb<|im_end|>") == (Reasoning("a"), Text("b", 1))
    assert items_of_text("") == ()


def test_thoughts_that_only_begin_a_text_are_told_by_their_markers():
    """Granite, HyperCLOVA X, and tags that are elements of an answer anywhere else."""
    cases = [
        "Here is my thought process: {}\n\nHere is my response: {}",
        "Here's my thought process:\n{}\nHere's my response:\n{}",
        "/think\n{}<|im_end|>\n<|im_start|>assistant\n{}",
        "<|im_start|>assistant/think\n{}<|im_end|>\n<|im_start|>assistant\n{}",
        "<reason>{}</reason>{}",
        "\n<scratchpad>\n{}\n</scratchpad>\n{}",
    ]
    for case in cases:
        text = case.format("Is it [[B]]?", "It is [[A]].")
        assert split_reasoning(text)[:2] == ("Is it [[B]]?", "It is [[A]].")
        assert text[find_answer(text).start :].strip() == "It is [[A]]."
    assert split_reasoning("<scratchpad>Is it") == ("Is it", "", True)
    assert find_answer("<reason>Is it").open_tag == "<reason>"
    for text in (
        "<error><reason>Not found</reason></error>",
        "Here is my thought process: I add, then divide.",
        "/think\nis a switch.",
    ):
        assert split_reasoning(text) == ("", text, True)
        assert find_answer(text)[:2] == (0, "")


@given(st.text(alphabet="ab<>/think|[]\n`'\"", max_size=60))
def test_any_text_is_split(text):
    """Whatever a text holds, its answer is no longer than the text."""
    answer = split_reasoning(text)[1]
    assert len(answer) <= len(text)


def test_hostile_texts_are_read_in_linear_time():
    """Nothing here grows with the square of the text."""
    cases = [
        "<think>",
        "</think>",
        " ",
        "</s>",
        "'<think>' ",
        "```\n<think>",
        "analysisassistantfinal",
        "<reason>a</reason>",
        "here is my thought process:",
    ]
    for piece in cases:
        assert growth(items_of_text, piece, after="x") <= LINEAR
