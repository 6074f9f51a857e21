"""Table "Detection errors using the Census (Adult) Data Set"."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from discreet.mappers.auto_mapper import Mapper
from discreet.mappers.randomized_response import RandomizedResponseMapper
from discreet.mappers.risk_mappers import NPOMapper, PrivacyMapper
from research.paper.datasets import ADULT_FILE, Labelled, draw_cells, load_adult
from research.paper.experiment import Experiment, Measured, in_words
from research.paper.measured_rows import (
    CHOICES,
    COLUMNS,
    CURATOR_METHODS,
    Trial,
    as_printed,
    findings,
    measure_all,
    picture,
)

SETTING = "Adult"
N_TRAIN, N_TEST = 30, 350
"""Rows from each of the six cells."""
NPO: dict[str, Any] = {"privacy_ratio": 0.998}
AUTO: dict[str, Any] = {"privacy_ratio": 0.98, "ldp_epsilon": 3.0}
RESPONSE: dict[str, Any] = {"ldp_epsilon": 1.0}
CURATOR: dict[str, Any] = {"categories": "codes", "n_bins": 15}
METHODS = {
    "npo": "NPO",
    "auto": "Mapper",
    **CURATOR_METHODS,
    "randomized-response": "randomised response",
}
PRINTED = {  # H, G and the estimate of epsilon, which is printed once for all but NPO
    "npo": (0.3767, 0.6214, 0.82),
    "mdr": (0.3757, 0.6402, 1.61),
    "dca": (0.3838, 0.5633, 1.61),
    "ruca-1": (0.4124, 0.6525, 1.61),
    "ruca-100": (0.4110, 0.6414, 1.61),
    "ruca-1000": (0.4067, 0.6586, 1.61),
    "raw": (0.3405, 0.3048, 1.61),
}


@lru_cache(maxsize=1)
def _data(file: Path | None) -> Labelled:
    return load_adult(file)


def measure(_: str, seed: int, file: Path | None) -> Measured:
    """Learn by every method from one draw of rows."""
    train, test = draw_cells(_data(file), seed, n_train=N_TRAIN, n_test=N_TEST)
    trial = Trial(train, test, seed)
    mappers: dict[str, PrivacyMapper] = {
        "npo": NPOMapper(**NPO, random_state=seed),
        "auto": Mapper(**AUTO, random_state=seed),
        "randomized-response": RandomizedResponseMapper(**RESPONSE, random_state=seed),
    }
    return measure_all(trial, mappers, CURATOR)


EXPERIMENT = Experiment(
    name="adult",
    title="Adult: income against marital status",
    origin="the table on the Census (Adult) data set",
    columns=COLUMNS,
    methods=METHODS,
    settings={SETTING: SETTING},
    measure=measure,
    picture=picture,
    printed=as_printed(SETTING, PRINTED),
    findings=findings,
    choices=(
        f"{N_TRAIN} training and {N_TEST} test rows from each of the six cells of income and "
        "marital status: 180 and 2100, as printed. The paper says only that rows were sampled at "
        "random; its errors fit equal cells.",
        "Age is cut into 15 intervals of equal width over all rows; two symbols for each sensor.",
        f"The paper prints no p for its tables: NPO keeps {NPO['privacy_ratio']}, this package's "
        "default.",
        f"Mapper is asked for {in_words(AUTO)}, randomised response for "
        f"{in_words(RESPONSE)} in each sensor.",
        *CHOICES,
        "For MDR, DCA, RUCA and Z = X the categories count as numbers (their codes), because "
        "DCA then comes near its printed row. Indicators (one-hot), this package's default, suit "
        "a projection better.",
        "The printed 1.61 is ln 5. With a third of the rows in each private class an output seen "
        "once gives ln 3 = 1.10; ln 5 is what one gives that was seen 15 times, once of them with "
        "some class, or what outputs seen once give if a class has a fifth of the rows.",
    ),
    parameters={
        "npo": NPO,
        "auto": AUTO,
        "randomized_response": RESPONSE,
        "curator": CURATOR,
        "rows": (N_TRAIN, N_TEST),
    },
    draws=20,
    data_file=ADULT_FILE,
)
