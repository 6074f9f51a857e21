"""A dashboard without a server: requests go straight into the application."""

import re
import time

import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient
from support.dashboards import PASSWORD, SITES

from discreet.network.dashboard import logins
from discreet.network.dashboard.serving import DashboardTask, make_dashboard, users_of


class Visitor:
    """A browser without a screen; knows how to log in."""

    def __init__(self, dashboard, logins):
        self.dashboard, self.logins = dashboard, logins
        self.client = TestClient(
            dashboard.app, "http://localhost", follow_redirects=False, raise_server_exceptions=False
        )

    def get(self, path, **options):
        return self.client.get(path, **options)

    def post(self, path, **fields):
        return self.client.post(path, data=fields)

    def token(self, path="/login"):
        return re.search(r'name="token" value="([^"]+)"', self.get(path).text)[1]

    def log_in(self, name="ann", password=PASSWORD, **more):
        return self.post("/login", token=self.token(), name=name, password=password, **more)

    def log_out(self):
        return self.post("/logout", token=self.token("/"))


@pytest.fixture(autouse=True)
def cheap_hashes(request, monkeypatch):
    """Take no time over passwords, except where it is hashes that are tested."""
    if request.path.stem != "test_users":
        monkeypatch.setattr(logins, "_HASHER", PasswordHasher(1, 1024, 1))


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """Return sites of a kind to copy, recreated when their figures have grown old."""
    made = {}

    def site(kind):
        if kind not in made or time.time() - made[kind].now > 15:
            maker = SITES[kind](tmp_path_factory.mktemp("sites") / kind)
            users_of(maker.folder).add("ann", PASSWORD)
            maker.store.close()
            made[kind] = maker
        return made[kind]

    return site


@pytest.fixture
def open_site(tmp_path, fresh):
    """Return a visitor of a site, with a user or without."""
    makers = []

    def make(kind="healthy", *, user=True, **task):
        maker = fresh(kind).copied_to(tmp_path / kind)
        makers.append(maker)
        if not user:
            users_of(maker.folder).remove("ann")
        dashboard, logins, _ = make_dashboard(DashboardTask(maker.folder, **task))
        visitor = Visitor(dashboard, logins)
        visitor.maker = maker
        return visitor

    yield make
    for maker in makers:
        maker.store.close()


@pytest.fixture
def visitor(open_site):
    """A healthy site, not logged in."""
    return open_site()


@pytest.fixture
def inside(visitor):
    """A healthy site, logged in."""
    assert visitor.log_in().status_code == 303
    return visitor
