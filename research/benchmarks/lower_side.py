"""How much leaks at least: real attackers beside the bound that draws no symbols.

    python -m research.benchmarks.lower_side --data FOLDER [--rows 40000] [--learn 2000] [--seeds 3]

Adult, both of its files (``adult.data`` and ``adult.test``, also as .gz) from the folder or from
$DISCREET_DATA: the five attributes of the paper, income against sex and against marital status
in three groups. A mapping is learned from some rows and audited on others. Printed are the
bounds at confidence 95 %: from below by the best of the audit's attackers, from below by
averaging the tables over all rows, and from above; and the plug-in advantage of the audited rows.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from discreet import Mapper, NPOMapper, audit
from discreet.auditing.bounds.lower_side import certify_lower
from discreet.auditing.bounds.outputs_given import AuditRows
from research.paper.datasets import Labelled, load_adult

METHODS = {"auto": Mapper, "npo": NPOMapper}
ALPHA = 0.05


def load_both(folder: Path) -> Labelled:
    """Return the rows of both files; ages stay in years, since each file has its own levels."""
    parts = []
    for name in ("adult.data", "adult.test"):
        file = next((each for each in sorted(folder.glob(name + "*")) if each.is_file()), None)
        if file is None:
            raise SystemExit(f"{folder} has no {name}, nor {name}.gz. Name the folder that has it.")
        parts.append(load_adult(file, age_levels=None))
    return Labelled(
        pd.concat([part.readings for part in parts], ignore_index=True),
        pd.concat([part.public for part in parts], ignore_index=True),
        pd.concat([part.private for part in parts], ignore_index=True),
    )


def run(data: Labelled, method: str, private: str, learn: int, rows: int, seed: int) -> list:
    """Learn, audit on other rows and return the numbers of one line."""
    fact = data.readings["sex"] if private == "sex" else data.private
    readings = data.readings.drop(columns="sex") if private == "sex" else data.readings
    order = np.random.default_rng(seed).permutation(len(data))
    before, after = order[:learn], order[learn : learn + rows]
    mapper = METHODS[method](max_advantage=0.05, random_state=seed)
    mapper.fit(readings.iloc[before], data.public.iloc[before], private=fact.iloc[before])
    mapping = mapper.mapping_
    found = audit(
        mapping, readings.iloc[after], data.public.iloc[after], private=fact.iloc[after]
    ).private[0]
    codes = mapping.encode(readings.iloc[after])
    index = np.unique(fact.iloc[after], return_inverse=True)[1]
    lower = certify_lower(
        AuditRows(tuple(mapping.tables), codes, index, len(found.classes)), ALPHA, seed
    )
    upper = found.certificate("advantage").bound
    return [found.attacks.best.lower, lower.advantage, found.figures.advantage, upper]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with adult.data and adult.test")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--learn", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default="auto,npo")
    parser.add_argument("--private", default="sex,marital")
    given = parser.parse_args()
    folder = given.data or os.environ.get("DISCREET_DATA")
    if not folder:  # not everybody who runs all benchmarks has the files
        print("Nothing was measured. Say where Adult is: --data FOLDER, or $DISCREET_DATA.")
        return
    data = load_both(Path(folder))
    print(f"{given.learn} rows of Adult to learn from, {given.rows} to audit, 0.05 asked for")
    print("method   private  seed  best attack  averaged  plug-in   upper")
    for method in given.methods.split(","):
        for private in given.private.split(","):
            for seed in range(given.seeds):
                numbers = run(data, method, private, given.learn, given.rows, seed)
                attack, lower, plug_in, upper = ("-" if n is None else f"{n:.4f}" for n in numbers)
                print(
                    f"{method:8} {private:8} {seed:4}  {attack:>11}  {lower:>8}  {plug_in:>7}  "
                    f"{upper:>6}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
