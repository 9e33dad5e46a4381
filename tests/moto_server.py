"""Moto's S3 server, with conditional requests answered one at a time, as S3 does and moto's threads do not."""

import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class _OneAtATime:
    """A WSGI application that lets no two conditional requests overlap."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application, self._lock = application, Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environ.keys():
            return self._application(environ, start_response)
        with self._lock:
            return list(self._application(environ, start_response))


if __name__ == "__main__":
    moto = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), _OneAtATime(moto), threaded=True, request_handler=MotoRequestHandler)
