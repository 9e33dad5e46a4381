"""The size of files of requests."""

import pytest

from genrm_cli.jobs.offline.request_files import MAX_REQUESTS, RequestFiles
from genrm_cli.judging.offline import PendingRequest
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.store import Store


def sizes_of(folder, bodies):
    """Return how many requests with these bodies each file has."""
    with Outputs(Store(), overwrite=False) as outputs:
        files = RequestFiles(f"{folder}/requests.jsonl", ["m"], outputs)
        for number, body in enumerate(bodies):
            files.add(PendingRequest(number.to_bytes(8), "m", body))
        return [file.requests for file in files.files]


def test_a_file_holds_as_many_requests_as_batch_apis_take(tmp_path):
    """The next request begins another file."""
    assert sizes_of(tmp_path, [b"{}"] * (MAX_REQUESTS + 1)) == [50_000, 1]


@pytest.mark.slow
def test_a_file_holds_as_many_bytes_as_batch_apis_take(tmp_path):
    """Two of 90 MB with what surrounds them stay below 190 MB; the third begins another file."""
    assert sizes_of(tmp_path, [b"x" * 90_000_000] * 3) == [2, 1]
