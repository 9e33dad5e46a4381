"""Other names of settings and of keys in tables.

Old names of settings keep working for one release, as flags, keys and variables, with a warning; the changelog lists
them. The digest of settings still uses them.
"""

from collections.abc import Container, Iterator, Mapping

ENVIRONMENT_PREFIX = "GENRM_"

OLD_NAMES: Mapping[str, str] = {
    "dialect": "format",
    "judges": "repeats",
    "swap": "both_orders",
    "max_tokens": "max_total_tokens",
    "claims": "leases",
    "claim_expiry": "lease_expiry",
}
JUDGE_ALIASES = {"endpoint": "base_url"}
PANEL_ALIASES = {**JUDGE_ALIASES, "name": "judge_id"}
DIVERSITY_ALIASES = {"fallback_on_error": "fallback"}
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
    """Yield a warning for each old name among the flags, the variables and the keys of the settings file."""
    for old, new in OLD_NAMES.items():
        for given, spelt in ((flags, flag_named), (environ, variable_named), (keys, str)):
            if (old if given is flags else spelt(old)) in given:
                yield f"{spelt(old)} is now {spelt(new)}; the old name stops working in the next release."
