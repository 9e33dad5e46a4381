"""The replies of a run from files, and its requests in files."""

from collections.abc import Iterable

from genrm_cli.errors import InputError, naming
from genrm_cli.jobs.offline.replies import Replies
from genrm_cli.jobs.offline.request_files import RequestFiles
from genrm_cli.judging.client import CallError
from genrm_cli.judging.offline import PendingRequest
from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import FailureKind


class FileExchange:
    """A `ReplyStore` in files; all inputs of a run share it.

    Attributes:
        requests: None if the run writes no requests, so that those without a reply are not asked.
        is_used: whether any input was judged.
        has_pending: whether a group of any input lacked a reply.
        failures: why replies give no verdict, by kind: how many, and the first reason.
    """

    def __init__(self, replies: Replies, requests: RequestFiles | None) -> None:
        """Read replies, and write requests if there is a file for them."""
        self.replies = replies
        self.requests = requests
        self.is_used = False
        self.has_pending = False
        self.failures: dict[FailureKind, tuple[int, str]] = {}
        self._used_before = 0  # replies that answered requests of earlier inputs

    def replies_to(self, id_: bytes) -> Iterable[Reply | CallError]:
        """Return the replies to a request."""
        return self.replies.replies_to(id_)

    def add(self, request: PendingRequest) -> bool:
        """Write a request into its file, if there is one."""
        if self.requests is None:
            return False
        self.requests.add(request)
        if request.failure is not None:
            kind = request.failure.kind
            count, example = self.failures.get(kind, (0, request.failure.detail))
            self.failures[kind] = (count + 1, example)
        return True

    def end_input(self, pending: int) -> bool:
        """Record that an input was read, with its groups that lack replies; return whether it has
        to wait for a later run.

        Raises:
            InputError: no reply answers a request about this input, whose outputs would be
                written.
        """
        # Outputs without any reply of this input would look like those of a judge that failed: the
        # user has most likely passed the replies of another run.
        used = self.replies.used
        is_foreign = used == self._used_before
        self._used_before = used
        self.is_used = True
        self.has_pending = self.has_pending or pending > 0
        if pending and self.requests is None and is_foreign:
            raise self.foreign_error
        return pending > 0 and self.requests is not None

    @property
    def foreign_error(self) -> InputError:
        """The error that no reply is to a request of this run."""
        reasons = [f"{places}: {reason}" for _, places, reason in self.replies.refused()]
        return InputError(
            f"{', '.join(self.replies.uris)}: no reply to a request about this input ",
            f"({'; '.join(reasons) or 'no lines'}). ",
            naming(
                "Pass the options with which $requests_to wrote the requests, and the file of "
                "their replies."
            ),
        )
