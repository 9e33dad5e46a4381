"""Conditions under which a setting has an effect, as its declaration names them in `only_with`:

strategy=ring               with this value
journal=s3://...            with a value that begins like this
judging=listwise|profile    with one of these; `profile`, with any value
use_journal, !conclude      with all of these; `!conclude`, without it
"""

from collections.abc import Callable, Iterator

from genrm_cli.errors import Part, SettingRef

# Of a settings file: no flag sets them.
_TABLES = {name: f"[{name}]" for name in ("components", "diversity")} | {"panel": "[[judge]]"}

ValueOf = Callable[[str], object]
"""Returns the value of a setting or a table by its flat name."""


def unmet(only_with: str, value_of: ValueOf) -> tuple[str, ...] | None:
    """Return the alternatives of the first part that the settings do not meet; None if they meet
    all.
    """
    for part in _parts(only_with):
        if not any(_is_met(alternative, value_of) for alternative in part):
            return part
    return None


def names_in(alternatives: tuple[str, ...]) -> list[str]:
    """Return the settings that alternatives name."""
    return [each.removeprefix("!").partition("=")[0] for each in alternatives]


def why_unmet(alternatives: tuple[str, ...], value_of: ValueOf) -> list[Part]:
    """Return the parts of a message that say what is in the way, or missing."""
    # A switch that is off is in the way, too, if nothing else would do: no journal.
    in_the_way = [
        name
        for name in names_in(alternatives)
        if f"!{name}" in alternatives or (len(alternatives) == 1 and value_of(name) is False)
    ]
    if in_the_way:
        return [" with ", *_joined([_named(name, value_of(name)) for name in in_the_way])]
    split = [each.partition("=") for each in alternatives]
    return [" without ", *_joined([_named(name, value or None) for name, _, value in split])]


def describe(only_with: str) -> str:
    """Return the sentences of the help, in which `$name` names a setting."""
    sentences = []
    for part in _parts(only_with):
        with_ = [_in_help(each) for each in part if not each.startswith("!")]
        without = [_in_help(each[1:]) for each in part if each.startswith("!")]
        if without:
            also = f", except with {' or '.join(with_)}" if with_ else ""
            sentences.append(f"Not with {' or '.join(without)}{also}.")
        else:
            sentences.append(f"Only with {' or '.join(with_)}.")
    return " ".join(sentences)


def _in_help(alternative: str) -> str:
    return _TABLES.get(alternative) or f"${alternative.replace('=', ' ')}"


def _named(name: str, value: object) -> Part:
    shown = value if isinstance(value, str) or value is False else None
    return _TABLES.get(name) or SettingRef(name, shown)


def _joined(named: list[Part]) -> list[Part]:
    return [part for each in named for part in (" or ", each)][1:]


def _parts(only_with: str) -> Iterator[tuple[str, ...]]:
    for part in filter(None, only_with.split(", ")):
        yield tuple(part.split("|"))


def _is_met(alternative: str, value_of: ValueOf) -> bool:
    name, equals, wanted = alternative.removeprefix("!").partition("=")
    value = value_of(name)
    if wanted.endswith("..."):
        return str(value or "").startswith(wanted.removesuffix("..."))
    if equals:
        return value == wanted
    return bool(value) is not alternative.startswith("!")
