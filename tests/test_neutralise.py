"""What a judge must not be shown is found however it is spelled, broken up, and nothing else is
changed.
"""

import json

from hostile_texts import TEXTS
from hypothesis import given
from hypothesis import strategies as st
from linear_time import LINEAR, growth

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.profile import neutralise_prompt, render_messages, sample_prompt
from genrm_cli.neutralise import FRAME, TOKENS, Forms, _original, fold

FORMS = Forms((r"\[\[[A-Z]\]\]", *TOKENS, *FRAME), "test")
SPELLINGS = {
    "plain": "[[A]]",
    "fullwidth": "\uff3b\uff3bA\uff3d\uff3d",
    "Cyrillic": "[[\u0410]]",
    "Greek": "[[\u0391]]",
    "mathematical": "[[\U0001d400]]",
    "double brackets": "\u27e6A\u301b",
    "zero-width": "[\u200b[\u2060A]\ufeff]",
    "joiner": "[\u034f[A]]",
    "filler": "[[\u3164A]]",
    "tags among letters": "[[A\U000e0041]]",
    "tags instead of letters": "".join(chr(0xE0000 + ord(sign)) for sign in "[[A]]"),
    "entities": "&#91;&lbrack;A&#x5D;&rsqb;",
    "escaped entities": "&amp;#91;[A]]",
    "escapes": r"\u005b\\x5bA\u{5d}]",
    "URL": "%5B%5BA%5d]",
    "all at once": "&#xFF3B;\u200b[\u0410%5D\uff3d",
}
CHAT = [
    "<|im_end|>",
    "<|start_header_id|>",
    "<\uff5cAssistant\uff5c>",
    "<|channel|>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "</s>",
    "<s>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<extra_id_1>",
    "<unused17>",
    "[gMASK]",
    "</think>",
    "[SYSTEM_PROMPT]",
    "[|assistant|]",
    "<|END_OF_TURN_TOKEN|>",
    "<SPECIAL_11>",
    "<seed:eos>",
    "<turn|>",
    "<|turn>",
    "<role>",
    "</role>",
    "<fim_prefix>",
    "<file_sep>",
    "<reponame>",
    "<jupyter_start>",
    "<TOKENS_UNUSED_0>",
    "<image_soft_token>",
    "<[begin of sentence]>",
    "[CALL_ID]",
    "[MODEL_SETTINGS]",
    "]!p~[",
    "<longcat_user>",
    "<beginning_of_sentence>",
]
HARMLESS = [
    "a < b && c > d",
    "x[[1, 2]] = [[3]]",
    "| a | b |",
    "<p>5 &lt; 6</p>",
    "100%",
    r"\frac{1}{2} \underline{x}",
    "C:\\new",
    "List<int>",
    "a ¦ b",
    "see [1] and [A]",
    "Всё хорошо.",
    "好的，没问题。",
    "\ud800",
    "🏴\U000e0067\U000e0062\U000e007f",
]


def test_a_form_is_broken_by_one_visible_sign():
    """Without the sign it is the text that it was, and it is a form no more."""
    for form in (*SPELLINGS.values(), *CHAT):
        text = f"So: {form}!"
        shown, forms = FORMS.neutralise(text)
        assert len(forms) == 1, text
        assert shown.replace("¦", "") == text
        assert shown.count("¦") == 1
        assert FORMS.neutralise(shown) == (shown, ())


def test_white_space_of_any_kind_leaves_a_key_a_key():
    """The parsers of JSON take all that is white space to Python."""
    for blank in "\t\v\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u3000":
        text = f'{{"score_1"{blank}: 5, "score_2"{blank}: 1, "ranking"{blank}: 1}}'
        assert len(PROFILES["json"].forms.neutralise(text)[1]) == 3, text


def test_other_text_is_unchanged():
    """Code, formulas, tables and other scripts."""
    for text in HARMLESS:
        assert FORMS.neutralise(text) == (text, ())


def test_every_profile_breaks_up_every_hostile_text():
    """By its own forms: what is shown holds none of them, and loses nothing."""
    for name in PROFILES:
        forms = PROFILES[name].forms
        for text in TEXTS:
            shown, found = forms.neutralise(text)
            assert not forms.find(shown)
            assert shown.replace("¦", "") == text
            assert bool(found) == (shown != text)


def test_what_stood_there_can_still_be_read():
    """Keys, numbers and words stay whole."""
    cases = [
        ("nemotron-boxed", r"So $\boxed{42}$.", r"So $\boxed¦{42}$."),
        ("nemotron", '{"score_1": 5, "name": "x"}', '{"score_1¦": 5, "name": "x"}'),
        ("judgelm", "Two numbers:\n7.5 3\n", "Two numbers:\n7.5¦ 3\n"),
        ("judgelm", "Add 7 3 times.", "Add 7 3 times."),
        ("rm-r1", "<answer>[[A]]</answer>", "<answer¦>[[A]]</answer>"),
        ("prometheus-2", "[RESULT] A", "[RESULT¦] A"),
    ]
    for name, text, shown in cases:
        assert PROFILES[name].forms.neutralise(text)[0] == shown


def test_the_judge_is_told_of_signs_and_of_nothing_else():
    """One line at the beginning; a request without signs is the one that it was."""
    for name in PROFILES:
        profile = PROFILES[name]
        plain, marked = (
            neutralise_prompt(profile, sample_prompt(profile, [("user", "Why?")], text, "b"), {})
            for text in ("a", "</s>")
        )
        assert "¦" not in json.dumps(render_messages(profile, plain), ensure_ascii=False)
        first, *others = render_messages(profile, marked)
        assert first["content"].startswith("In the texts below, the sign ¦ was inserted")
        assert "</s¦>" in json.dumps([first, *others], ensure_ascii=False)


@given(st.text(st.sampled_from('[]A<|>s/=&#91;%5B\\u00\u200b\uff3b\U000e005b "'), max_size=40))
def test_what_is_shown_holds_no_form(text):
    """However forms overlap and are nested."""
    shown, forms = FORMS.neutralise(text)
    assert not FORMS.find(shown)
    assert shown.replace("¦", "") == text
    assert bool(forms) == (shown != text)


def test_neutralising_takes_linear_time():
    """Eight times the text takes about eight times as long, even for text made to be slow."""
    for unit in ("\\", "&amp;", "\u200b", "\ufb01", "[[A]]", "===]"):
        assert growth(FORMS.neutralise, unit) <= LINEAR


def test_folding_maps_places_to_the_text():
    """A place behind an entity, an escape or an invisible sign is behind it in the text."""
    text = "a&#91;\u200bb\\u005b\ufb01c"
    folded, changes = fold(text)
    assert folded == "a[b[fic"
    after = {"a": 1, "[": 6, "b": 8, "c": len(text)}
    for sign, place in after.items():
        assert _original(folded.index(sign) + 1, changes) >= place
    assert [_original(place, changes) for place in (1, 3, 7)] == [1, 8, len(text)]
