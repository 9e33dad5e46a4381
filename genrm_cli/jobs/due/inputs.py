"""The inputs of a command line, and the output locations of each."""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import GenrmError, InputError, SettingRef, UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.sources import Sources
from genrm_cli.metrics.event import Event, OnEvent, Severity, ignore_event
from genrm_cli.settings import Settings
from genrm_cli.storage.contract import Found
from genrm_cli.storage.local.sinks import is_streamed
from genrm_cli.storage.location import (
    SET_NAME,
    check_uri,
    folder_of,
    is_remote,
    is_rollout_file,
    is_scored_file,
    is_stream,
    render_place,
    require_json_lines,
    require_rl_prefix,
    sibling,
    stem_of,
    stem_of_set,
)
from genrm_cli.storage.outputs import COMMIT_SUFFIX
from genrm_cli.storage.patterns import literal_folder, names_many
from genrm_cli.storage.places import is_same_place
from genrm_cli.storage.store import Store


class OutputPlaces(Struct, frozen=True):
    """The output locations of an input; None next to a stream or pipe. The files of a set share the
    name `scored`.

    Attributes:
        journal_for: the output whose journal is used; None for `scored`.
    """

    scored: str
    comparisons: str | None = None
    rejects: str | None = None
    metrics: str | None = None
    files: tuple[str, ...] = ()
    journal_for: str | None = None

    @property
    def journal_uri(self) -> str:
        """The output whose journal is used."""
        return self.journal_for or self.scored

    @property
    def scored_files(self) -> tuple[str, ...]:
        """The scored lines of each file."""
        return self.files or (self.scored,)

    @property
    def shown(self) -> str:
        """Output path to display; for a set, its folder."""
        return f"{folder_of(self.scored).rstrip('/')}/" if self.files else self.scored

    @property
    def commit_mark(self) -> str | None:
        """The mark of a commit, which exists only while outputs may be a mix of old and new."""
        return None if self.metrics is None else sibling(self.scored, COMMIT_SUFFIX)

    def sides(self) -> list[str]:
        """Return the locations next to the scored lines."""
        return [uri for uri in (self.comparisons, self.rejects, self.metrics) if uri is not None]


_PAGE = 1_000  # of a listing, as S3 sends it
_NO_PLACES = OutputPlaces("")
NO_ROLLOUT_FILES = (
    "no rollout files; expected names such as run.jsonl or run.jsonl.gz (files with other names "
    "are read if you name each of them)"
)


class NothingFoundEvent(Event, frozen=True):
    """An input names no file of rollouts, while others do."""

    severity = Severity.WARNING
    input: str
    detail: str
    exit_code: int = 0

    def text(self) -> str:
        """Name the input."""
        return f"{self.input}: {self.detail}"


class Task(Struct, frozen=True):
    """One input and its output locations, or `problem`: why it cannot be scored.

    `found` is its entry in a listing; None for a set or an input that the user named. `beside` are
    the names that the listing showed beside its scored lines; None if it did not list them.
    """

    uri: str
    places: OutputPlaces
    found: Found | None = None
    problem: GenrmError | None = None
    members: tuple["Task", ...] = ()
    beside: frozenset[str] | None = None

    @property
    def files(self) -> tuple["Task", ...]:
        """The files of a set, or the only one."""
        return self.members or (self,)

    @property
    def is_named(self) -> bool:
        """Whether the user named it or a file of the set, so a later run may not look for it."""
        return any(file.found is None for file in self.files)

    def sources(self, run: RunContext) -> Sources:
        """Return its files for reading."""
        sources = Sources(
            [file.uri for file in self.files], run, self.uri if self.members else None
        )
        # A file that is replaced after it was listed is left to the next run.
        for number, file in enumerate(self.files):
            if file.found is not None and is_remote(file.uri):
                sources.identities[number] = file.found.identity
        return sources


def is_one_input(inputs: Sequence[str]) -> bool:
    """Whether a command line names exactly one file, object or stream."""
    return len(inputs) == 1 and not names_many(inputs[0])


def iter_tasks(
    inputs: Sequence[str], settings: Settings, on_event: OnEvent = ignore_event
) -> Iterator[Task]:
    """Yield the inputs of a command line, each once, as `iter_files`; with `together`, one set of
    all their files.
    """
    tasks = iter_files(inputs, settings, on_event)
    if not settings.input.together:
        yield from tasks
    elif members := sorted(tasks, key=lambda task: task.uri):
        # Sorted, since the same files are the same set in any order.
        yield members[0] if len(members) == 1 else _set_of(members, settings)


def only_task(inputs: Sequence[str], settings: Settings) -> Task:
    """Return the only input of a command line; raise its problem, or what is wrong with their
    number.
    """
    tasks = list(islice(iter_tasks(inputs, settings), 2))
    if not tasks:
        raise InputError(f"{', '.join(inputs)}: {NO_ROLLOUT_FILES}.")
    if len(tasks) > 1:
        raise UsageError(
            f"{tasks[1].uri}: one file is read; ",
            naming("name one, or a set of files with $together."),
        )
    if tasks[0].problem is not None:
        raise tasks[0].problem
    return tasks[0]


def places_in(folder: str, outputs: OutputPlaces) -> OutputPlaces:
    """Return locations in a folder of this machine, with the journal of these outputs, for a job
    whose outputs are read and thrown away.
    """
    own = partial(os.path.join, folder)
    return OutputPlaces(
        scored=own("set.scored.jsonl"),
        comparisons=own("set.comparisons.jsonl"),
        files=tuple(own(f"{number}.scored.jsonl") for number in range(len(outputs.files))),
        journal_for=outputs.journal_uri,
    )


def _set_of(members: Sequence[Task], settings: Settings) -> Task:
    """Return the set of these files; a problem with one file is a problem with the set."""
    problem = next((task.problem for task in members if task.problem is not None), None)
    if problem is not None:
        return Task(SET_NAME, _NO_PLACES, problem=problem)
    try:
        scored = tuple(task.places.scored for task in members)
        stem = stem_of_set(scored)
        return Task(
            stem, replace(_places_of(f"{stem}.scored.jsonl"), files=scored), members=tuple(members)
        )
    except UsageError as error:
        return Task(SET_NAME, _NO_PLACES, problem=error)


def iter_files(
    inputs: Sequence[str], settings: Settings, on_event: OnEvent = ignore_event
) -> Iterator[Task]:
    """Yield the files of a command line, each once, lazily; keeps about 200 bytes a file.

    Side files (outputs of genrm and NeMo Gym) in folders, prefixes and patterns are skipped. An
    input that cannot be listed or has no output location yields a task with a problem; the others
    continue. So do folders and patterns if none of them has rollout files; an empty prefix of S3
    may have some later."""
    if is_one_input(inputs):
        yield Task(inputs[0], output_places(inputs[0], settings))
        return
    _refuse_ambiguous(inputs, settings)
    taken: dict[int, int] = {}  # hashes of outputs, and of the inputs they belong to
    # Hashes keep 16 bytes of an input. A few folders are resolved at a time, as a listing walks
    # through one after another.
    real_folder = lru_cache(16)(os.path.realpath)
    # A pattern of a shell finds the outputs of the first run, too.
    stems = {stem_of(uri) for uri in inputs if not is_scored_file(uri)}
    empty: list[str] = []
    for given in inputs:
        if is_scored_file(given) and stem_of(given) in stems:
            continue
        task = None
        for task in _tasks_of(given, settings):
            if task.problem is not None:
                yield task
                continue
            output, uri = (
                _hash_of_place(place, real_folder) for place in (task.places.scored, task.uri)
            )
            if output not in taken:
                taken[output] = uri
                yield task
            elif taken[output] != uri:
                shared = f"{task.uri}: another input has the same output {task.places.scored}; add "
                remedy = naming("{dir} or {path} to $output_template, or rename one.")
                yield replace(task, problem=UsageError(shared, remedy))
        if task is None:
            empty.append(given)
    has_nothing = len(empty) == len(inputs) and not all(map(is_remote, inputs))
    for given in empty:
        if has_nothing:
            yield Task(given, _NO_PLACES, problem=InputError(f"{given}: {NO_ROLLOUT_FILES}."))
        else:
            on_event(NothingFoundEvent(given, NO_ROLLOUT_FILES))


def output_places(uri: str, settings: Settings, below: str | None = None) -> OutputPlaces:
    """Return the output locations of an input; `below` is the folder that was searched, by default
    the input's own.

    Refuse an output that is the input, one whose name promises another format than JSON lines, and
    S3 results that would not lie under `rl/`.
    """
    check_uri(uri)  # before other URIs are derived from it
    scored = settings.output.output
    if scored is None and is_stream(uri):
        scored = uri
    if scored is None:
        scored = render_place(
            settings.output.output_template, uri, folder_of(uri) if below is None else below
        )
    require_rl_prefix(scored, settings.storage.any_prefix)
    if is_streamed(scored):
        return OutputPlaces(scored)
    require_json_lines(scored)
    places = _places_of(scored)
    for place in (places.scored, *places.sides()):
        if is_same_place(place, uri):
            raise UsageError(
                f"the output {place} is the input; ",
                naming(
                    "name the rollouts if these lines are scored already, or choose another "
                    "$output."
                ),
            )
    return places


def _places_of(scored: str) -> OutputPlaces:
    return OutputPlaces(
        scored,
        comparisons=sibling(scored, ".comparisons.jsonl"),
        rejects=sibling(scored, ".rejects.jsonl"),
        metrics=sibling(scored, ".metrics.json"),
    )


def _refuse_ambiguous(inputs: Sequence[str], settings: Settings) -> None:
    """Refuse settings that do not work with several inputs, before touching any of them."""
    template = settings.output.output_template
    if settings.output.output is not None:
        raise UsageError(
            naming("$output names one output, but there are several inputs; use $output_template.")
        )
    if any(is_stream(given) for given in inputs):
        raise UsageError("'-' cannot be combined with other inputs; name files, or pass - alone.")
    if "{stem}" not in template:
        raise UsageError(
            SettingRef("output_template", template),
            ": inputs of one folder would share one output; add {stem}, as in "
            "'{dir}/scored/{stem}.scored.jsonl'.",
        )
    if is_rollout_file(render_place(template, "folder/name.jsonl", "folder")):
        raise UsageError(
            SettingRef("output_template", template),
            ": the next run would read these outputs as rollouts; "
            "use the suffix .scored.jsonl (.scored.jsonl.gz, .scored.jsonl.zst).",
        )


def _tasks_of(given: str, settings: Settings) -> Iterator[Task]:
    if not names_many(given):
        yield _task(given, settings)
        return
    try:
        below = literal_folder(given)
        for found, beside in _iter_listed(given, Store(settings.storage)):
            uri = found.identity.uri
            if is_rollout_file(uri):
                task = _task(uri, settings, below, found)
                is_beside = stem_of(task.places.scored) == stem_of(uri)
                yield replace(task, beside=beside if is_beside else None)
    except GenrmError as error:
        yield Task(given, _NO_PLACES, problem=error)


def _iter_listed(given: str, store: Store) -> Iterator[tuple[Found, frozenset[str] | None]]:
    """Yield listed files; those of a prefix with the names that begin with their stem and a dot,
    among them their outputs; None for names that the listing may have on another page.
    """
    listing = store.at(given).iter_found()
    if not is_remote(given) or not given.endswith("/"):
        # A pattern leaves out the outputs; a local file is cheap to look at.
        yield from ((found, None) for found in listing)
        return
    is_first = True
    while page := list(islice(listing, _PAGE)):
        names = [found.identity.uri for found in page]
        is_last = len(page) < _PAGE
        for found in page:
            stem = stem_of(found.identity.uri)
            start = bisect_left(names, f"{stem}.")
            end = bisect_left(names, f"{stem}/")  # the character that follows a dot
            is_whole = (start or is_first) and (end < len(names) or is_last)
            yield found, frozenset(names[start:end]) if is_whole else None
        is_first = False


def _task(
    uri: str, settings: Settings, below: str | None = None, found: Found | None = None
) -> Task:
    try:
        return Task(uri, output_places(uri, settings, below), found)
    except UsageError as error:
        # A name that is not UTF-8 is part of the account, too.
        return Task(uri.encode(errors="backslashreplace").decode(), _NO_PLACES, found, error)


def _hash_of_place(uri: str, real_folder: Callable[[str], str]) -> int:
    if is_remote(uri):
        return hash(uri)
    folder, name = os.path.split(uri)
    return hash((real_folder(folder), name))
