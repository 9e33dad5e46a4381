"""The file of a result: one JSON object, written whole or not at all."""

from collections.abc import Sequence

from genrm_cli.errors import UsageError
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_document
from genrm_cli.storage.location import require_json_lines, require_rl_prefix
from genrm_cli.storage.outputs import Outputs, write_one
from genrm_cli.storage.places import is_same_place
from genrm_cli.storage.store import Store


def check_result_place(uri: str | None, inputs: Sequence[str | None], settings: Settings) -> None:
    """Refuse an output that could not be written, before anything is asked."""
    if uri is None:
        return
    require_rl_prefix(uri, settings.storage.any_prefix)
    require_json_lines(uri)
    if any(given is not None and is_same_place(given, uri) for given in inputs):
        raise UsageError(f"the output {uri} is the input; choose another one.")
    store = Store(settings.storage)
    store.at(uri).check_writable()
    with Outputs(store, overwrite=settings.output.force) as outputs:
        outputs.open(uri)  # leaves nothing behind


def write_result(result: object, uri: str | None, pairs_uri: str, settings: Settings) -> None:
    """Write a result, with the mode of the pairs; nothing without a place."""
    if uri is not None:
        data = render_document(to_json(result))
        store = Store(settings.storage)
        write_one(uri, data, [pairs_uri], store, overwrite=settings.output.force)
