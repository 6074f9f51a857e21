"""``discreet dashboard``: change a user, or serve."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

from discreet.cli.options import argument, flag, option
from discreet.cli.terminal import interruptible
from discreet.errors import InputError
from discreet.network import need_network


def dashboard(
    folder: Annotated[Path, argument("FOLDER", "Folder that `discreet init` wrote.")],
    host: Annotated[
        str | None, option("HOST", "Address to listen on. [default: as the site says]")
    ] = None,
    port: Annotated[
        int | None, option("N", "Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = None,
    remote: Annotated[
        bool, flag("--remote", "Allow a host that other machines can reach.")
    ] = False,
    names: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Further host name that the browser may use; may be given several times.",
            name="--name",
        ),
    ] = None,
    tls_certificate: Annotated[Path | None, option("FILE", "Serve over TLS.")] = None,
    tls_key: Annotated[Path | None, option("FILE", "Key of the certificate.")] = None,
    behind_proxy: Annotated[
        str | None,
        option(
            "ADDRESS",
            "Address of a TLS proxy in front: cookies are sent over TLS only, and login attempts "
            "count by the address that it names.",
        ),
    ] = None,
    ingress: Annotated[
        str | None,
        option(
            "ADDRESS",
            "Address of Home Assistant's Supervisor: only it is answered, and its pages may "
            "frame the dashboard.",
        ),
    ] = None,
    add_user: Annotated[
        str | None,
        option(
            "NAME",
            "Add a user, or set a new password, and end; the password is asked for, or read "
            "from standard input.",
        ),
    ] = None,
    remove_user: Annotated[str | None, option("NAME", "Remove a user, and end.")] = None,
) -> None:
    """Show a site in the browser: decisions, sensors, budgets and the guarantee.

    It listens on this machine only and asks for a login. Without any user it prints a
    link that logs in once.

    Example:

        discreet dashboard site

    Add a user:

        discreet dashboard site --add-user ann
    """
    with interruptible("stopped."):
        need_network()
        from discreet.network.dashboard.serving import DashboardTask, serve

        if add_user is not None and remove_user is not None:
            raise InputError("--add-user and --remove-user were both given. Give one or the other.")
        if add_user is not None or remove_user is not None:
            _change_user(folder, add_user, remove_user)
            return
        serve(
            DashboardTask(
                folder,
                host=host,
                port=port,
                remote=remote,
                names=names or (),
                certificate=tls_certificate,
                key=tls_key,
                proxy=behind_proxy,
                ingress=ingress,
            )
        )


def _change_user(folder: Path, add: str | None, remove: str | None) -> None:
    from discreet.network.dashboard.serving import users_of
    from discreet.network.site.settings import load_site

    load_site(folder)  # a folder that is no site gets no users
    users = users_of(folder)
    password = None if add is None else read_password()
    if remove is not None:
        users.remove(remove)
        print(f"removed the user {remove}; open sessions of that name have ended")
    elif add is not None and password is not None:
        new = users.add(add, password)
        print(f"added the user {add}" if new else f"{add} has a new password")


def read_password() -> str:
    """Ask for a password twice at a terminal, or read one line from standard input.

    Raises InputError: if the two differ, or there is none.
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
