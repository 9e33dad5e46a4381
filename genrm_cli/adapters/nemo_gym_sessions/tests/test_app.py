"""The command that the server becomes; NeMo Gym runs this test with those of its own servers."""

from types import SimpleNamespace
from unittest import TestCase

from resources_servers.therapeutic_session.app import command_of


class TestCommand(TestCase):
    """The command line of `genrm serve`."""

    def test_it_listens_where_nemo_gym_expects_it(self) -> None:
        """Host, port and flags come from the configuration."""
        config = SimpleNamespace(host="127.0.0.1", port=8123, genrm_flags=["--model", "m"])
        command = command_of(config)
        self.assertEqual(command[:2], ["genrm", "serve"])
        self.assertEqual(command[-3:], ["127.0.0.1:8123", "--model", "m"])
