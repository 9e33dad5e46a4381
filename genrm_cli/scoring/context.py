"""What all parts of a run share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.settings import Settings
from genrm_cli.storage.location import S3Options
from genrm_cli.summary import Tally

OnEvent = Callable[[str, dict[str, Any]], None]


def _ignore(event: str, fields: dict[str, Any]) -> None:
    del event, fields


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a command.

    Attributes:
        settings: the effective settings.
        api_key: the judge's key, if it needs one; never shown, not even by `repr`.
        tally: what happened so far; another thread may read it to show progress.
        on_event: told what a person or a log should know when it happens: `plan`, `probe`, `paused`,
            `endpoint_down`, `endpoint_up`, `stopped`.
    """

    settings: Settings
    api_key: str | None = field(default=None, repr=False)
    tally: Tally = field(default_factory=Tally)
    on_event: OnEvent = _ignore

    @property
    def s3(self) -> S3Options:
        """How the settings want S3 to be reached."""
        settings = self.settings
        return S3Options(settings.s3_endpoint_url, settings.s3_profile, settings.s3_region)
