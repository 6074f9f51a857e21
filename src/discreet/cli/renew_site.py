"""``discreet renew-site``: new certificates for broker and fusion centre."""

from __future__ import annotations

from typing import Annotated

from discreet.cli.enroll import how_to_reload
from discreet.cli.options import (
    Json,
    SiteFolder,
    option,
)
from discreet.cli.terminal import interruptible, json_result, plain_print
from discreet.network import find_site, need_network


def renew_site(
    site: SiteFolder = None,
    host: Annotated[
        str | None,
        option("HOST", "Another name or address by which sensors find the broker from now on."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Give broker and fusion centre new certificates and keys; the old ones are revoked.

    For when they expire, may have been copied, or the site has another host or folder.
    Devices need no change; the broker's certificate stays valid for its old names. The
    authority's certificate is extended under the same key.

    Example:

        discreet renew-site --site site

    On another machine, after `discreet restore`:

        discreet renew-site --site site --host attic.local
    """
    with (
        interruptible("stopped in the middle. Run the command again."),
        json_result(as_json) as result,
    ):
        need_network()
        from discreet.network.site.making import renew_site as renew

        folder = find_site(site)
        done = renew(folder, host)
        result |= {"expires": str(done.expires), "names": list(done.names)}
        result |= {"notified": done.notified, "services": bool(done.services)}
        plain_print(f"new certificates, until {done.expires}: {', '.join(done.names)}")
        plain_print("the old ones are on the revocation list")
        if not done.notified:
            plain_print(f"the broker has to reload: {how_to_reload(folder)}")
        plain_print("the fusion centre and its workers load theirs by themselves")
        if done.services:
            plain_print(
                "systemd/, compose.yaml and broker/mosquitto.conf are rewritten for this folder "
                "and host: install the units again, and restart the broker"
            )
        if host is not None:
            plain_print(
                "devices look for the broker by its old name until they are renewed, or until the "
                "host under broker in their file is changed: see docs/network.md"
            )
