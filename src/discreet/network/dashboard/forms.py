"""What a form may send: a few short fields, from a page of ours."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

_MOST_BYTES = 8_192
_MOST_FIELDS = 10
SECONDS = 10.0
_FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of two with one name the last.

    Raises
    ------
    HTTPException
        403 from a page of another origin, 408 if it does not come, 413 if too large, 415 if it
        is no form, 400 if broken.
    """
    _check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise HTTPException(415, "A form is expected.")
    try:
        async with asyncio.timeout(SECONDS):
            body = await _read_body(request)
    except TimeoutError:
        raise HTTPException(408, "The form has not come in time.") from None
    try:
        fields = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return dict(fields)


async def _read_body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "The form is too large.")
    return body


def _check_origin(request: Request) -> None:
    """Refuse a form of another page, as far as the browser says where it comes from."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    try:
        foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    except ValueError:
        foreign = True
    if foreign or site not in ("same-origin", "none"):
        raise HTTPException(403, "The form comes from another page.")
