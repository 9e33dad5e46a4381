"""`genrm profiles`: list the judge families, and try their prompts and parsers; `genrm journal`:
what judges said.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrm_cli.cli.console import print_text, say_warning
from genrm_cli.cli.options import argument
from genrm_cli.cli.scoring.show import messages_text
from genrm_cli.cli.tables import Table, names, print_parts, texts
from genrm_cli.errors import InputError, counted
from genrm_cli.settings.declare import setting
from genrm_cli.settings.kinds import TEXT_OR_FILE

if TYPE_CHECKING:
    from genrm_cli.judging.profiles.profile import AnyProfile
    from genrm_cli.judging.requests import Prompt

# Unlike any task of a user, and short: the sample shows the frame, not the content.
_CONVERSATION = [("user", "Give me a word for a person who repairs shoes.")]
_RESPONSES = (
    "A cobbler.",
    "There are many words for people who work with their hands. One of them is shoemaker.",
)


def profiles(
    name: str | None = argument("NAME", "Show this profile: a name, or your own TOML file.", None),
    reply: str | None = setting("Parse this reply of a judge: text, or @FILE.", kind=TEXT_OR_FILE),
    as_json: bool = setting("Print JSON.", False, key="json"),
) -> None:
    """List the judge families, their kind of verdict and their sampling; with a name, print a
    sample prompt exactly as the judge receives it, or parse a reply.

    Example: genrm profiles

    Example: genrm profiles nemotron

    Example: genrm profiles arena-hard --reply 'My final verdict is [[A>B]]'
    """
    from genrm_cli.judging.lookup import PROFILES, find_profile
    from genrm_cli.judging.profiles.profile import Profile, render_messages, sample_prompt

    if name is None:
        if as_json:
            print_text(_to_json([_describe(profile) for profile in PROFILES.values()]))
        else:
            print_parts(_profiles_table(PROFILES))
        return
    profile = find_profile(name, None)
    prompt = sample_prompt(profile, _CONVERSATION, *_RESPONSES)
    if reply is not None:
        print_text(_parsed_text(profile, prompt, reply))
        return
    messages = render_messages(profile, prompt)
    if isinstance(profile, Profile) and profile.render_second_turn is not None:
        messages += profile.render_second_turn("(the judge's first reply)")
    if as_json:
        print_text(_to_json({**_describe(profile), "messages": messages}))
        return
    lines = [f"{name}: {_to_json(value)}" for name, value in profile.request_fields.items()]
    fields = "\n".join(lines)
    about = f"{profile.name}, version {profile.version}: {profile.about}"
    print_text(f"{about}\n\n{fields}\n\n{messages_text(messages)}")


def _profiles_table(known: "Mapping[str, AnyProfile]") -> Table:
    table = Table([*names("profile"), *texts("judges and verdict", "request fields")])
    for profile in known.values():
        fields = []
        for name, value in profile.request_fields.items():
            shown = value.get("type", "{...}") if isinstance(value, Mapping) else value
            fields.append(f"{name} {shown}")
        table.add(profile.name, profile.about, ", ".join(fields))
    return table


def _parsed_text(profile: "AnyProfile", prompt: "Prompt", reply: str) -> str:
    """Return what a profile reads in a reply about its sample prompt."""
    from genrm_cli.judging.profiles.profile import neutralise_prompt
    from genrm_cli.judging.requests import Reply
    from genrm_cli.verdicts import Failure, Grades, Verdict

    read = profile.parse_reply(
        Reply(reply, finish_reason="stop"), neutralise_prompt(profile, prompt, {})
    )
    if isinstance(read, Failure):
        return f"no verdict: {read.kind}: {read.detail}"
    if isinstance(read, Verdict):
        return f"score_1 {read.score_1:g}, score_2 {read.score_2:g}, ranking {read.ranking:g}"
    values = read.values if isinstance(read, Grades) else ()
    return f"grades {', '.join(f'{value:g}' for value in values)}"


def _describe(profile: "AnyProfile") -> dict[str, Any]:
    return {name: getattr(profile, name) for name in ("name", "version", "about", "request_fields")}


def _to_json(value: object) -> str:
    # `default`: request fields are read-only mappings.
    return json.dumps(value, default=dict)


def journal(path: str = argument("JOURNAL", "A *.journal.sqlite file.")) -> None:
    """Print all answers, replies and failures in a journal as JSON lines.

    Example: genrm journal rollouts.journal.sqlite
    """
    from genrm_cli.judging.journal import Journal

    if not Path(path).is_file():
        raise InputError(
            f"{path}: no such journal; `genrm score` prints the path of its journal at the end."
        )
    with Journal(path, read_only=True) as opened:
        for entry in opened.iter_entries():
            print_text(json.dumps(entry))
    if opened.damaged:
        say_warning(f"{path}: {counted(len(opened.damaged), 'damaged answer')} skipped.")
