"""The enrolment file: everything that one device needs, in one file that is kept secret.

Certificate and key for the broker, the signed table of each of its sensors, the key of its
messages and where to send them. The device that reads it believes nothing it has not checked.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from discreet.network.site.files import read_model
from discreet.network.site.settings import BrokerEndpoint, HexKey, MappingId, Name, SensorName

_REMEDY = "Have the device enrolled again: discreet enroll."
_Pem = Annotated[str, StringConstraints(pattern=r"^-----BEGIN ", max_length=20_000)]
MAX_BUNDLE_TEXT = 24 * 2**20


class Enrolment(BaseModel):
    """What a ``NAME.enrol`` file holds.

    ``sensors``: names as in the mapping, in the order of the symbols in a message. ``batch``:
    rounds in one message. ``certificate``, ``key``, ``ca``: in PEM. ``mac_key``: key of the
    messages' authentication codes, 64 hexadecimal digits. ``public_key``: ed25519 key that has
    signed the bundles, 64 hexadecimal digits. ``mapping``: id of the mapping that the bundles are
    of. ``bundles``: a bundle per sensor, as ``discreet export --to python`` writes it, in base64.
    ``boot``: the first start of the device counts from here; later enrolments have larger numbers,
    so that a device whose state was lost is not taken for a replay.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    format: Literal["discreet-enrolment"] = "discreet-enrolment"
    version: Literal[1] = 1
    site: Name
    client: Name
    sensors: Annotated[tuple[SensorName, ...], Field(min_length=1, max_length=10_000)]
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    epoch: Annotated[int, Field(ge=0, lt=2**40)]
    interval: Annotated[float, Field(gt=0, le=86_400)]
    broker: BrokerEndpoint
    boot: Annotated[int, Field(ge=0, lt=2**63)]
    mapping: MappingId
    certificate: _Pem
    key: Annotated[_Pem, Field(repr=False)]
    ca: _Pem
    mac_key: Annotated[HexKey, Field(repr=False)]
    public_key: HexKey
    bundles: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=MAX_BUNDLE_TEXT)], ...],
        Field(repr=False, max_length=10_000),
    ]

    @model_validator(mode="after")
    def _a_bundle_for_each_sensor(self) -> Enrolment:
        if len(self.bundles) != len(self.sensors):
            raise ValueError(f"{len(self.bundles)} bundles for {len(self.sensors)} sensors")
        if len(set(self.sensors)) < len(self.sensors):
            raise ValueError("a sensor is named twice")
        self.bundle_bytes  # noqa: B018 - all of them can be decoded
        return self

    @property
    def bundle_bytes(self) -> list[bytes]:
        """The signed bundles, in the order of the sensors."""
        try:
            return [base64.b64decode(each, validate=True) for each in self.bundles]
        except binascii.Error:
            raise ValueError("a bundle is not base64") from None


def load_enrolment(file: Path) -> Enrolment:
    """Return what an enrolment file holds."""
    return read_model(file, Enrolment, _REMEDY)
