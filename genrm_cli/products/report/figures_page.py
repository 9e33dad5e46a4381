"""Pages of figures without scripts: the comparison of a grid, and a ranking."""

from collections.abc import Sequence

from genrm_cli.metrics.figures import POINTS, STRENGTH, WINS
from genrm_cli.products.report.charts import PricedPoint, draw_costs
from genrm_cli.products.report.render_page import render_page
from genrm_cli.settings import Settings
from genrm_cli.storage.outputs import write_output


def write_grid_page(
    uri: str, grid: object, options: Sequence[PricedPoint], inputs: Sequence[str], given: Settings
) -> None:
    """Write the page of a grid; see `write_ranking_page`.

    Args:
        grid: what `grid.html.jinja` shows.
        options: accuracies of its options in their order, each with its cost.
    """
    chart = draw_costs(options, "accuracy over cost")
    page = render_page("grid.html.jinja", grid=grid, chart=chart, shares=WINS, points=POINTS)
    write_output(uri, page.encode(), inputs, given)


def write_ranking_page(uri: str, ranking: object, inputs: Sequence[str], given: Settings) -> None:
    """Write the page of a ranking, as private as the most private input.

    Args:
        ranking: what `ranking.html.jinja` shows.
        inputs: the files that it is about, none of which is replaced.
        given: whether an existing page is.

    Raises:
        GenrmError: the page exists and may not be replaced, or it cannot be written.
    """
    page = render_page("ranking.html.jinja", ranking=ranking, wins=WINS, strengths=STRENGTH)
    write_output(uri, page.encode(), inputs, given)
