"""What Mosquitto reads: its configuration and who may write and read what.

Paths are relative to the folder ``broker/``, where Mosquitto is started, so that a site can be
moved. Rights are granted by name: who is not in the list can connect to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from discreet.network.site.settings import BrokerEndpoint, ack_topic, decision_topic, message_topic
from discreet.network.topics import DROPPED

_DISCOVERY = "homeassistant/#"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def mosquitto_config(broker: BrokerEndpoint) -> str:
    """Return the configuration of the broker.

    It listens on loopback only if that is where it is to be found.
    """
    bound = " 127.0.0.1" if is_loopback(broker.host) else ""
    return f"""\
# Written by `discreet init`. Start Mosquitto 2 in this folder: mosquitto -c mosquitto.conf
listener {broker.port}{bound}
protocol mqtt

# Both sides show a certificate of this site's authority. The name in it is user and client id,
# so that nobody can take the session of another.
cafile ca.crt
certfile broker.crt
keyfile broker.key
crlfile ca.crl
require_certificate true
use_identity_as_username true
use_username_as_clientid true
tls_version tlsv1.2
allow_anonymous false
acl_file acl

# Nothing is kept here: a sensor keeps its messages until the fusion centre has stored them.
persistence false
persistent_client_expiration 1d
max_packet_size 1048576
max_inflight_messages 1000
max_queued_messages 100000
max_queued_bytes 67108864
max_keepalive 600
set_tcp_nodelay true

pid_file mosquitto.pid
log_dest stderr
log_type error
log_type warning
log_type notice
connection_messages true
"""


def access_list(site: str, rights: Mapping[str, str]) -> str:
    """Return the rights of everybody who has any.

    Parameters
    ----------
    site : str
    rights : dict of str to str
        Role by name.
    """
    lines = [
        "# Written by `discreet init`, `enroll` and `revoke`; who is not named here has no right."
    ]
    for name, role in rights.items():
        granted = _granted(site, name, role)
        if granted:
            lines += ["", f"user {name}", *(f"topic {each}" for each in granted)]
    return "\n".join(lines) + "\n"


def _granted(site: str, name: str, role: str) -> list[str]:
    if role == "sensor":
        return [f"write {message_topic(site, name)}", f"read {ack_topic(site, name)}"]
    if role == "fusion":
        return [
            f"read {message_topic(site, '+')}",
            f"write {ack_topic(site, '+')}",
            f"write {decision_topic(site)}",
            f"write {_DISCOVERY}",
            f"read {DROPPED}",
        ]
    if role == "observer":
        return [f"read {decision_topic(site)}", f"read {_DISCOVERY}"]
    return []


def is_loopback(host: str) -> bool:
    """Whether a host is this machine as only itself can reach it."""
    return host in _LOOPBACK or host.startswith("127.")
