"""A client and counsellors without a model, who choose from prepared sentences: fixtures for demos,
CI and tests, no measure of real people.

The client answers what it is asked. Nothing else moves it: neither an echo of its words, nor a
question that only names a noun, nor a retelling."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files

from genrm_cli.json_types import Record
from genrm_cli.products.sessions.environment import Ask
from genrm_cli.products.sessions.rules.form import repeats
from genrm_cli.products.sessions.rules.guard import ASKS, HELPS, first_turn, guard
from genrm_cli.products.sessions.rules.transcript import CLIENT, THERAPIST, Sentence, sentences_of
from genrm_cli.products.sessions.therapy.simulated_client import Client, Reaction, SessionState
from genrm_cli.rollouts.scenario import Scenario

_pattern = cache(re.compile)
# It shows the client a word and asks nothing.
_NAMES_A_NOUN = re.compile(r"^(?:and |so )?(?:what|how) about (?:\S+ )?\S+\?$|^(?:\S+ ){0,2}\S+\?$")
# Effects of a turn: the script knows no shades.
_HURT = -1.0
_ANSWERED = 1.0


@cache
def _table(name: str) -> Record:
    """Return a table of sentences; `reactions` by occasion, `answers` by words of a question."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


class ScriptedClient(Client):
    """A client that answers questions in prepared sentences."""

    name = "scripted-client"
    version = 6

    async def react(self, state: SessionState, ask: Ask) -> Reaction:
        """Return an answer to the last question, with a fact if the client is ready to tell one."""
        del ask
        last = sentences_of(state.messages[-1:], THERAPIST)
        asked = first_turn(ASKS, last) is not None
        helped = first_turn(HELPS, last) is not None
        words, effect = self._words(state, last, asks_about_safety=asked)
        tells = effect > 0 and state.next_fact is not None
        reply = f"{words} {state.next_fact}" if tells else words
        return Reaction(
            reply, effect, tells=tells, asked_about_safety=asked, was_offered_help=helped
        )

    def _words(
        self, state: SessionState, last: Sequence[Sentence], *, asks_about_safety: bool
    ) -> tuple[str, float]:
        """Return the words of the reply, and the effect of the counsellor's turn."""
        table = _table("client_words")
        reactions: Mapping[str, Sequence[str]] = table["reactions"]
        said = "\n".join(turn.text for turn in state.messages if turn.role == CLIENT)
        draw = _draw_of(state, state.seed)
        answer = state.scenario.safety_answer
        if repeats(state.messages):
            return choose_unsaid(reactions["repeated"], said, draw), _HURT
        marked = guard(state.messages[-2:], Scenario()).findings
        hurts = _pattern(table["hurtful"])
        if marked or any(hurts.search(each.text) for each in last):
            return choose_unsaid(reactions["hurt"], said, draw), _HURT
        if asks_about_safety and answer and answer not in said:
            return answer, _ANSWERED
        if state.client.calm_turns:  # one more calm turn ends the session
            return choose_unsaid(reactions["stable"], said, draw), 0.0
        for question in reversed([each.text for each in last if each.is_question]):
            if _NAMES_A_NOUN.search(question):
                continue
            for cue, lines in table["answers"].items():
                left = [line for line in lines if line not in said]
                if left and _pattern(cue).search(question):
                    return choose_unsaid(left, said, draw), _ANSWERED
        return choose_unsaid(reactions["plain"], said, draw), 0.0


def _draw_of(state: SessionState, seed: int) -> str:
    # By the place in the session and not by what was said: a paraphrase meets the same client.
    return f"{seed}/{state.scenario.scenario_id}/{state.variant}/{state.turn_index}"


def choose_unsaid(lines: Sequence[str], said: str, seed: str) -> str:
    """Return one of the lines that `said` does not contain; any line if it contains all."""
    left = [line for line in lines if line not in said] or lines
    return left[int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) % len(left)]


COUNSELLORS = ("bad", "fair", "good")
"""Dismissive and accusing; polite and shallow; listening and asking. In a crisis, the last two ask
about safety and name help, the good one at once.
"""


def counsel(kind: str, state: SessionState, seed: int) -> str:
    """Return the next turn of a counsellor, a name in `COUNSELLORS`; the same seed gives the same
    turn.
    """
    words: Mapping[str, Sequence[str]] = _table("counsellor_words")
    turns = [turn.text for turn in state.messages if turn.role == THERAPIST]

    def choose(name: str) -> str:
        return choose_unsaid(words[name], "\n".join(turns), _draw_of(state, seed))

    first = 0 if kind == "good" else 1
    due = dict(enumerate(words["safety"], first)) if state.scenario.of_rules.is_crisis else {}
    safety = due.get(len(turns))
    match kind:
        case "bad":
            return choose("bad")
        case "fair":
            return safety or choose("fair")
        case _:
            return f"{choose('listens')} {safety or choose('asks')}"
