"""Requests that nobody would make, on every route, inside and outside: never an error of ours.

The description below is made from the routes themselves, so that none is forgotten.
"""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

TEXT = {"type": "string"}
QUERIES = {
    "/events": ("view", "window", "state"),
    "/login": ("next", "link"),
    "/sensors": ("state", "window"),
}
FORMS = {"/login": ("token", "name", "password", "link", "next"), "/logout": ("token",)}


def operation(method, path):
    names = QUERIES.get(path, ("window",))
    parameters = [{"name": name, "in": "query", "schema": TEXT} for name in names]
    parameters += [{"name": "X-Forwarded-For", "in": "header", "schema": TEXT}]
    if "{name}" in path:
        parameters += [{"name": "name", "in": "path", "required": True, "schema": TEXT}]
    found = {"parameters": parameters, "responses": {"default": {"description": "any"}}}
    if method == "POST":
        fields = {"type": "object", "properties": {name: TEXT for name in FORMS[path]}}
        found["requestBody"] = {
            "content": {"application/x-www-form-urlencoded": {"schema": fields}}
        }
    return found


def describe(dashboard):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    paths = {}
    for method, path in dashboard.routes:
        paths.setdefault(path, {})[method.lower()] = operation(method, path)
    about = {"title": "dashboard", "version": "1"}
    return schemathesis.openapi.from_dict({"openapi": "3.0.0", "info": about, "paths": paths})


@pytest.fixture(params=["outside", "inside"])
def dashboard(request, open_site):
    visitor = open_site("hostile")
    if request.param == "inside":
        visitor.log_in()
    visitor.cookies = "; ".join(f"{k}={v}" for k, v in visitor.client.cookies.items())
    visitor.dashboard.streams.stop()  # streams end at once
    return visitor


FEW = settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_no_described_request_is_an_error_of_ours(dashboard):
    operations = [found.ok() for found in describe(dashboard.dashboard).get_all_operations()]
    assert len(operations) == len(dashboard.dashboard.routes)
    codes = {(each.method.upper(), each.path): [] for each in operations}
    for each in operations:
        seen = codes[each.method.upper(), each.path]
        FEW(given(case=each.as_strategy())(noting(dashboard, seen)))()
    assert all(codes.values())
    assert {code for found in codes.values() for code in found} <= {
        200, 303, 400, 401, 403, 404, 405, 413, 415, 421, 429,
    }  # fmt: skip
    inside = dashboard.client.request("GET", "/api/state", headers={"cookie": dashboard.cookies})
    assert inside.status_code == (200 if 200 in codes["GET", "/"] else 401)


def noting(visitor, seen):
    def one(case):
        seen.append(send(visitor, case))

    return one


def send(visitor, case):
    """Send a case of schemathesis to the application, always with the cookies of the start."""
    path = case.formatted_path or "/"
    headers = {k: v for k, v in dict(case.headers or {}).items() if v.isascii() and v.isprintable()}
    visitor.client.cookies.clear()
    return visitor.client.request(
        case.method,
        path if path.startswith("/") else f"/{path}",
        params=dict(case.query or {}),
        headers=headers | {"cookie": visitor.cookies},
        data=case.body if isinstance(case.body, dict) else None,
    ).status_code


@FEW
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"]),
    path=st.text(max_size=40),
    query=st.binary(max_size=60),
    headers=st.lists(
        st.tuples(
            st.sampled_from([b"cookie", b"host", b"origin", b"content-type", b"content-length",
                             b"accept", b"range", b"sec-fetch-site", b"x"]),
            st.binary(max_size=60),
        ),
        max_size=6,
    ),
    body=st.binary(max_size=200),
)  # fmt: skip
def test_no_raw_request_is_an_error_of_ours(dashboard, method, path, query, headers, body):
    """Straight into the application, with bytes that no client library would send."""
    sent = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send_back(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": f"/{path}",
        "raw_path": b"/",
        "root_path": "",
        "query_string": query,
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asyncio.run(dashboard.dashboard.app(scope, receive, send_back))
    assert 200 <= sent[0]["status"] < 500
