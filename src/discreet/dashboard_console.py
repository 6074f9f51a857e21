"""The job behind ``discreet dashboard``: change a user, or serve."""

from __future__ import annotations

import getpass
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from discreet.errors import InputError


def run_dashboard(
    folder: Path, add: str | None = None, remove: str | None = None, **place: Any
) -> None:
    """Add or remove a user, or serve the dashboard until it is stopped.

    Parameters
    ----------
    folder : Path
    add, remove : str, optional
        Name of a user.
    **place
        Where and how to serve; see ``DashboardTask``.

    Raises
    ------
    InputError
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f"the dashboard needs {' and '.join(missing)}. Install discreet[network].")
    from discreet.network.dashboard.serving import DashboardTask, serve

    if add is not None and remove is not None:
        raise InputError("--add-user and --remove-user were both given. Give one or the other.")
    if add is None and remove is None:
        serve(DashboardTask(folder, **place))
    else:
        _change_user(folder, add, remove)


def _change_user(folder: Path, add: str | None, remove: str | None) -> None:
    from discreet.network.dashboard.serving import users_of
    from discreet.network.site.files import locked
    from discreet.network.site.settings import load_site

    load_site(folder)  # a folder that is no site gets no users
    users = users_of(folder)
    password = None if add is None else read_password()
    with locked(folder):  # or of two users added at once one would be lost
        if remove is not None:
            users.remove(remove)
            print(f"removed the user {remove}; open sessions of that name have ended")
        elif add is not None and password is not None:
            new = users.add(add, password)
            print(f"added the user {add}" if new else f"{add} has a new password")


def read_password() -> str:
    """Ask for a password twice at a terminal, or read one line from standard input.

    Raises
    ------
    InputError
        If the two differ, or there is none.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        first, second = getpass.getpass("Password: "), getpass.getpass("Again: ")
    except EOFError:
        raise InputError("no password was given.") from None
    if first != second:
        raise InputError("the two passwords differ. Try again.")
    return first
