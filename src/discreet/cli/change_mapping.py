"""``discreet change-mapping``: have a site run another mapping while devices have the old one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from discreet.cli.options import (
    Json,
    SiteFolder,
    argument,
    option,
)
from discreet.cli.terminal import interruptible, json_result, plain_print, warn
from discreet.network import find_site, need_network

NOT_IN_FORCE = 3
_PATIENCE = 30.0  # seconds for running workers to start again


def change_mapping(
    mapping: Annotated[Path, argument("FILE", "Mapping file that the site is to run.")],
    site: SiteFolder = None,
    audit: Annotated[
        Path | None, option("FILE", "What `discreet audit --json` printed about it.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Switch a site to another mapping; devices change one by one.

    Workers and dashboard load it by themselves. A device uses its old tables until it has
    a new file, `discreet enroll NAME --renew`; both count meanwhile. Exit code 3 if a
    worker keeps running the old mapping.

    Example:

        discreet change-mapping better.json --audit better-audit.json
    """
    with (
        interruptible("stopped in the middle. Run the command again."),
        json_result(as_json) as result,
    ):
        need_network()
        from discreet.network.site.mappings import change_mapping as change

        folder = find_site(site)
        done = change(folder, mapping, audit)
        plain_print(f"the site runs {done.mapping.id[:19]}, {len(done.mapping.sensors)} sensors")
        if audit is None:
            plain_print("without --audit the site has no certificate for it")
        late = _wait_for_workers(folder, done.mapping.id)
        result |= {"mapping_id": done.mapping.id, "left": list(done.left), "late": late}
        if done.left:
            plain_print(
                f"{len(done.left)} devices send by their old tables, which count as well: "
                f"{', '.join(done.left[:10])}{' ...' if len(done.left) > 10 else ''}"
            )
            plain_print(f"for each: discreet enroll {done.left[0]} --renew")
        if late:
            warn(
                f"{', '.join(late)} went on with the old mapping for {_PATIENCE:.0f} s. Restart "
                "it; where it runs from a copy of the folder, run this command there as well."
            )
        return NOT_IN_FORCE if late else 0


def _wait_for_workers(folder: Path, mapping: str) -> list[str]:
    """Wait until all workers that run have loaded a mapping; return those that have not."""
    from discreet.network.doctor import running_mappings

    end = time.monotonic() + _PATIENCE
    while True:
        late = [name for name, runs in running_mappings(folder).items() if runs != mapping]
        if not late or time.monotonic() > end:
            return late
        time.sleep(0.5)
