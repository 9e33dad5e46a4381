"""The environments by name, built with the phrase lists and sentences that come with the program."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from genrm_cli.groups.components.rule_files import read_phrases, read_rule
from genrm_cli.rules import RULES
from genrm_cli.sessions.play import Act, scripted
from genrm_cli.sessions.therapy.client import Client
from genrm_cli.sessions.therapy.model_client import ModelClient
from genrm_cli.sessions.therapy.reading import turn_reader
from genrm_cli.sessions.therapy.scripted import ClientWords, CounsellorWords, ScriptedClient, scripted_turn
from genrm_cli.sessions.therapy.session import TherapeuticSession

THERAPEUTIC = "therapeutic_session"


def therapeutic_session(*, scripted: bool = True, max_turns: int | None = None) -> TherapeuticSession:
    """Return the environment of therapeutic sessions.

    Args:
        scripted: whether the embedded client plays; else models do.
        max_turns: overrides the limit of every scenario.
    """
    client: Client = scripted_client() if scripted else ModelClient()
    reader = turn_reader(read_phrases("empathy"), read_phrases("safety"))
    return TherapeuticSession(client, reader, {name: read_rule(name) for name in RULES}, max_turns)


ENVIRONMENTS: Mapping[str, Callable[..., TherapeuticSession]] = {THERAPEUTIC: therapeutic_session}
"""What `--environment` takes; each is called with `scripted` and `max_turns`."""


@cache
def scripted_client() -> ScriptedClient:
    """Return the client without a model."""
    table = _table("client_words")
    return ScriptedClient(ClientWords(table["reactions"], table["remarks"], table["closings"]))


@cache
def counsellor_words() -> CounsellorWords:
    """Return the sentences of the scripted counsellors."""
    return CounsellorWords(**_table("counsellor_words"))


def scripted_policy(kind: str) -> Act:
    """Return a scripted counsellor, a name of `COUNSELLORS`, as a policy."""
    words = counsellor_words()
    return scripted(lambda state, repeat: scripted_turn(kind, words, state, repeat))


def sample_scenarios() -> str:
    """Return the scenarios that come with the program, as TOML."""
    return _text("scenarios")


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(_text(name))


def _text(name: str) -> str:
    return files("genrm_cli.sessions.therapy").joinpath(f"{name}.toml").read_text(encoding="utf-8")
