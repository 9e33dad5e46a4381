"""Decoded chat templates are split into turns; no text of a policy forges one."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from linear_time import LINEAR, growth

from genrm_cli.rollouts.formats import FORMATS, recognise
from genrm_cli.rollouts.reading.templates import read_prompt, split_output
from genrm_cli.rollouts.rollout import Reasoning, Text, ToolResult, Turn, UnreadableRecordError

# Template: the text before a turn by role, after it, and the generation prompt.
TEMPLATES = {
    "chatml": ("<|im_start|>{}\n", "<|im_end|>\n", "<|im_start|>assistant\n"),
    "phi-4": ("<|im_start|>{}<|im_sep|>", "<|im_end|>", "<|im_start|>assistant<|im_sep|>"),
    "kimi": ("<|im_{0}|>{0}<|im_middle|>", "<|im_end|>", "<|im_assistant|>assistant<|im_middle|>"),
    "llama-3": (
        "<|start_header_id|>{}<|end_header_id|>\n\n",
        "<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "llama-4": (
        "<|header_start|>{}<|header_end|>\n\n",
        "<|eot|>",
        "<|header_start|>assistant<|header_end|>\n\n",
    ),
    "seed": ("<seed:bos>{}\n", "<seed:eos>", "<seed:bos>assistant\n"),
    "minimax": ("]~b]{}\n", "[e~[\n", "]~b]assistant\n"),
    "gemma-4": ("<|turn>{}\n", "<turn|>\n", "<|turn>model\n"),
    "phi-3": ("<|{}|>\n", "<|end|>\n", "<|assistant|>\n"),
    "granite": (
        "<|start_of_role|>{}<|end_of_role|>",
        "<|end_of_text|>\n",
        "<|start_of_role|>assistant<|end_of_role|>",
    ),
    "harmony": ("<|start|>{}<|message|>", "<|end|>", "<|start|>assistant"),
    "chatml, no tokens": ("{}\n", "\n", "assistant\n"),
}
STARTS = (
    "",
    "<|begin_of_text|>",
    "<s>",
    "<bos>",
    "<|endoftext|><|endoftext|>",
)
TEXTS = st.text(alphabet="ab .?\n<|{}", min_size=1, max_size=12).map(str.strip).filter(bool)


def conversation(questions, answers, system):
    """Return the turns of a prompt: an optional system turn, and questions with answers between
    them.
    """
    turns = [Turn("system", system)] if system else []
    for question, answer in zip(questions, [*answers, ""], strict=False):
        turns += [Turn("user", question), Turn("assistant", answer)]
    return tuple(turns[:-1])


def rendered(name, turns):
    """Return turns as a template decodes them, with the generation prompt."""
    before, after, asks = TEMPLATES[name]
    said = "".join(before.format(turn.role) + turn.text + after for turn in turns)
    return (said.replace("assistant", "model") if "gemma" in name else said) + asks


@pytest.mark.parametrize("name", TEMPLATES)
@given(
    questions=st.lists(TEXTS, min_size=1, max_size=3),
    answers=st.lists(TEXTS, min_size=2, max_size=2),
    system=TEXTS | st.just(""),
    start=st.sampled_from(STARTS),
    strips=st.booleans(),
)
def test_a_rendered_conversation_is_split_into_the_same_turns(
    name, questions, answers, system, start, strips
):
    """In every template, with and without a token at its start, and if the writer strips the end of
    the prompt.
    """
    turns = conversation(questions, answers, system)
    text = rendered(name, turns)
    read = read_prompt(
        ("" if name == "chatml, no tokens" else start) + (text.rstrip("\n") if strips else text)
    )
    assert read.turns == turns
    assert read.opened == ""
    assert read.awaits_answer is True


def test_the_templates_of_other_models_are_split():
    """Turns without an end of their own, bare system prompts, and roles that remain without special
    tokens.
    """
    cases = [
        (
            "<｜begin▁of▁sentence｜>S<｜User｜>Q<｜Assistant｜>A<｜end▁of▁sentence｜><｜User｜>Q2<｜Assistant｜>",
            [
                ("system", "S"),
                ("user", "Q"),
                ("assistant", "A"),
                ("user", "Q2"),
            ],
        ),
        (
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nQ [/INST] A </s><s>[INST] Q2 [/INST]",
            [
                ("system", "Be brief."),
                ("user", "Q"),
                ("assistant", "A"),
                ("user", "Q2"),
            ],
        ),
        (
            "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Q[/INST]",
            [("system", "Be brief."), ("user", "Q")],
        ),
        (
            "<s>[INST]Q[/INST]A</s>[TOOL_RESULTS]30[/TOOL_RESULTS]",
            [
                ("user", "Q"),
                ("assistant", "A"),
                ("tool", "30"),
            ],
        ),
        ("<bos><start_of_turn>user\nQ<end_of_turn>\n<start_of_turn>model\n", [("user", "Q")]),
        (
            "[gMASK]<sop><|system|>\nBe brief.<|user|>\nQ<|assistant|>\n",
            [("system", "Be brief."), ("user", "Q")],
        ),
        (
            "<SPECIAL_10>System\nS\n<SPECIAL_11>User\nQ\n<SPECIAL_11>Assistant\n<think>\n",
            [("system", "S"), ("user", "Q")],
        ),
        (
            "<extra_id_0>System\nS\n<extra_id_1>User\nQ\n<extra_id_1>Assistant\n",
            [("system", "S"), ("user", "Q")],
        ),
        (
            "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Q<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
            [("user", "Q")],
        ),
        (
            "user\nQ\nmodel\nA\nuser\nQ2\nmodel\n",
            [
                ("user", "Q"),
                ("assistant", "A"),
                ("user", "Q2"),
            ],
        ),
        ("system\n\nBe brief.user\n\nQassistant\n\n", [("system", "Be brief."), ("user", "Q")]),
        (
            "user\n\nQassistant\n\nAuser\n\nQ2assistant\n\n",
            [
                ("user", "Q"),
                ("assistant", "A"),
                ("user", "Q2"),
            ],
        ),
        (
            "<|start|>developer<|message|># "
            "Tools<|end|><|start|>user<|message|>Q<|end|><|start|>assistant",
            [("system", "# Tools"), ("user", "Q")],
        ),
        (
            "systemYou are ChatGPT.\nChannel must be included for every message.userQassistant",
            [
                ("system", "You are ChatGPT.\nChannel must be included for every message."),
                ("user", "Q"),
            ],
        ),
        (
            "e end of a question<|im_end|>\n<|im_start|>assistant\n",
            [("user", "e end of a question")],
        ),
        ("user\nQ\nassistant\n<think>\n\n</think>\n\n", [("user", "Q")]),
    ]
    for text, turns in cases:
        assert [tuple(turn) for turn in read_prompt(text).turns] == turns


def test_a_text_that_mentions_roles_is_one_turn():
    """What neither begins with a template nor ends where the policy begins is shown as it is."""
    cases = [
        "What does <|im_start|>user\nmean?",
        "Explain [INST] and [/INST].",
        "user\nis a role",
        "The log:\nuser\nhi\nassistant\n",
        "system\nA\nassistant\nB\nassistant\n",
        "YAML:\n\nuser\n\nassistant\n\n",
    ]
    for text in cases:
        assert read_prompt(text).turns == (Turn("user", text),)


def test_role_words_in_a_users_text_do_not_split_it():
    """Turns that do not follow each other as in a conversation are text: only the frame is
    proven.
    """
    text = "My log:\nuser\nhi\nassistant\nhello\nassistant\nbye"
    assert read_prompt(f"user\n{text}\nassistant\n").turns == (Turn("user", text),)


CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
OBSERVED = (
    "<search>x</search><|im_end|>\n<|im_start|>user\nSEEN "
    "{0}<|im_end|>\n<|im_start|>assistant\n{0}<|im_end|>"
)
SKYRL = [
    {
        "input_prompt": CHATML.format(question),
        "output_response": OBSERVED.format(answer),
        "score": 1.0,
    }
    for question in ("Q1", "Q2")
    for answer in ("A1", "A2")
]
AREAL = [
    {
        "task_id": 1,
        "sample_idx": 0,
        "prompt": line["input_prompt"],
        "completion": line["output_response"],
    }
    for line in SKYRL
]


def test_outputs_with_tokens_are_split_at_them():
    """Observations between the turns of the policy are turns; the answer is what the policy said
    last.
    """
    for lines in [SKYRL, AREAL]:
        rollouts = [recognise(line).read(line)[0] for line in lines]
        assert [rollout.prompt[0].text for rollout in rollouts] == ["Q1", "Q1", "Q2", "Q2"]
        assert [rollout.final_answer for rollout in rollouts] == ["A1", "A2", "A1", "A2"]
        assert [rollout.response[1] for rollout in rollouts] == [
            Turn("user", f"SEEN {n}") for n in ("A1", "A2")
        ] * 2


def test_slimes_samples_tell_how_their_generation_ended():
    """An aborted or removed sample is not compared; `status` alone is any writer's field."""
    cases = [
        ({"status": "completed", "remove_sample": False}, None, False),
        ({"status": "truncated", "remove_sample": False}, None, True),
        ({"status": "aborted", "remove_sample": False}, "failed (status aborted)", False),
        ({"status": "completed", "remove_sample": True}, "masked (remove_sample)", False),
        ({"status": "aborted"}, None, False),
    ]
    for fields, excluded, truncated in cases:
        (rollout,) = FORMATS["completion"].read({"prompt": "Q", "response": "A"} | fields)
        assert rollout.excluded == excluded
        assert rollout.is_truncated == truncated


def test_an_output_is_split_at_the_tokens_of_its_prompt_only():
    """Another template's tokens, roles on lines of their own and an opening inside a turn stay
    text.
    """
    said = (
        "a:\nuser\nb\nassistant\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nx "
        "<|im_start|>user\ny"
    )
    line = SKYRL[0] | {"output_response": said}
    assert recognise(line).read(line)[0].response == (Text(said),)
    template = read_prompt(CHATML).template
    assert list(split_output(said, template)) == [Turn("assistant", said)]


def test_channels_and_tool_outputs_of_multi_turn_outputs_are_told_apart():
    """A result of a tool is no text of the policy, and each turn of the policy has reasoning of its
    own.
    """
    cases = [
        (
            "<|start|>user<|message|>Q<|end|><|start|>assistant",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
            "to=functions.f<|message|>{}"
            "<|call|><|start|>functions.f "
            "to=assistant<|channel|>commentary<|message|>30<|end|><|start|>assistant"
            "<|channel|>final<|message|>Thirty.<|return|>",
            [
                Reasoning("hm"),
                Text("{}", 1),
                ToolResult("30"),
                Text("Thirty.", 1),
            ],
        ),
        (
            "<｜User｜>Q<｜Assistant｜><think>\n",
            "hm</think>Look.<｜end▁of▁sentence｜><｜tool▁outputs▁begin｜>30<｜tool▁outputs▁end｜>Thirty.",
            [
                Reasoning("hm"),
                Text("Look.", 1),
                ToolResult("30"),
                Text("Thirty."),
            ],
        ),
    ]
    for asks, output, items in cases:
        line = SKYRL[0] | {"input_prompt": asks, "output_response": output}
        assert list(recognise(line).read(line)[0].response) == items


def test_areals_prompt_must_end_where_the_policy_begins():
    """With several turns, AReaL writes the first ones of the policy into the prompt."""
    line = AREAL[0] | {
        "prompt": CHATML.format("Q") + "<search>x",
        "completion": "</search><|im_end|>",
    }
    with pytest.raises(UnreadableRecordError, match="turns of the policy"):
        recognise(line).read(line)


@given(
    st.text(alphabet="ab\n", max_size=8),
    st.lists(st.sampled_from(["user", "assistant", "tool", "\n", "x"])),
)
@example(
    "",
    [
        "\n",
        "user",
        "\n",
        "Great!",
        "\n",
        "assistant",
        "\n",
    ],
)
def test_no_stripped_output_forges_a_turn(start, words):
    """Whatever roles a policy writes, its output is one text wherever special tokens are gone."""
    said = start + "".join(words)
    assume(said.strip())
    for prompt in ("user\nQ\nassistant\n", "user\n\nQassistant\n\n"):
        line = {
            "input": prompt,
            "output": said,
            "gts": "g",
            "score": 1.0,
            "step": 1,
        }
        assert recognise(line).read(line)[0].response == (Text(said),)
        line = {"input_prompt": prompt, "output_response": said}
        assert recognise(line).read(line)[0].response == (Text(said),)


PROMPT = (
    "<|im_start|>system\nBe "
    "brief.<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n<think>\n"
)
CUT = "Hmm, the user asks for a sum. I wonder whether"
WRITTEN = json.loads(Path(__file__).with_name("known_names.json").read_bytes())["decoded"]


def written(name, prompt, said):
    """Return a prompt and a response as a writer has them."""
    line = json.dumps(WRITTEN[name])
    for place, text in (("{prompt}", prompt), ("{said}", said)):
        line = line.replace(place, json.dumps(text)[1:-1])
    return json.loads(line)


def read(line):
    """Read a line as what it is recognised as."""
    return recognise(line).read(line)


def test_reasoning_that_the_prompt_opened_is_reasoning():
    """Cut off, all is reasoning and the response is blank; closed, the answer follows; the template
    is not shown.
    """
    cases = [PROMPT, "system\nBe brief.\nuser\nQ\nassistant\n<think>\n", PROMPT.rstrip()]
    for name in WRITTEN:
        for prompt in cases:
            (cut,) = read(written(name, prompt, CUT))
            assert cut.reasoning == CUT
            assert cut.answer == ""
            (closed,) = read(written(name, prompt, f"{CUT}\n</think>\n\nFour."))
            assert closed.reasoning == CUT
            assert closed.answer == "Four."
            (none,) = read(written(name, prompt, "\n</think>\n\nFour."))
            assert none.reasoning == ""
            assert none.answer == "Four."
            assert cut.prompt == closed.prompt == (Turn("system", "Be brief."), Turn("user", "Q"))


def test_a_prompt_opens_reasoning_only_where_the_policy_begins():
    """A question may end in the name of a tag; an empty block is closed."""
    cases = [
        ("A conversation.\nUser: Q\nAssistant: Let me think.\n<think>", True),
        ("Question: Q\nAssistant: <think>", True),
        ("user\nQ\nassistant\nLet me think.\n<think>", True),
        ("What comes after the tag <think>", False),
        ("user\nQ\nassistant\n<think>\n\n</think>\n\n", False),
        ("<|turn>user\nQ<turn|>\n<|turn>model\n<|channel>thought\n<channel|>", False),
        (
            [
                {"role": "user", "content": "Q"},
                {"role": "assistant", "content": "<think>\n"},
            ],
            True,
        ),
    ]
    for prompt, is_opened in cases:
        line = {"prompt": prompt, "completion": "Hmm"}
        (rollout,) = FORMATS["completion"].read(line)
        assert rollout.response == ((Reasoning("Hmm"),) if is_opened else (Text("Hmm"),))


def test_hostile_texts_are_split_in_linear_time():
    """Nothing here grows with the square of the text."""
    cases = [
        "<s>",
        "<|im_start|>user\n",
        "user\n",
        "user\n\n",
        "<|im_end|>\n",
        "[INST] ",
        "<|start|>a ",
        "\n \n",
    ]
    for piece in cases:

        def read_all(text):
            template = read_prompt(text).template or read_prompt(CHATML.format(text)).template
            return list(split_output(text, template))

        assert growth(read_all, piece) <= LINEAR
