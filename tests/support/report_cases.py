"""Audits to make reports of: small, made once, and as awkward as data can be."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from discreet.auditing.audit import audit_checked_data
from discreet.auditing.data import AuditOptions, audit_data_from_arrays
from discreet.auditing.report.page import render_report
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveClassesFusion, AdditiveFusion, Design, Fact
from research.paper.synthetic import SENSORS, draw_table

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    'it\'s & "so"',
    "שלום עולם",
    "😀 costs $x^2$",
    "n" * 200,
    "{{ 7 * 7 }}",
    "</style></svg>",
)
CATEGORIES = ("<b>open</b>", "שלום", "😀", "x" * 300, "a\u202eb\x00c", "$\\frac{", "missing")
PEOPLE = ("<i>ann</i>", '"bob"', "שרה 😀")


def mapping(names, encoders, tables, public, private, weights=None, fusion=None):
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=table.shape[1]).tolist() for table in tables]
    return Mapping.create(
        names=names,
        encoders=encoders,
        tables=tables,
        public=public,
        private=private,
        fusion=fusion or AdditiveFusion(weights=drawn if weights is None else weights),
        design=Design(
            method="<npo>",
            parameters={"<p>": "<script>", "loss": "logistic", "threshold": 0.69},
            rows=100,
            created="2024-05-01T12:00:00+00:00",
            discreet="0.1.0",
        ),
    )


@cache
def private(n=1200):
    """The paper's sensors with a mapping that is exactly private; its limit is certified."""
    one = np.array([1.0] * 5 + [0.0] * 2 + [0.5] * 2)
    table = np.stack([1 - one, one], axis=1)
    found = mapping(
        SENSORS,
        [BinsEncoder(edges=(np.arange(8) + 1.5).tolist())] * 4,
        [table] * 4,
        Fact(name="h", classes=[0, 1]),
        [Fact(name="g", classes=[0, 1])],
        weights=[[1.0, -1.0]] * 4,  # symbol 0 is sent for the upper codes, which speak for 1
    )
    X, y, g = draw_table(n, 0.0, 1)
    data = replace(audit_data_from_arrays(found, X, y, g), held_out=True)
    return audit_checked_data(
        data, AuditOptions(max_advantage=0.2, releases=24 if n < 100 else 1)
    ), data


@cache
def hostile():
    """Three classes, two private facts, groups, every encoder and names nobody would choose."""
    rng, n = np.random.default_rng(0), 240
    who, act, h = rng.integers(3, size=n), rng.integers(2, size=n), rng.integers(2, size=n)
    encoders = [
        CategoriesEncoder(categories=CATEGORIES, missing=True),
        BinsEncoder(edges=[18.5, 19, 20.25, 22, 26], missing=True),
        BinsEncoder(edges=[1e-6, 1, 1e6, 1e12]),
        CodesEncoder(size=60),
        BinsEncoder(edges=[]),
        CategoriesEncoder(categories=[f"room {k}" for k in range(45)]),
        BinsEncoder(edges=np.linspace(-40, 40, 300).tolist(), missing=True),
        CodesEncoder(size=5, missing=True),
    ]
    symbols = (3, 2, 2, 3, 2, 2, 2, 7)
    tables = [
        rng.dirichlet(np.full(z, 0.5), size=e.n_codes)
        for e, z in zip(encoders, symbols, strict=True)
    ]
    readings = (
        rng.choice(["<b>open</b>", "שלום", "never seen", None], n),
        np.where(rng.random(n) < 0.1, np.nan, 18 + 2 * who + rng.normal(size=n)),
        10.0 ** rng.integers(-7, 13, n),
        rng.integers(60, size=n),
        rng.normal(size=n),
        [f"room {k}" for k in rng.integers(50, size=n)],
        rng.normal(10 * act, 20),
        np.clip(2 * h + rng.integers(3, size=n), 0, 4),
    )
    found = mapping(
        HOSTILE,
        encoders,
        tables,
        Fact(name="fall <script>", classes=['no & "', "<yes>"]),
        [
            Fact(name="</title><script>who", classes=PEOPLE),
            Fact(name="act" * 60, classes=[False, True]),
        ],
    )
    data = audit_data_from_arrays(
        found,
        pd.DataFrame(dict(zip(HOSTILE, readings, strict=True))),
        np.array(['no & "', "<yes>"])[h],
        pd.DataFrame({"who": np.array(PEOPLE)[who], "act": act == 1}),
        groups=np.arange(n) // 2,
    )
    return audit_checked_data(data, AuditOptions(max_advantage=0.1, epsilon=1.0, releases=3)), data


@cache
def large(n_sensors, n=120):
    """A home of many sensors; its tables send some symbols for some readings only."""
    rng = np.random.default_rng(1)
    h, g = rng.integers(2, size=n), rng.integers(2, size=n)
    names = [f"{('kitchen', 'hall', 'bath')[t % 3]}-temperature-{t}" for t in range(n_sensors)]
    encoders = [
        BinsEncoder(edges=(15 + 1.5 * np.arange(9)).tolist(), missing=t % 3 == 0)
        for t in range(n_sensors)
    ]
    tables = [rng.dirichlet(np.ones(3), size=e.n_codes) for e in encoders]
    for table in tables:
        table[0] = (0.0, 0.0, 1.0)
        table[1] = (1.0, 0.0, 0.0)
    found = mapping(
        names,
        encoders,
        tables,
        Fact(name="fall", classes=[False, True]),
        [Fact(name="who", classes=["ann", "bob"])],
    )
    X = pd.DataFrame(
        {name: 18 + h * (t % 3) + g * (t % 4) + 2 * rng.normal(size=n)
         for t, name in enumerate(names)}
    )  # fmt: skip
    data = audit_data_from_arrays(found, X, h == 1, np.array(["ann", "bob"])[g])
    return audit_checked_data(data, AuditOptions(max_advantage=0.1)), data


@cache
def three_secrets(n=400):
    """Nine sensors, five answers, and secrets of two, eight and three classes."""
    rng = np.random.default_rng(2)
    does, who, room, health = (rng.integers(k, size=n) for k in (5, 2, 8, 3))
    names = [f"s{t}" for t in range(9)]
    facts = {"who": [*"ab"], "room": [*"ABCDEFGH"], "health": ["ill", "so-so", "well"]}
    found = mapping(
        names,
        [BinsEncoder(edges=[0.5, 1.5, 2.5, 3.5], missing=True)] * 9,
        [rng.dirichlet(np.ones(2), size=6) for _ in names],
        Fact(name="activity", classes=[0, 1, 2, 3, 4]),
        [Fact(name=name, classes=classes) for name, classes in facts.items()],
        fusion=AdditiveClassesFusion(
            weights=[[[0.0, float(k)]] * 9 for k in range(5)], bias=[0.0] * 5
        ),
    )
    X = pd.DataFrame({name: (does + rng.integers(2, size=n)) % 5 for name in names}, dtype=float)
    named = zip(facts.values(), (who, room, health), strict=True)
    secrets = np.stack([np.array(classes)[index] for classes, index in named], axis=1)
    data = audit_data_from_arrays(found, X, does, secrets)
    return audit_checked_data(data, AuditOptions(max_advantage=0.15)), data


HEADLINES = {
    "leaks": "It leaks",
    "not shown": "Not shown to be private",
    "on condition": "Private on condition",
    "no limit": "No limit was stated",
    "not useful": "Not useful",
}
"""The states of a report that are not green, and what their first screens say."""


@cache
def state(name):
    """The audit of the exactly private mapping, as it would be in another state."""
    audit, data = private()
    (limit,) = audit.limits
    changes = {
        "leaks": {"limits": (replace(limit, limit=0.02, lower=0.0412, state="broken"),)},
        "not shown": {"limits": (replace(limit, limit=0.02, state="not shown"),)},
        "on condition": {"conditions": ("no row was learned from (declared)",)},
        "no limit": {"limits": ()},
        "not useful": {"public": replace(audit.public, constant=True)},
    }
    return replace(audit, **changes[name]), data


COMMAND = 'discreet audit "my <home>.json" A.csv --seed 0'


@cache
def page(case, *arguments):
    """The report of one of the cases above."""
    return render_report(case(*arguments)[0], command=COMMAND)
