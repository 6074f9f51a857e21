"""What the tests of the network share: databases and brokers of our own."""

import uuid

import pytest
from support.databases import PostgresServer, why_no_postgres

from discreet.network.store import open_store


@pytest.fixture(scope="session")
def postgres():
    if reason := why_no_postgres():
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture
def new_postgres_database(postgres):
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as base:
        base.execute(f"CREATE DATABASE {name}")
    return postgres.url.rsplit("/", 1)[0] + f"/{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request):
    """Where a database is, of each kind; in PostgreSQL a new one for each test."""
    if request.param == "sqlite":
        return "sqlite:fusion.db"
    return request.getfixturevalue("new_postgres_database")


@pytest.fixture
def store(database, tmp_path):
    store = open_store(database, tmp_path, "home")
    store.prepare()
    yield store
    store.close()
