"""What the fusion centre tells the world: the fused decision, and how Home Assistant finds it."""

from __future__ import annotations

import json

from discreet.mapping import Mapping
from discreet.network.fusion.rounds import RoundClock
from discreet.network.site.settings import decision_topic
from discreet.network.store.rows import Decision
from discreet.values import written


def decision_message(site: str, fact: str, decision: Decision) -> tuple[str, bytes]:
    """Return topic and content of a decision."""
    content = {
        "site": site,
        "fact": fact,
        "decision": decision.decision,
        "probability": max(decision.probabilities),
        "round": decision.round,
        "closed": round(decision.closed, 3),
        "reported": decision.reported,
        "expected": decision.expected,
    }
    return decision_topic(site), json.dumps(content).encode()


def discovery_message(site: str, mapping: Mapping, clock: RoundClock) -> tuple[str, bytes]:
    """Return topic and content by which Home Assistant finds the decision, and nothing else.

    A fact with two classes becomes a binary sensor that is on for the second one.
    """
    classes = [written(each) for each in mapping.public.classes]
    binary = len(classes) == 2
    content: dict[str, object] = {
        "name": mapping.public.name,
        "unique_id": f"discreet_{site}_decision",
        "state_topic": decision_topic(site),
        "value_template": "{{ value_json.decision }}",
        "json_attributes_topic": decision_topic(site),
        "json_attributes_template": (
            "{{ {'probability': value_json.probability, 'reported': value_json.reported,"
            " 'expected': value_json.expected} | tojson }}"
        ),
        # Silence of the fusion centre must not look like an old decision that still holds.
        "expire_after": int(3 * clock.interval + clock.deadline) + 1,
        "device": {"identifiers": [f"discreet_{site}"], "name": f"discreet {site}"},
    }
    if binary:
        content |= {"payload_off": classes[0], "payload_on": classes[1]}
    else:
        content |= {"device_class": "enum", "options": classes}
    kind = "binary_sensor" if binary else "sensor"
    topic = f"homeassistant/{kind}/discreet_{site}/decision/config"
    return topic, json.dumps(content).encode()
