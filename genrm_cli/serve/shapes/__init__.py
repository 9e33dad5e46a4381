"""The wire shapes that the server speaks. A trainer is added with its routes in a module, and a row in this table."""

from genrm_cli.serve.shapes import nemo_gym, own, samples
from genrm_cli.serve.shapes.call import Route

SHAPES: tuple[tuple[Route, ...], ...] = (own.ROUTES, nemo_gym.ROUTES, samples.ROUTES)
