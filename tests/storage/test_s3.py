import pytest

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store

STORE = Store()


def test_missing_bucket_is_told_from_a_missing_key(s3_bucket):
    """A missing key is none of an object, and an error of an input; a missing bucket is an error of
    all.
    """
    key = f"s3://{s3_bucket.name}/rl/x.jsonl"
    assert STORE.at(key).read() is None
    with pytest.raises(StorageError, match=f"^{key}: no such object"):
        open_source(key, STORE, InputSettings())
    missing = STORE.at("s3://no-such-bucket/rl/x")
    for attempt in (
        lambda: open_source("s3://no-such-bucket/rl/x", STORE, InputSettings()),
        *(missing.identify, missing.check_writable, missing.read, missing.remove),
        lambda: missing.create(b"x"),
    ):
        with pytest.raises(StorageError, match=r"^s3://no-such-bucket/rl/x.*: no such bucket"):
            attempt()


@pytest.mark.usefixtures("fresh_clients")
def test_missing_credentials_are_named(monkeypatch):
    """The message says what to set; no request is needed to know it."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(
        StorageError, match=r"^s3://b1b/rl/x: no AWS credentials found; set AWS_ACCESS_KEY_ID"
    ):
        open_source("s3://b1b/rl/x", STORE, InputSettings())


def test_endpoint_that_is_no_url_is_a_usage_error(monkeypatch):
    """The message says what an endpoint looks like, and hides a password in it."""
    for endpoint in ["localhost:9000", "http://user:secret@ bad"]:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UsageError, match="expected, for example, http://host:9000") as caught:
            STORE.at("s3://b1b/rl/x").check_writable()
        assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_unreachable_endpoint_is_a_storage_error(monkeypatch):
    """The message names the endpoint, without a password that may be in it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:secret@127.0.0.1:1")
    with pytest.raises(
        StorageError, match=r"cannot reach http://127.0.0.1:1: .*check the S3 endpoint"
    ) as caught:
        open_source("s3://b1b/rl/x", Store(max_attempts=1), InputSettings())
    assert "secret" not in str(caught.value)
