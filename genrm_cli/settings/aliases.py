"""Old names of settings, accepted for one release."""

from collections.abc import Mapping

OLD_NAMES: Mapping[str, str] = {
    "judges": "repeats",
    "swap": "both_orders",
    "max_tokens": "max_total_tokens",
    "claims": "leases",
    "claim_expiry": "lease_expiry",
}


def current_name(name: str) -> str:
    """Return the current name of a setting given by its current or its old name."""
    return OLD_NAMES.get(name, name)
