"""A dashboard without a server: requests go straight into the application."""

import re

import pytest
from dashboards import PASSWORD, SITES
from starlette.testclient import TestClient

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


@pytest.fixture
def open_site(tmp_path):
    """Make a site, with a user or without, and return a visitor."""
    makers = []

    def make(kind="healthy", *, user=True, **task):
        maker = SITES[kind](tmp_path / kind)
        makers.append(maker)
        if user:
            users_of(maker.folder).add("ann", PASSWORD)
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
