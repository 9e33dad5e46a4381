"""Trainers' own code, off the network."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def offline(no_hub):
    """Keep trainers off the network, before they are imported."""


@pytest.fixture(autouse=True)
def served_here(served, monkeypatch):
    """Name the server as trainers' processes find it."""
    monkeypatch.setenv("GENRM_SERVE_URL", served.url)
