"""The result of `genrm eval --grid` as one HTML page without scripts."""

from collections.abc import Sequence

from genrm_cli.products.report.charts import PricedPoint, draw_costs
from genrm_cli.products.report.render_page import render_page
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.store import Store


def write_grid_page(
    uri: str, grid: object, options: Sequence[PricedPoint], store: Store, *, overwrite: bool
) -> None:
    """Write the page of a grid.

    Args:
        uri: of the page.
        grid: what `grid.html.jinja` shows.
        options: accuracies of its options in their order, each with its cost.
        store: where the page goes.
        overwrite: whether to replace an existing page.

    Raises:
        GenrmError: it exists and `overwrite` is off, or it cannot be written.
    """
    chart = draw_costs(options, "accuracy over cost")
    page = render_page("grid.html.jinja", grid=grid, chart=chart)
    with Outputs(store, overwrite=overwrite) as outputs:
        outputs.open(uri).write(page.encode())
        outputs.commit()
