"""The job behind ``discreet dashboard``: change a user, or serve."""

from __future__ import annotations

import getpass
import sys

from discreet.console import plain_print
from discreet.errors import InputError
from discreet.network.dashboard.serving import DashboardTask, serve, users_of
from discreet.network.site.settings import load_site


def run_dashboard(task: DashboardTask, add: str | None = None, remove: str | None = None) -> None:
    """Add or remove a user, or serve the dashboard until it is stopped.

    Raises
    ------
    InputError
    """
    if add is not None and remove is not None:
        raise InputError("--add-user and --remove-user were both given. Give one or the other.")
    if add is None and remove is None:
        serve(task)
        return
    load_site(task.folder)  # a folder that is no site gets no users
    users = users_of(task.folder)
    if remove is not None:
        users.remove(remove)
        plain_print(f"removed the user {remove}; open sessions of that name have ended")
    elif add is not None:
        new = users.add(add, read_password())
        plain_print(f"added the user {add}" if new else f"{add} has a new password")


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
