"""`genrm demo`: score sample rollouts, without a model and without a clone."""

from pathlib import Path

from genrm_cli.cli.options import argument, run_to_end
from genrm_cli.cli.scoring.show import iter_table_parts
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import StorageError, UsageError

# Also in `sample_data/`, by a link, for the commands of the guide.
_SAMPLE = Path(__file__).with_name("demo_rollouts.jsonl")
# Of its own, so that no file of the user is in the way: only here outputs are overwritten.
_FOLDER = "genrm-demo"


def demo(
    folder: Path = argument(
        "FOLDER", f"Folder for the outputs. Default: {_FOLDER}.", Path(_FOLDER)
    ),
) -> None:
    """Score sample rollouts with the built-in lexical baseline, which counts words: no model, no
    network.

    Prints the rewards of one group, and writes scored lines and a report page into a folder.

    Example: genrm demo
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.inputs import output_places
    from genrm_cli.jobs.input_batch import score_inputs
    from genrm_cli.jobs.journals import open_known_journal
    from genrm_cli.products.report.write_report import write_report
    from genrm_cli.rollouts.redaction import mask_of
    from genrm_cli.scored.files import ScoredInput
    from genrm_cli.scored.groups import ScoredRun
    from genrm_cli.settings import settings_from
    from genrm_cli.storage.store import Store

    scored = str(folder / "rollouts.scored.jsonl")
    page = str(folder / "report.html")
    settings = settings_from(judge="lexical", output=scored, force=True)
    store = Store(settings.storage)
    places = output_places(str(_SAMPLE), settings)
    taken = [uri for uri in (scored, *places.sides(), page) if store.at(uri).exists()]
    if taken and folder != Path(_FOLDER):
        raise UsageError(f"{taken[0]} exists; remove it, or choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot be created: {error.strerror}; choose another folder."
        ) from error
    report = run_to_end(score_inputs([str(_SAMPLE)], new_run(settings)))
    if report.only_error is not None:
        raise report.only_error
    with ScoredRun(ScoredInput(scored, (scored,)), settings, open_known_journal) as run:
        run.read(store)
        print_parts(*iter_table_parts(next(run.iter_groups()), mask_of(())))
    write_report([scored], page, settings)
    print_parts(
        f"\nAll groups, with every verdict: open {page}",
        "Next, your file and your judge:",
        "  genrm score FILE --base-url http://localhost:8000/v1 --model MODEL",
    )
