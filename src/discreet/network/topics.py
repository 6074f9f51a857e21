"""Where messages, acknowledgements and the decision go, by MQTT topic."""

from __future__ import annotations

DROPPED = "$SYS/broker/publish/messages/dropped"
"""Where Mosquitto publishes how many messages it has dropped."""


def message_topic(site: str, client: str) -> str:
    """Return where a client's messages go."""
    return f"discreet/v1/{site}/{client}/z"


def ack_topic(site: str, client: str) -> str:
    """Return where a client reads its acknowledgements."""
    return f"discreet/v1/{site}/{client}/ack"


def decision_topic(site: str) -> str:
    """Return where the fused decision stands."""
    return f"discreet/v1/{site}/decision"


def shared_messages(site: str, group: str) -> str:
    """Return the subscription that spreads a site's messages over the workers of a group."""
    return f"$share/{group}/{message_topic(site, '+')}"
