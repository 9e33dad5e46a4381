"""`genrm profiles`: list the judge families, and try their prompts and parsers; `genrm journal`:
what judges said.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrm_cli.cli.console import print_text, say_warning
from genrm_cli.cli.options import argument, ending, exits, option, switch
from genrm_cli.cli.scoring.show import messages_text
from genrm_cli.cli.tables import Table, names, print_parts, texts
from genrm_cli.errors import InputError, SettingRef, UsageError, counted
from genrm_cli.settings.kinds import parse_text_argument

if TYPE_CHECKING:
    from genrm_cli.judging.profiles.profile import AnyProfile
    from genrm_cli.judging.requests import Prompt

profiles = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

NameOrFile = Annotated[str, argument("NAME", "A profile name or a TOML file.")]
AsJson = Annotated[bool, switch("--json", "Print JSON.")]

_CONVERSATION = [("user", "Give me a word for a person who repairs shoes.")]
_RESPONSES = (
    "A cobbler.",
    "There are many words for people who work with their hands. One of them is shoemaker.",
)


@profiles.callback()
def list_profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """List the judge families, their kind of verdict and their sampling.

    Example: genrm profiles
    """
    from genrm_cli.judging.lookup import PROFILES

    if context.invoked_subcommand is not None:
        return
    with ending():
        if as_json:
            print_text(_to_json([_describe(profile) for profile in PROFILES.values()]))
            return
        table = Table([*names("profile"), *texts("judges and verdict", "request fields")])
        for profile in PROFILES.values():
            fields = ", ".join(
                f"{name} {value.get('type', '{...}') if isinstance(value, Mapping) else value}"
                for name, value in profile.request_fields.items()
            )
            table.add(profile.name, profile.about, fields)
        print_parts(table)


@profiles.command("test")
@exits
def read_reply(
    name: NameOrFile,
    reply: Annotated[str, typer.Option(help="The judge's reply: text, or @FILE.")],
    response: Annotated[
        list[str] | None,
        option(
            "TEXT",
            "A response that the judge was shown: text, or @FILE. Repeat for each response, in "
            "order.",
        ),
    ] = None,
    truncated: Annotated[
        bool, switch("--truncated", "Treat the reply as cut off by the token limit.")
    ] = False,
) -> None:
    """Parse a reply and print the verdict or the failure.

    Example: genrm profiles test arena-hard --reply 'My final verdict is [[A>B]]'
    """
    from genrm_cli.judging.lookup import find_profile
    from genrm_cli.judging.profiles.profile import neutralise_prompt
    from genrm_cli.judging.requests import Reply
    from genrm_cli.verdicts import Failure, Grades, Verdict

    text = _read_text(reply, "reply")
    profile = find_profile(name, None)
    responses = tuple(_read_text(each, "response") for each in response or ())
    prompt = neutralise_prompt(
        profile, _prompt_for(profile, responses) if responses else _sample_for(profile), {}
    )
    read = profile.parse_reply(Reply(text, finish_reason="length" if truncated else "stop"), prompt)
    if isinstance(read, Failure):
        print_text(f"no verdict: {read.kind}: {read.detail}")
    elif isinstance(read, Verdict):
        print_text(f"score_1 {read.score_1:g}, score_2 {read.score_2:g}, ranking {read.ranking:g}")
    elif isinstance(read, Grades):
        print_text(f"grades {', '.join(f'{value:g}' for value in read.values)}")


def _read_text(value: str, option: str) -> str:
    try:
        return parse_text_argument(value)
    except ValueError as error:
        raise UsageError(SettingRef(option), f": {error}") from error


@profiles.command()
@exits
def show(name: NameOrFile, as_json: AsJson = False) -> None:
    """Print a sample prompt, exactly as the judge receives it.

    Example: genrm profiles show nemotron
    """
    from genrm_cli.judging.lookup import find_profile
    from genrm_cli.judging.profiles.profile import Profile, render_messages

    profile = find_profile(name, None)
    messages = render_messages(profile, _sample_for(profile))
    if isinstance(profile, Profile) and profile.render_second_turn is not None:
        messages += profile.render_second_turn("(the judge's first reply)")
    if as_json:
        print_text(_to_json({**_describe(profile), "messages": messages}))
        return
    fields = "\n".join(
        f"{name}: {_to_json(value)}" for name, value in profile.request_fields.items()
    )
    print_text(
        f"{profile.name}, version {profile.version}: "
        f"{profile.about}\n\n{fields}\n\n{messages_text(messages)}"
    )


def _sample_for(profile: "AnyProfile") -> "Prompt":
    from genrm_cli.judging.profiles.profile import GradingProfile

    shows_one = isinstance(profile, GradingProfile) and not profile.whole_group
    return _prompt_for(profile, _RESPONSES[:1] if shows_one else _RESPONSES)


def _prompt_for(profile: "AnyProfile", responses: tuple[str, ...]) -> "Prompt":
    from genrm_cli.judging.profiles.profile import GradingProfile
    from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt

    if isinstance(profile, GradingProfile) and (profile.whole_group or len(responses) == 1):
        return ListwisePrompt(_CONVERSATION, responses)
    if isinstance(profile, GradingProfile) or len(responses) != 2:
        count = "one response" if isinstance(profile, GradingProfile) else "two responses"
        raise UsageError(
            f"{profile.name} shows the judge {count} at a time, but --response was given "
            f"{len(responses)} time(s)."
        )
    return PairwisePrompt(_CONVERSATION, *responses)


def _describe(profile: "AnyProfile") -> dict[str, Any]:
    return {name: getattr(profile, name) for name in ("name", "version", "about", "request_fields")}


def _to_json(value: object) -> str:
    # `default`: request fields are read-only mappings.
    return json.dumps(value, default=dict)


@exits
def journal(path: Annotated[str, argument("JOURNAL", "A *.journal.sqlite file.")]) -> None:
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
