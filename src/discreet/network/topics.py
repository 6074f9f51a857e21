"""What the fusion centre subscribes to, and who sent what comes."""

from __future__ import annotations

import re

_NAME = "[a-z0-9][a-z0-9-]{0,31}"

DROPPED = "$SYS/broker/publish/messages/dropped"
"""Where Mosquitto tells how many messages it had no room for."""


def all_messages(site: str) -> str:
    """Return the subscription that covers every client of a site."""
    return f"discreet/v1/{site}/+/z"


def shared_messages(site: str, group: str) -> str:
    """Return the subscription that spreads a site's messages over the workers of a group."""
    return f"$share/{group}/{all_messages(site)}"


def client_of(topic: str, site: str) -> str | None:
    """Return who sent on a topic of messages, or None if it is no such topic."""
    found = re.fullmatch(rf"discreet/v1/{re.escape(site)}/({_NAME})/z", topic)
    return found[1] if found else None
