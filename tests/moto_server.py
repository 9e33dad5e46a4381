"""Moto's S3 server, answering one request at a time: its threads would see objects that are half
replaced.
"""

import sys
from collections.abc import Callable, Iterable
from io import BytesIO
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


class _OneAtATime:
    """A WSGI application that receives requests at the same time, and answers them one by one."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = Lock()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if "CONTENT_LENGTH" in environ:
            environ["wsgi.input"] = BytesIO(
                environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
            )
        with self._lock:
            return list(self._application(environ, start_response))


if __name__ == "__main__":
    moto = DomainDispatcherApplication(create_backend_app)
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        _OneAtATime(moto),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
