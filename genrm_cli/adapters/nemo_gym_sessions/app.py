"""Start `genrm serve --environment therapeutic_session` on the host and port that NeMo Gym assigns.

This file needs NeMo Gym and the command `genrm`."""

import os

from nemo_gym.base_resources_server import BaseResourcesServerConfig, SimpleResourcesServer


class SessionServerConfig(BaseResourcesServerConfig):  # type: ignore[misc]
    """Further flags of `genrm serve`, such as those of the judge."""

    genrm_flags: tuple[str, ...] = ()


class SessionServer(SimpleResourcesServer):  # type: ignore[misc]
    """Names the configuration; genrm answers the requests."""

    config: SessionServerConfig


def command_of(config: SessionServerConfig) -> list[str]:
    """Return the command that serves the sessions."""
    listen = f"{config.host}:{config.port}"
    environment = ["--environment", "therapeutic_session"]
    return ["genrm", "serve", *environment, "--listen", listen, *config.genrm_flags]


if __name__ == "__main__":
    command = command_of(SessionServer.load_config_from_global_config())
    os.execvp(command[0], command)  # noqa: S606  (NeMo Gym's signals reach genrm itself)
