"""Choose the library that makes the calls: pyreqwest, or httpx where it cannot be used.

pyreqwest has wheels wherever the other dependencies have them, so it is installed with genrm. A
place that leaves it out, or where it cannot be loaded, still works."""

import os
import ssl
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from genrm_cli.errors import SettingRef, UsageError, naming
from genrm_cli.judging.http.interface import HttpClient, HttpOptions

AUTO = "auto"


def open_http_client(http_client: str, options: HttpOptions) -> HttpClient:
    """Prepare the client that `http_client` stands for; open no connection yet.

    Raises:
        UsageError: the certificates or a proxy cannot be used, or the library is not installed.
    """
    bundle = os.environ.get("SSL_CERT_FILE")
    if bundle and options.base_url.startswith("https:"):
        options = replace(options, ca_bundle=bundle)
    if options.ca_bundle and _names_itself(options.ca_bundle, options.base_url):
        # rustls refuses an authority as a server, whatever the user trusts; OpenSSL does not.
        if http_client == "pyreqwest":
            raise UsageError(
                f"SSL_CERT_FILE={options.ca_bundle} has the server's own certificate, which says "
                "that it is an authority; pyreqwest refuses it. ",
                naming("Use $http_client.", http_client="httpx"),
            )
        http_client = "httpx"
    chosen = _find_class(http_client)
    try:
        return chosen(options)
    except (ImportError, ValueError) as error:  # ImportError: httpx and a SOCKS proxy
        # A machine without certificates, such as a small container; httpx brings its own.
        if http_client == AUTO and chosen.library == "pyreqwest":
            return open_http_client("httpx", options)
        raise UsageError(
            SettingRef("http_client", chosen.library),
            f" cannot be used: {error}. Choose the other library.",
        ) from error


@cache
def _find_class(http_client: str) -> type[HttpClient]:
    if http_client != "httpx":
        try:
            from genrm_cli.judging.http.over_pyreqwest import PyreqwestClient
        except ImportError as error:
            if http_client != AUTO:
                raise UsageError(
                    SettingRef("http_client", http_client),
                    f" cannot be imported: {error}. Install it, or omit the setting.",
                ) from error
        else:
            return PyreqwestClient
    from genrm_cli.judging.http.over_httpx import HttpxClient

    return HttpxClient


def _names_itself(ca_bundle: str, base_url: str) -> bool:
    """Return whether an authority of a bundle is also a server: `openssl req -x509` makes such
    certificates.

    Raises:
        UsageError: the bundle cannot be read, or has no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca_bundle)
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(
            f"SSL_CERT_FILE={ca_bundle} cannot be used: {error}. Name a file of certificates in "
            "PEM form, or unset the variable."
        ) from error
    host = urlsplit(base_url).hostname or ""
    names = {host, f"*.{host.partition('.')[2]}"}
    for authority in context.get_ca_certs():
        certificate: dict[str, Any] = authority
        subject = [name for part in certificate["subject"] for name in part]
        known = {name for kind, name in (*subject, *certificate.get("subjectAltName", ()))}
        if names & known:
            return True
    return False
