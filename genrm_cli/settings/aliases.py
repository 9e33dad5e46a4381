"""Old names of settings: their flags, keys and variables work for one release, with a warning.

The changelog lists them. The digest of settings keeps using them.
"""

from collections.abc import Container, Iterator, Mapping

ENVIRONMENT_PREFIX = "GENRM_"

OLD_NAMES: Mapping[str, str] = {
    "judges": "repeats",
    "swap": "both_orders",
    "max_tokens": "max_total_tokens",
    "claims": "leases",
    "claim_expiry": "lease_expiry",
}
_OLD_NAME_OF = {new: old for old, new in OLD_NAMES.items()}


def current_name(name: str) -> str:
    """Return the current name of a setting given by its current or its old name."""
    return OLD_NAMES.get(name, name)


def oldest_name(name: str) -> str:
    """Return the first name that a setting had."""
    return _OLD_NAME_OF.get(name, name)


def flag_named(name: str) -> str:
    """Return the long flag of a setting's key or old name."""
    return "--" + name.replace("_", "-")


def variable_named(name: str) -> str:
    """Return the environment variable of a setting's key or old name."""
    return ENVIRONMENT_PREFIX + name.upper()


def iter_renamed(flags: Container[str], environ: Container[str], keys: Container[str]) -> Iterator[str]:
    """Yield a warning for each old name in use.

    Args:
        flags: names of the settings given by flags.
        environ: the process environment.
        keys: of the settings file.
    """
    for old, new in OLD_NAMES.items():
        if old in flags:
            yield _renamed(flag_named(old), flag_named(new))
        if variable_named(old) in environ:
            yield _renamed(variable_named(old), variable_named(new))
        if old in keys:
            yield _renamed(old, new)


def _renamed(old: str, new: str) -> str:
    return f"{old} is now {new}; the old name stops working in the next release."
