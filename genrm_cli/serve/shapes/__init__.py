"""The wire shapes, one module each: a shape is added with its module and its line in this table."""

from genrm_cli.serve.shapes import cohorts, compare, groups, nemo_gym, openrlhf, slime
from genrm_cli.serve.shapes.call import Shape

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        groups.SHAPE,
        cohorts.SHAPE,
        compare.SHAPE,
        nemo_gym.SHAPE,
        openrlhf.SHAPE,
        slime.SHAPE,
    )
}
