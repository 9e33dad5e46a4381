"""Fields that the user names: a path says what is a group, and nothing at or below one vanishes."""

import json

import pytest

from genrm_cli.rollouts.formats import named_fields, recognise
from genrm_cli.rollouts.rollout import UnreadableRecordError

PIRATE = "You always answer in the style of a pirate."
ASKED = "What is it then, number 1?"


def shown(record, response, prompt=None):
    """Read a line: the texts of its prompt, and its answers."""
    rollouts = named_fields(response, prompt).read(record)
    return [turn.text for turn in rollouts[0].prompt], [each.answer for each in rollouts]


def said(text, role="assistant"):
    """Make a message."""
    return {"role": role, "content": text}


def test_a_path_through_a_list_is_a_group_whatever_its_values_are():
    """Messages of the policy behind it are alternatives, never one conversation."""
    choices = [{"message": said("first")}, {"message": said("second")}]
    record = {"task": "Name one.", "choices": choices}
    for path in ("choices", "choices.message", "choices.message.content"):
        read = shown(record, path, "task")
        assert read == (["Name one."], ["first", "second"])
        assert len(named_fields(path, "task").rows(record)) == 2


def test_a_list_of_turns_is_no_list_of_responses():
    """Who speaks, or the kind of a part, tells its objects apart; the user writes messages."""
    lists = [
        [{"source": "user", "content": "Q"}, {"source": "assistant", "content": "A"}],
        [{"sender": "human", "text": "Q"}, {"sender": "bot", "text": "A"}],
        [{"kind": "request", "parts": ["Q"]}, {"kind": "response", "parts": ["A"]}],
        [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
    ]
    for turns in lists:
        for path in ("talk", f"talk.{[*turns[0]][1]}"):
            with pytest.raises(UnreadableRecordError, match="turns or parts"):
                shown({"talk": turns}, path)
    talk = [{"message": said("Q", "user")}, {"message": said("A")}]
    with pytest.raises(UnreadableRecordError, match="role: assistant, user"):
        shown({"talk": talk}, "talk.message")


def test_answers_in_a_row_are_one_response_or_several():
    """Nothing tells which, so the user says it; what differs in more than its text is a turn of an
    agent, or a channel, and one response.
    """
    record = {"task": "Name one.", "answers": [said("first"), said("second")]}
    numbered = [{**each, "id": number} for number, each in enumerate(record["answers"])]
    for answers in (record["answers"], numbered):
        with pytest.raises(UnreadableRecordError, match="2 messages of the policy in a row"):
            shown({"task": "Name one.", "answers": answers}, "answers", "task")
    assert shown(record, "answers.content", "task")[1] == ["first", "second"]
    call = {"id": "1", "function": {"name": "look", "arguments": "{}"}}
    turns = (
        [said("I look."), {**said(""), "tool_calls": [call]}, said("Done.")],
        [{**said("I think."), "channel": "commentary"}, {**said("Done."), "channel": "final"}],
        [said("one"), said("and?", "user"), said("two")],
    )
    for each in turns:
        assert len(shown({"task": "Name one.", "answers": each}, "answers", "task")[1]) == 1


def test_objects_of_unknown_kinds_are_no_responses():
    """They may be turns or parts of one, so the refusal names the texts in them; a path through
    the list, a list of texts, and objects that name their text as a response are a group.
    """
    texts = ["First.", "Second."]
    for name in ("text", "content", "value", "said"):
        record = {"prompt": "Name one.", "samples": [{name: text} for text in texts]}
        for read in (recognise(record).read, named_fields("samples", "prompt").read):
            with pytest.raises(UnreadableRecordError, match=f"samples.{name}"):
                read(record)
        assert shown(record, f"samples.{name}", "prompt") == (["Name one."], texts)
    named = [{"response": text} for text in texts]
    for samples in (texts, named):
        record = {"prompt": "Name one.", "samples": samples}
        assert shown(record, "samples", "prompt") == (["Name one."], texts)
        assert [each.answer for each in recognise(record).read(record)] == texts


def test_a_call_in_two_columns_of_json_is_read():
    """Both sides say what they are; a policy that writes such JSON itself is shown as it is."""
    request = json.dumps({"messages": [said(PIRATE, "system"), said(ASKED, "user")]})
    reply = json.dumps({"choices": [{"message": said("A."), "finish_reason": "stop"}]})
    assert shown({"sent": request, "came": reply}, "came", "sent") == ([PIRATE, ASKED], ["A."])
    assert shown({"sent": ASKED, "came": reply}, "came", "sent") == ([ASKED], [reply])


def test_a_raw_reply_beside_its_text_holds_nothing_new():
    """Why it stopped is no text of anybody, as an object or as its JSON text."""
    raw = {"choices": [{"message": said("It is a cat."), "finish_reason": "stop"}]}
    for value in (raw, json.dumps(raw)):
        record = {"prompt": ASKED, "response": "It is a cat.", "raw_response": value}
        (rollout,) = recognise(record).read(record)
        assert rollout.answer == "It is a cat."


def test_one_message_is_a_prompt():
    """As a list of one is; an object that holds a text in an unknown way is refused."""
    assert shown({"p": said(ASKED, "user"), "r": "A."}, "r", "p") == ([ASKED], ["A."])
    contents = [
        {"role": "user", "parts": [{"text": ASKED}]},
        {"role": "model", "parts": [{"text": "A."}]},
    ]
    record = {"s": {"role": "system", "parts": [{"text": PIRATE}]}, "contents": contents}
    assert shown(record, "contents", "s") == ([PIRATE, ASKED], ["A."])
    with pytest.raises(UnreadableRecordError, match="an object with raw"):
        shown({"p": {"raw": ASKED}, "r": "A."}, "r", "p")


def test_what_stands_beside_a_nested_prompt_belongs_to_it():
    """A system prompt in the same object is shown, as one beside a field of the line is."""
    body = {"system": PIRATE, "messages": [said(ASKED, "user")], "model": "m"}
    for path in ("input.body", "input.body.messages"):
        assert shown({"input": {"body": body}, "r": "A."}, "r", path) == ([PIRATE, ASKED], ["A."])
    asked = {"system_prompt": PIRATE, "question": ASKED}
    assert shown({"q": asked, "r": "A."}, "r", "q.question") == ([PIRATE, ASKED], ["A."])


def test_a_text_that_would_be_left_out_refuses_its_line():
    """Tools and escaped arguments are read elsewhere, and are no text that is left out."""
    reply = {"output": "It is one.", "comment": {"body": "This is what the policy wrote, too."}}
    with pytest.raises(UnreadableRecordError, match=r"reply\.comment\.body"):
        shown({"q": ASKED, "reply": reply}, "reply", "q")
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "Find the tides."},
    }
    call = {"function": {"name": "f", "arguments": {"place": 'the port\nof "Brest" in France'}}}
    body = {"messages": [said(ASKED, "user")], "tools": [tool]}
    response = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert shown({"body": body, "r": response}, "r", "body")[0] == [ASKED]


def test_a_name_with_dots_can_be_named():
    """The whole name is looked for before its parts."""
    record = {"inputs.query": ASKED, "inputs.response": "A.", "meta.id": "x"}
    (rollout,) = named_fields("inputs.response", "inputs.query", "meta.id").read(record)
    assert (rollout.answer, rollout.task) == ("A.", "meta.id:x")
    assert named_fields("inputs.response", "inputs.query").recognise(record)
    nested = {"llm.input": ASKED, "llm.system_prompt": PIRATE, "llm.output": {"text": "A."}}
    for record in ({"attributes": nested}, {"a.b": nested}, {"spans": {"llm.a": nested}}):
        above = next(iter(record)) if "spans" not in record else "spans.llm.a"
        paths = (f"{above}.llm.output.text", f"{above}.llm.input")
        assert shown(record, *paths) == ([PIRATE, ASKED], ["A."])
    spans = {"spans": [{"llm.output": "one"}, {"llm.output": "two"}], "q": ASKED}
    assert shown(spans, "spans.llm.output", "q")[1] == ["one", "two"]
