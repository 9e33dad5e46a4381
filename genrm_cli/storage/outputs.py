"""Outputs of one run that appear together.

Several outputs cannot appear in one step. Where they replace earlier ones, `x.commit` is written
before the first of them appears, and removed after the last: while it exists, the outputs next to
it may be a mixture of old and new. The next run then writes them again, with the verdicts of its
journal. New outputs need no mark: those that readers wait for appear last."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import reduce

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.settings import Settings
from genrm_cli.storage.contract import ANY_MODE, Sink
from genrm_cli.storage.location import require_json_lines, require_rl_prefix
from genrm_cli.storage.places import is_same_place, place_of
from genrm_cli.storage.store import Store

COMMIT_SUFFIX = ".commit"


@dataclass(eq=False)
class Outputs(AbstractContextManager["Outputs"]):
    """The outputs of one run, which appear in the order they were opened, all of them or none.

    Open the output that readers wait for last. Leaving the context without `commit` discards all of
    them.

    Attributes:
        mark_uri: where the mark of a commit is; None for a single output or streams.
        are_missing: whether the caller has just seen that no output exists, which saves a look at
            each. One that appears meanwhile is refused at the end.
    """

    store: Store
    overwrite: bool
    mark_uri: str | None = None
    mode: int = ANY_MODE
    are_missing: bool = False
    _sinks: dict[str, Sink] = field(default_factory=dict, init=False)  # by place

    def __exit__(self, *_: object) -> None:
        with ExitStack() as aborts:  # a failing abort must not prevent the others
            for sink in self._sinks.values():
                aborts.callback(sink.abort)

    def open(self, uri: str, *, mode: int | None = None) -> Sink:
        """Open another output, with a name of its own; `mode` is that of this new local file
        instead of that of all.
        """
        place = place_of(uri)
        if place in self._sinks:
            raise UsageError(f"two outputs would go to {uri}; give each its own name")
        of_file = self.mode if mode is None else mode
        if self.are_missing:
            sink = self.store.at(uri).open_sink(overwrite=self.overwrite, mode=of_file)
        else:
            sink = self.store.open_sink(uri, overwrite=self.overwrite, mode=of_file)
        self._sinks[place] = sink
        return sink

    def discard(self, sink: Sink) -> None:
        """Drop an output, so that it does not appear."""
        del self._sinks[place_of(sink.uri)]
        sink.abort()

    def commit(self) -> None:
        """Publish all outputs, in the order they were opened.

        The content of all outputs is stored before the first one is published, so a full disk
        publishes none. If publishing one fails or the process is killed, earlier outputs are
        published and later ones are not; the mark then remains."""
        for sink in self._sinks.values():
            sink.finish()
        mark = None
        if self.overwrite and self.mark_uri is not None:
            mark = self.store.at(self.mark_uri)
        if mark is not None:
            mark.replace(b"a run stopped while its outputs appeared: score again\n")
        for sink in self._sinks.values():
            sink.commit()
        if mark is not None:
            with suppress(StorageError):  # the outputs are complete, whether or not it remains
                mark.remove()


def check_output(uri: str, inputs: Sequence[str], settings: Settings) -> None:
    """Refuse a single output that could not be written, before the work that makes it."""
    require_rl_prefix(uri, settings.storage.any_prefix)
    require_json_lines(uri)
    _refuse_input(uri, inputs)
    store = Store(settings.storage)
    store.at(uri).check_writable()
    with Outputs(store, settings.output.force) as outputs:
        outputs.open(uri)  # leaves nothing behind


def write_output(uri: str, data: bytes, inputs: Sequence[str], settings: Settings) -> None:
    """Write a single output whole or not at all, as private as the most private input."""
    _refuse_input(uri, inputs)
    store = Store(settings.storage)
    mode = reduce(int.__and__, (store.at(each).mode() for each in inputs))
    with Outputs(store, settings.output.force, mode=mode) as outputs:
        outputs.open(uri).write(data)
        outputs.commit()


def _refuse_input(uri: str, inputs: Sequence[str]) -> None:
    if any(is_same_place(each, uri) for each in inputs):
        raise UsageError(f"the output {uri} is an input; choose another place.")
