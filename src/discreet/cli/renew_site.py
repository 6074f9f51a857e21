"""``discreet renew-site``: new certificates for broker and fusion centre."""

from __future__ import annotations

from discreet.cli.enroll import how_to_reload
from discreet.cli.options import SiteFolder
from discreet.cli.terminal import interruptible, plain_print
from discreet.network import find_site, need_network


def renew_site(site: SiteFolder = None) -> None:
    """Give broker and fusion centre new certificates and keys; the old ones end.

    For when they run out, or somebody may have copied them. Devices go on as they are.
    The authority is prolonged under its key.

    Example:

        discreet renew-site --site site
    """
    with interruptible("stopped in the middle. Run the command again."):
        need_network()
        from discreet.network.site.renewing import renew_site as renew

        folder = find_site(site)
        done = renew(folder)
        plain_print(f"new certificates, until {done.expires}: {', '.join(done.names)}")
        plain_print("the old ones are on the revocation list")
        if not done.told:
            plain_print(f"the broker has to reload: {how_to_reload(folder)}")
        plain_print("restart the fusion centre and its workers: theirs was loaded at the start")
