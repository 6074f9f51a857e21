"""Reach the broker: where it is, with which certificate, how soon again."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion

from discreet_sensor.enrolment import BrokerPlace
from discreet_sensor.errors import InputError

KEEPALIVE = 30  # seconds
_SECONDS = 10.0  # for the broker to answer
_CHANCE = random.SystemRandom()

AnyClient = TypeVar("AnyClient", bound=Client)


@dataclass(frozen=True)
class BrokerAddress:
    """Where the broker is, and what to show it.

    ``ca``, ``certificate``, ``key``: in PEM. If ``ca`` holds a revocation list as well, a broker
    that is on it is refused. Without them there is no TLS, which only the demo and tests on
    loopback do. ``mqtt5``: false for the embedded broker of the demo.
    """

    host: str
    port: int
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    mqtt5: bool = True

    @classmethod
    def of(cls, broker: BrokerPlace, ca: Path, certificate: Path, key: Path) -> BrokerAddress:
        """Return the address of a site's broker, which is shown nothing if it has no TLS."""
        tls = {"ca": ca, "certificate": certificate, "key": key} if broker.tls else {}
        return cls(broker.host, broker.port, mqtt5=broker.mqtt == "5", **tls)


def make_client(
    address: BrokerAddress, name: str, kind: type[AnyClient], *, reconnect: bool = True
) -> AnyClient:
    """Return a client of a kind that is not connected yet.

    Raises InputError: if a certificate cannot be read.
    """
    client = kind(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        protocol=MQTTv5 if address.mqtt5 else MQTTv311,
        clean_session=None if address.mqtt5 else True,
        reconnect_on_failure=reconnect,
    )
    client.connect_timeout = _SECONDS
    if address.ca is not None:
        client.tls_set_context(_context(address))
    return client


def _context(address: BrokerAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=address.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        refuse_revoked(context, address.ca)
        if address.certificate is not None:
            context.load_cert_chain(address.certificate, address.key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"the certificates for the broker cannot be used ({reason}). Enrol again, or run "
            "`discreet doctor`."
        ) from None
    return context


def refuse_revoked(context: ssl.SSLContext, ca: Path | None) -> None:
    """Have a context refuse what is on the revocation list beside an authority, if one is there."""
    if ca is not None and b"-----BEGIN X509 CRL-----" in ca.read_bytes():
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


class Backoff:
    """How long to wait before trying again: doubled each time, and a part of it by chance.

    After a broker comes back, all clients would otherwise knock at the same moment.

    ``first``, ``most``: seconds.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._next = first

    def wait(self) -> float:
        now, self._next = self._next, min(self._most, 2 * self._next)
        return now * _CHANCE.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start over after a success."""
        self._next = self._first
