"""Remedies for a judge that cannot be used."""

from genrm_cli.errors import Message, naming

CHECK_ADDRESS = naming("Check $base_url (it usually ends in /v1)")
WRONG_PLACE = Message.of(CHECK_ADDRESS, naming(" and $model."))
LIST_REMEDY = naming(
    "Let it judge pairs ($judging), or lower $list_size.",
    judging="pairwise",
)
# llama.cpp answers 503 until its model is loaded, and so does a gateway before a server starts.
LOADING = Message.of("It is loading its model, or is overloaded: try again in a minute.")
SPENT = Message.of("Its account has no budget left: add credit, or raise the limit of the key.")


def remedy_for_key(*, was_sent: bool) -> Message:
    """Return what to do about a key that is refused, or missing."""
    if not was_sent:
        return naming(
            "No key was sent: export it as GENRM_API_KEY, or name another variable with "
            "$api_key_env."
        )
    return naming(
        "A key was sent: correct the variable that it comes from, GENRM_API_KEY, else "
        "OPENAI_API_KEY, or the one that $api_key_env names."
    )
