"""``discreet forget``: delete what one device has sent."""

from __future__ import annotations

from typing import Annotated

from discreet.cli.options import (
    Json,
    SiteFolder,
    argument,
)
from discreet.cli.terminal import interruptible, json_result, plain_print
from discreet.network import find_site, need_network


def forget(
    name: Annotated[str, argument("DEVICE", "Name of the device.")],
    site: SiteFolder = None,
    as_json: Json = False,
) -> None:
    """Delete what one device has sent, for good.

    That is its messages, stored and refused, and the daily counts of symbols. Decisions stay, and
    so does what it has spent, or its budget would be refilled. A later `discreet restore` does not
    bring the messages back.

    Example:

        discreet forget hall
    """
    with (
        interruptible("stopped in the middle. Run the command again."),
        json_result(as_json) as result,
    ):
        need_network()
        from discreet.network.site.removing_devices import forget_device

        done = forget_device(find_site(site), name)
        result |= {"device": name, "messages": done.messages, "live": done.live}
        plain_print(f"deleted {done.messages} messages of {name}, and what was refused of it")
        plain_print("decisions stay, and what it has spent: its budget is not refilled")
        if done.postgres:
            plain_print(
                "the rows are gone from the tables; PostgreSQL's write-ahead log, base backups, "
                "dumps and replicas keep them for as long as you keep those"
            )
        plain_print(
            "backups from before still hold it: restoring one into this site leaves it out. "
            "Delete them if nobody is to read it there"
        )
        if done.live:
            plain_print(f"what it sends from now on is stored; to end that: discreet revoke {name}")
