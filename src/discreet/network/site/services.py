"""What keeps a site running: systemd units, a Compose file, and the page that explains the folder.

Services run as a user of their own, see the site and little else of the machine, and never
see ``keys/``: who breaks into the broker or the fusion centre cannot enrol anybody.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from discreet import __version__
from discreet.network.site.settings import Site, worker_name

USER = "discreet"
_HARDENED = """\
User={user}
UMask=0077
Restart=always
RestartSec=2
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""


def service_files(folder: Path, site: Site, broker_program: Path | None) -> dict[str, bytes]:
    """Return units, the Compose file and the page by their path inside the site.

    Parameters
    ----------
    folder : Path
        Where the site will be.
    site : Site
    broker_program : Path, optional
        Where Mosquitto is installed. By default where Debian has it.
    """
    home = folder.absolute()
    broker = broker_program or Path("/usr/sbin/mosquitto")
    units = {
        f"discreet-{site.site}-broker": _broker_unit(home, site, broker),
        f"discreet-{site.site}-dashboard": _python_unit(
            home, site, "dashboard", ["dashboard", str(home)], "fusion dashboard"
        ),
        "discreet-sensor@": _sensor_unit(),
    }
    for worker in range(1, site.workers + 1):
        arguments = ["serve", str(home)]
        if site.workers > 1:
            arguments += ["--worker", str(worker)]
        units[f"discreet-{site.site}-{worker_name(worker)}"] = _python_unit(
            home, site, "fusion centre", arguments, "fusion"
        )
    found = {f"systemd/{name}.service": text.encode() for name, text in units.items()}
    return found | {
        "compose.yaml": compose_file(site).encode(),
        "README.md": _page(site).encode(),
    }


# --- systemd -------------------------------------------------------------------------------


def _broker_unit(home: Path, site: Site, program: Path) -> str:
    folder = home / "broker"
    return (
        f"[Unit]\nDescription=Broker of the discreet site {site.site}\n"
        "After=network-online.target\nWants=network-online.target\n\n[Service]\n"
        f"WorkingDirectory={_path(folder)}\n"
        f"ExecStart={_words([str(program), '-c', 'mosquitto.conf'])}\n"
        "ExecReload=/bin/kill -HUP $MAINPID\n"
        f"ReadWritePaths={_quoted(folder)}\nInaccessiblePaths=-{_quoted(home / 'keys')}\n"
        f"MemoryDenyWriteExecute=yes\nLimitNOFILE=65536\n{_HARDENED.format(user=USER)}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _python_unit(home: Path, site: Site, what: str, arguments: list[str], writes: str) -> str:
    broker = f"discreet-{site.site}-broker.service"
    paths = " ".join(_quoted(home / each) for each in writes.split())
    hidden = " ".join(f"-{_quoted(home / each)}" for each in ("keys", "broker"))
    command = _words([sys.executable, "-m", "discreet", *arguments])
    return (
        f"[Unit]\nDescription={what.capitalize()} of the discreet site {site.site}\n"
        f"After=network-online.target {broker}\nWants=network-online.target\n\n[Service]\n"
        f"WorkingDirectory={_path(home)}\nExecStart={command}\n"
        f"ReadWritePaths={paths}\nInaccessiblePaths={hidden}\nLimitNOFILE=65536\n{_HARDENED.format(user=USER)}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _sensor_unit() -> str:
    """Return the unit for a device: ``discreet-sensor@hall`` runs ``/etc/discreet/hall.enrol``."""
    command = "-m discreet sensor ${CREDENTIALS_DIRECTORY}/enrol --state ${STATE_DIRECTORY}"
    user = _HARDENED.format(user=USER).removeprefix(f"User={USER}\n")
    return (
        "# For a device: NAME.enrol (0600, root) and NAME.source go into /etc/discreet.\n"
        "# The latter says where readings come from, as options of `discreet sensor`:\n"
        "# SOURCE=--read file:/run/temperature\n"
        "[Unit]\nDescription=discreet sensor %i\nAfter=network-online.target time-sync.target\n"
        "Wants=network-online.target\n\n[Service]\n"
        f"ExecStart={_words([sys.executable])} {command} $SOURCE\n"
        "EnvironmentFile=/etc/discreet/%i.source\nLoadCredential=enrol:/etc/discreet/%i.enrol\n"
        f"DynamicUser=yes\nStateDirectory=discreet/%i\nStateDirectoryMode=0700\n{user}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _quoted(path: Path) -> str:
    return f'"{_escaped(str(path))}"'


def _path(path: Path) -> str:
    """Return a path for a setting that takes one path to the end of the line, without quotes."""
    return str(path).replace("%", "%%")


def _words(words: list[str]) -> str:
    return " ".join(f'"{_escaped(word).replace("$", "$$")}"' for word in words)


# --- Compose -------------------------------------------------------------------------------


def compose_file(site: Site) -> str:
    """Return a Compose file that runs the same parts from the same folder."""
    owner = os.getuid() if hasattr(os, "getuid") and os.getuid() else 1000
    fusion = "".join(_fusion_service(site, worker) for worker in range(1, site.workers + 1))
    return f"""\
# The same site with Docker Compose:
#   DISCREET_SOURCE=/path/to/a/clone/of/discreet docker compose up --build --detach
# The folder has to belong to the user below (chown -R {owner} .).
name: discreet-{site.site}

x-common: &common
  user: "${{DISCREET_USER:-{owner}:{owner}}}"
  network_mode: host
  restart: unless-stopped
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  tmpfs: [/tmp]

x-discreet: &discreet
  <<: *common
  image: discreet:{__version__}
  build:
    context: ${{DISCREET_SOURCE:?names a clone of discreet}} # never this folder: it has keys
    dockerfile_inline: |
      FROM python:3.13-slim
      COPY . /source
      RUN pip install --no-cache-dir '/source[postgres]'
      ENTRYPOINT ["discreet"]
  depends_on: [broker]
  tmpfs: [/tmp, /site/keys, /site/broker] # hidden: neither is needed

services:
  broker:
    <<: *common
    image: eclipse-mosquitto:2
    working_dir: /site/broker
    entrypoint: [mosquitto, -c, mosquitto.conf]
    volumes: ["./broker:/site/broker"]
{fusion}  dashboard:
    <<: *discreet
    command: [dashboard, /site]
    volumes: {_volumes("fusion", "dashboard")}
"""


def _fusion_service(site: Site, worker: int) -> str:
    more = f', --worker, "{worker}"' if site.workers > 1 else ""
    return f"""\
  {worker_name(worker)}:
    <<: *discreet
    command: [serve, /site{more}]
    volumes: {_volumes("fusion")}
"""


def _volumes(*writable: str) -> str:
    mounts = ['"./:/site:ro"', *(f'"./{each}:/site/{each}"' for each in writable)]
    return f"[{', '.join(mounts)}]"


# --- The page ------------------------------------------------------------------------------


def _page(site: Site) -> str:
    name = site.site
    workers = range(1, site.workers + 1)
    serve = [f"discreet serve . {f'--worker {k} ' if site.workers > 1 else ''}&" for k in workers]
    fusion = " ".join(f"discreet-{name}-{worker_name(k)}" for k in workers)
    by_hand = "\n".join(serve)
    return f"""\
# discreet site {name}

Everything in this folder is secret. `keys/` decides who belongs to the site: keep a copy of it in a
safe place, and off this machine if you can; nothing that runs needs it.

| what | where |
|---|---|
| settings | `site.json` |
| mapping that runs | `mapping.json` |
| certificate authority, signing key of bundles | `keys/` |
| broker | `broker/` |
| fusion centre, its clients and by default its database | `fusion/` |
| dashboard: users | `dashboard/` |

## By hand

```sh
(cd broker && mosquitto -c mosquitto.conf) &   # Mosquitto 2
{by_hand}
discreet dashboard .
discreet doctor --site .
```

As the user that the folder belongs to, but not as root: Mosquitto would then go over to the user
`mosquitto`, who can neither read nor write here, and end with "Unable to write pid file".

## With systemd

```sh
useradd --system {USER}
chown -R {USER}: .   # the folders above have to let this user through
cp systemd/discreet-{name}-*.service /etc/systemd/system/
systemctl enable --now discreet-{name}-broker {fusion} discreet-{name}-dashboard
```

## With Compose

`compose.yaml` says how.

## Sensors

```sh
discreet enroll NAME --site .   # writes NAME.enrol: carry it to the device, then delete it here
discreet revoke NAME --site .   # shuts it out at once
```
"""
