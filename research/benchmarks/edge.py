"""What the export to devices must show, at full size.

    python -m research.benchmarks.edge [--only agreement,speed] [--scale 1.0]

The tests try the same figures at a smaller size, with the same code
(tests/support/device_figures.py). A figure whose tools are missing (gcc, node with MicroPython's
WebAssembly build, the ARM compiler, QEMU) is left out and says so; .ci/run installs them all.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console
from rich.table import Table
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support import device_figures as figures
from support import random_sources as sources
from support.devices import (
    SANITIZED,
    STRICT,
    build,
    make_sensor,
    micropython_runtime,
    needs,
    run_native,
    write_header,
)

from discreet.export.signing import SigningKey
from discreet_sensor.runtime import Health

KEY = SigningKey(Ed25519PrivateKey.generate())
Row = tuple[str, str, str]
CLOCK = 48  # MHz, of a Cortex-M0; loads and branches take more than one cycle there


PLACE = tempfile.TemporaryDirectory(prefix="discreet-edge-")


def folder() -> str:
    return tempfile.mkdtemp(dir=PLACE.name)


def driver() -> Path:
    needs("gcc")
    return build(folder(), "driver.c", *STRICT, "-O2", "-DDISCREET_SOURCE_IS_DRBG")


def agreement(scale: float) -> Iterator[Row]:
    draws = int(1e6 * scale)
    count, differing = figures.agreement(folder(), driver(), 200, draws)
    for name, wrong in differing.items():
        yield f"{name}: draws that differ, of {count:,} over 200 mappings", str(wrong), "0"


def frequencies(scale: float) -> Iterator[Row]:
    draws = int(1e7 * scale)
    for name, p_values in figures.frequencies(figures.sixteen(), draws, driver()).items():
        least = f"least p of {len(p_values)} rows, {draws:,} draws each"
        yield f"{name}: {least}", f"{min(p_values):.4f}", "> 0.0006 (1 % in all)"


def rounding(scale: float) -> Iterator[Row]:
    rng = np.random.default_rng(6)
    for name, epsilon in (("1", 1.0), ("5", 5.0)):
        tables = list(figures.mild_tables(rng, int(2000 * scale), epsilon))
        found = figures.rounding(tables)
        label = f"{len(tables)} tables, log-ratios of up to {name} before rows are scaled"
        yield f"{label}: shipped epsilon - real", f"{found['shipped above real']:.2e}", "<= 1e-6"
        yield "  shipped - audited", f"{found['audit below shipped']:.2e}", "<= 0"
        yield "  shipped - counted by the ledger", f"{found['ledger below shipped']:.2e}", "<= 0"


def timing(scale: float) -> Iterator[Row]:
    needs("gcc")
    aim = "interval below 0.55"
    samples = int(200_000 * scale)
    found = figures.latencies_c(folder(), samples)
    yield f"C: AUC, {samples:,} samples of 32 draws", *both_areas(found), aim
    yield "C: Welch's t", f"{figures.welch(*found):.1f}", "|t| < 4.5 (dudect)"
    found = figures.latencies_c(folder(), samples // 10, early=True)
    shown = f"{both_areas(found)[0]}, t = {figures.welch(*found):.0f}"
    yield "  with an early exit, for comparison", shown, ""
    for symbols in (2, 3, 16):
        found = figures.latencies_python(samples, symbols=symbols)
        yield f"Python: AUC, {samples:,} draws, {symbols} symbols", *both_areas(found), aim
    processes = max(2, int(30 * scale))
    for symbols in (2, 16):
        elsewhere = list(figures.latencies_elsewhere(processes, 40_000, symbols))
        for judge in (figures.auc_interval, figures.learned_interval):
            areas = np.array([judge(*found) for found in elsewhere])
            name = "learned" if judge is figures.learned_interval else "AUC"
            label = f"  {processes} fresh processes, {symbols} symbols, {name}: median, worst"
            worst = areas[areas[:, 2].argmax()]
            shown = f"{np.median(areas[:, 1]):.4f}, {worst[1]:.4f} [{worst[0]:.4f}, {worst[2]:.4f}]"
            yield label, shown, aim
    found = figures.latencies_release(folder(), KEY, samples // 4)
    yield f"Python: AUC, {samples // 4:,} whole releases", *both_areas(found), aim
    found = figures.latencies_python(samples, figures.pick_integer)
    yield "  comparing integers, for comparison", *both_areas(found), ""
    found = figures.latencies_python(samples // 10, figures.pick_early)
    yield "  with an early exit, for comparison", *both_areas(found), ""


def both_areas(found: tuple[object, object]) -> list[str]:
    """The AUC of the latency alone, and of a classifier that learned from the half of it."""
    areas = (figures.auc_interval(*found), figures.learned_interval(*found))
    shown = [f"{area:.4f} [{low:.4f}, {high:.4f}]" for low, area, high in areas]
    return [f"{shown[0]}, learned {shown[1]}"]


def randomness(scale: float) -> Iterator[Row]:
    needs("gcc")
    place = folder()
    write_header(place, make_sensor(repeat="never"))
    program = build(place, "sources.c", *STRICT, *SANITIZED, "-O1")
    blocks, refused, latest, apart = 1500, {"start": 0, "later": 0}, 0, 0
    for kind in sources.BAD:
        refused["start"] += int(run_native(program, data=sources.stream(kind, 1, 0, blocks))) >= -1
        data = sources.stream(kind, 2, sources.STARTUP + 20, blocks)
        released, found = int(run_native(program, data=data)), sources.refused_at(Health(), data)
        refused["later"] += released >= 0
        latest = max(latest, released - 19)
        apart += found is None or released != found - sources.STARTUP - 1
    of = f"of {len(sources.BAD)}"
    yield "kinds of bad source refused from the start, C", f"{refused['start']} {of}", "all"
    yield "  sound at the start and bad later", f"{refused['later']} {of}", "all"
    yield "  most symbols released of the bad blocks, all from a good seed", str(latest), ""
    yield "  refused at another block in Python", f"{apart} {of}", "0"
    found = sum(sources.false_alarms(86_400).values())
    yield "false alarms a day at 1 Hz, a bound", f"{found:.1e}", "< 1e-6"
    calls = int(2e5 * scale)
    sound = run_native(program, data=os.urandom(sources.BLOCK * calls))
    yield f"sound blocks refused, of {calls:,}", "0" if int(sound) == -2 else "1", "0"


def constant(scale: float) -> Iterator[Row]:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm", "clang", "valgrind"):
        needs(tool)
    levels = figures.LEVELS if scale >= 1 else ("-Os", "-O2")
    for compiler in ("gcc", "clang"):
        worst, builds, reports = {"encode": 0, "draw": 0}, 0, 0
        for kind in figures.SECRETS:
            place = folder()
            for cpu, level in itertools.product(figures.MACHINES, levels):
                found = figures.instruction_counts(place, kind, cpu, level, compiler)
                worst = {name: max(worst[name], found[name]) for name in worst}
                builds += 1
            for level, repeat in itertools.product(levels, ("never", "code", "period")):
                reports += figures.secret_reports(folder(), kind, level, compiler, repeat=repeat)
        label = (
            f"{compiler}, {builds} builds for Cortex-M0 to M33: ticks of 40 instructions apart in"
        )
        yield f"{label} 200 encodings", str(worst["encode"]), "<= 1"
        yield "  in 200 draws and 4 keyed words", str(worst["draw"]), "<= 1"
        yield "  reports of valgrind, secrets not defined", str(reports), "0"
    early = figures.instruction_counts(folder(), "BINS", "cortex-m0", "-Os", "gcc", "-DEARLY")
    yield "an encoding that ends early, for comparison", str(early["encode"]), ""
    yield (
        "  valgrind",
        str(figures.secret_reports(folder(), "BINS", "-O2", "gcc", leak=True)),
        "> 0",
    )


def constant_micropython(scale: float) -> Iterator[Row]:
    """Instructions of the Unix port; what a board takes for a float or a long integer may vary."""
    place, times = folder(), 20
    for kind in figures.MICROPYTHON_TABLES:
        if kind != "WORDS":
            counts = figures.micropython_counts(place, kind, times=times)
            label = f"{kind.lower()}: instructions apart in {times} calls, {len(counts)} readings"
            yield label, str(max(counts) - min(counts)), "0"
    words = figures.micropython_counts(place, "WORDS", times=times)
    share = words[0] / words[1] - 1
    yield "a text that is a word of MicroPython, such as open: longer by", f"{share:.2%}", ""


def clones(scale: float) -> Iterator[Row]:
    same, tried, chance = figures.clones(folder(), KEY, int(20_000 * scale))
    low, high = binom.interval(0.99, tried, chance)
    label = f"two devices from one bundle: agreement over {tried:,} draws"
    yield label, f"{same / tried:.4f}", f"in [{low / tried:.4f}, {high / tried:.4f}]"


def averaging(scale: float) -> Iterator[Row]:
    trials = int(2000 * scale)
    once, often = figures.averaging(folder(), KEY, trials, 1000, "code")
    yield f"memoised: attacker right after 1 release ({trials} trials)", f"{once:.3f}", ""
    yield "memoised: after 1,000 releases of the same reading", f"{often:.3f}", f"<= {once:.3f}"
    once, often = figures.averaging(folder(), KEY, trials // 10, 1000, "never")
    yield "not memoised, for comparison: after 1,000", f"{often:.3f}", ""


def hostile(scale: float) -> Iterator[Row]:
    needs("gcc")
    count = int(1e5 * scale)
    start = time.perf_counter()
    yield "C under ASan and UBSan", figures.fuzz_c(folder(), count), "no crash, none unverified"
    yield "  seconds", f"{time.perf_counter() - start:.1f}", "no hang"
    start = time.perf_counter()
    refused, sound = figures.fuzz_python(folder(), KEY, count)
    yield "Python: mutated bundles refused", f"{refused:,} of {count:,}", "all"
    yield "  bodies that parse once signed and repaired", f"{sound:,}", "no crash"
    yield "  seconds", f"{time.perf_counter() - start:.1f}", "no hang"
    start = time.perf_counter()
    sound = sum(figures.fuzz_bodies(micropython_runtime(), count))
    yield f"MicroPython: of {count:,} bodies, repaired, that parse", f"{sound:,}", "no crash"
    yield "  seconds", f"{time.perf_counter() - start:.1f}", "no hang"


def speed(scale: float) -> Iterator[Row]:
    rounds = max(5, int(101 * scale))
    times = figures.speed_python(rounds)
    plain, vector, pcg64 = np.median(times, axis=0)
    least = times.min(axis=0)
    yield "stdlib, CPU ns per reading: median (least)", f"{plain:.0f} ({least[0]:.0f})", "<= 200"
    yield "vectorised", f"{vector:.2f} ({least[1]:.2f})", "<= 5"
    yield "  with PCG64 words instead", f"{pcg64:.2f} ({least[2]:.2f})", ""
    ratio = float(np.median(times[:, 1] / times[:, 2]))
    yield "  ratio, run by run", f"{ratio:.2f}", "<= 1"


def size(scale: float) -> Iterator[Row]:
    needs("arm-none-eabi-gcc")
    for cpu in ("cortex-m0", "cortex-m3", "cortex-m33"):
        drawing, everything = figures.sizes(folder(), cpu)
        yield (
            f"{cpu}: bytes of code and tables to draw, 16 codes, 2 symbols, DRBG",
            str(drawing),
            "",
        )
        yield "  with ledger, memory and its keyed words", str(everything), ""
        drawing, everything = figures.sizes(folder(), cpu, "-DDISCREET_SOURCE_IS_DRBG")
        yield "  to draw, where the platform has a DRBG", str(drawing), ""
        yield "  with ledger, memory and its keyed words", str(everything), ""


def instructions(scale: float) -> Iterator[Row]:
    needs("arm-none-eabi-gcc")
    needs("qemu-system-arm")
    for cpu in ("cortex-m0", "cortex-m3"):
        found, total = figures.cortex_m(folder(), "-DDISCREET_SOURCE_IS_DRBG", cpu=cpu)
        yield f"{cpu}: same symbols as Python", str(found.pop("sum") == total), "True"
        first, last = found.pop("first"), found.pop("last")
        yield (
            "  1,000 draws of the first symbol, and of the last",
            f"{first:,}, {last:,}",
            "40 apart",
        )
        own, _ = figures.cortex_m(folder(), cpu=cpu)
        for name, count in found.items():
            shown = f"{in_time(count)}; with its own DRBG {in_time(own[name])}"
            yield f"  {name}, 16 codes, 2 symbols", shown, ""


def in_time(count: int) -> str:
    """Instructions, and microseconds if each took one cycle of a slow chip."""
    return f"{count:,} ({count / CLOCK:,.1f} us at {CLOCK} MHz)"


FIGURES: dict[str, Callable[[float], Iterator[Row]]] = {
    "agreement": agreement,
    "frequencies": frequencies,
    "rounding": rounding,
    "timing": timing,
    "randomness": randomness,
    "constant": constant,
    "constant-micropython": constant_micropython,
    "clones": clones,
    "averaging": averaging,
    "hostile": hostile,
    "speed": speed,
    "size": size,
    "instructions": instructions,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FIGURES), help="figures, separated by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    options = parser.parse_args()
    console = Console()
    for name in options.only.split(","):
        table = Table(name, "figure", "target")
        try:
            for row in FIGURES[name](options.scale):
                table.add_row(*row)
        except pytest.skip.Exception as missing:
            table.add_row("left out", str(missing), "")
        console.print(table)


if __name__ == "__main__":
    main()
