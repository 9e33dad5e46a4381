"""What a worker takes over from its driver."""

from genrm_cli.groups.check import judge_specs
from genrm_cli.products.cluster.worker import Order, settled_specs
from genrm_cli.settings import Settings, changed


def test_workers_have_the_contexts_that_the_driver_found():
    """A worker that asked the endpoint itself, in vain, would make other requests than those that
    conclude.
    """
    settings = changed(Settings(), model="m", base_url=("http://127.0.0.1:1/v1",))
    specs = judge_specs(settings)
    for context in (8_192, 0):
        order = Order(settings, (), None, (context,))
        (settled,) = settled_specs(specs, order)
        assert settled.config.judge.max_model_len == context
        assert settled.profile == specs[0].profile
