"""Write a report: read all runs, and render them as one page.

The page holds figures and charts as HTML, and the groups as inert blocks of data."""

from collections.abc import Sequence
from functools import reduce

from msgspec import Struct

from genrm_cli.errors import UsageError
from genrm_cli.jobs.previews.so_far import SoFar
from genrm_cli.json_types import Record
from genrm_cli.metrics.figures import DIFFERENCE, FigureForm
from genrm_cli.metrics.group_measures import EFFECT, RELIABILITY
from genrm_cli.products.report.blocks import Blocks, packed
from genrm_cli.products.report.charts import draw_histogram, number_text
from genrm_cli.products.report.content import RunPage, page_index, page_values, read_run
from genrm_cli.products.report.render_page import render_page
from genrm_cli.products.report.report_figures import FORMAT, reason_text
from genrm_cli.scored.files import find_scored
from genrm_cli.scored.trust import SHARE
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.location import sibling
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.places import is_same_place
from genrm_cli.storage.store import Store

SUFFIX = ".report.html"
_FORMS = {
    "reward": FigureForm(3),
    "reliability": RELIABILITY,
    "effect": EFFECT,
    "length": FigureForm(0),
    "share": SHARE,
    "difference": DIFFERENCE,
}
_MARK = "<!--blocks-->"  # page text cannot contain it: the template escapes everything


class WrittenReport(Struct, frozen=True):
    """A finished report: its figures, and where it is.

    Attributes:
        groups_bytes: size of the groups in the page.
        runs: with whether their rewards can be trusted, and why.
    """

    figures: Record
    output: str
    groups_bytes: int
    runs: Sequence[RunPage]


def write_report(
    inputs: Sequence[str],
    output: str | None,
    settings: Settings,
    unfinished: Sequence[SoFar] = (),
) -> WrittenReport:
    """Write the report of scored files.

    Args:
        inputs: scored files, folders, prefixes and patterns.
        output: URI of the page; None for a name next to a single input, `report.html` for several.
        settings: how lines are read, what is masked, whether outputs may be replaced.
        unfinished: runs that have not ended.

    Raises:
        GenrmError: its subclasses say what went wrong; no page has appeared then.
    """
    store = Store(settings.storage)
    scored = find_scored(inputs, settings, store) if inputs else []
    read_with = [*(settings for _ in scored), *(each.settings for each in unfinished)]
    scored += [each.scored for each in unfinished]
    names = [each.unfinished or each.uri for each in scored]
    target = output or (sibling(names[0], SUFFIX) if len(scored) == 1 else "report.html")
    uris = [uri for each in scored for uri in each.files]
    # No page replaces what a run still reads or writes.
    uris += [uri for each in unfinished for uri in each.inputs]
    if any(is_same_place(uri, target) for uri in uris):
        raise UsageError(f"the output {target} is an input; choose another output with -o.")
    # As private as the most private input.
    mode = reduce(int.__and__, (store.at(uri).mode() for uri in uris))
    with Blocks() as blocks, Outputs(store, overwrite=settings.output.force, mode=mode) as outputs:
        sink = outputs.open(target)
        runs = list[RunPage]()
        for number, (each, used) in enumerate(zip(scored, read_with, strict=True)):
            start = sum(len(run.rows) for run in runs)
            runs.append(read_run(number, start, each, used, blocks))
        blocks.finish()
        values = page_values(runs, settings.judge.redact_pattern)
        page = render_page(
            "report.html.jinja",
            "report.js",
            draw=draw_histogram,
            short=number_text,
            forms=_FORMS,
            reason_text=reason_text,
            **values,
        )
        # The groups are written between, one block at a time: they may be larger than memory.
        before, after = page.split(_MARK)
        sink.write(before.encode())
        sink.write(_inert("index", packed(render_record(page_index(runs)))))
        for number, block in enumerate(blocks):
            sink.write(_inert(f"block-{number}", block))
        sink.write(after.encode())
        outputs.commit()
        figures = {"format": FORMAT, "output": target, "runs": [run.as_dict() for run in runs]}
        return WrittenReport(figures, target, blocks.size_bytes, runs)


def _inert(name: str, data: bytes) -> bytes:
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), data)
