"""A design from rows on disk, beside the same design from the same rows in memory.

    python -m research.benchmarks.out_of_core [--codes 2e9] [--sensors 32] [--rounds 5] \
        [--file PATH]

The rows are made up block by block and packed into a file, 0.5 byte for each code. One process
holds all of them in memory, another one reads blocks from the file; they take turns with one
pass each, and then with a whole design with the count kernel. "from the disk itself" is a pass
after the system was told to forget the file. Resident memory is the most that the reading
process ever had (VmHWM in /proc, which counts mapped pages of files too; there are none here,
since blocks are read and not mapped).
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from discreet.choices import LOSSES
from discreet.data.encoders import CodesEncoder
from discreet.design.heads import private_heads, public_heads
from discreet.design.kernels import CountKernel
from discreet.design.packed_file import Header, PackedFile, PackedSensor, packing_to
from discreet.design.problem import Settings, Target, design_weighted_rows
from discreet.design.sweep import WeightedRows, default_threads, sweep
from discreet.mapping.parts import Fact
from research.bench.tables import draw_blocks

RATIO = 0.998


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=float, default=2e9)
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--designs", type=int, default=2)
    parser.add_argument("--file", type=Path, default=None, help="kept, and used again if there")
    given = parser.parse_args()
    threadpool_limits(limits=1)  # idle BLAS threads spin and spoil the timing
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or Path(folder) / "rows.packed"
        if not path.exists():
            write(path, int(given.codes / given.sensors), given.sensors)
        describe(path)
        compare(path, given.rounds, given.designs)


def write(path: Path, n_rows: int, n_sensors: int) -> None:
    began = time.perf_counter()
    kinds = np.zeros(4, dtype=np.int64)
    for _, public, private in draw_blocks(n_rows, 1):
        kinds += np.bincount(2 * public + private, minlength=4)
    header = Header(
        sensors=[
            PackedSensor(name=f"s{t}", encoder=CodesEncoder(size=16)) for t in range(n_sensors)
        ],
        facts=[Fact(name="h", classes=(0, 1)), Fact(name="g", classes=(0, 1))],
        kinds=[[0, 0], [0, 1], [1, 0], [1, 1]],
        kind_rows=kinds.tolist(),
    )
    with packing_to(path, header) as writer:
        for codes, public, private in draw_blocks(n_rows, n_sensors):
            writer.add(codes, 2 * public + private)
    print(f"made up and packed in {time.perf_counter() - began:.0f} s", flush=True)


def describe(path: Path) -> None:
    with PackedFile.open(path, verify=False) as file:
        rows, sensors = len(file), len(file.layout.sizes)
    size, codes = path.stat().st_size, rows * sensors
    print(
        f"{rows} rows, {sensors} sensors: {codes:.3g} codes in {size / 1e9:.2f} GB, "
        f"{(size - rows) / codes:.3f} bytes a code and 1 for a row's labels",
        flush=True,
    )


class Work:
    """Passes and designs over one set of weighted_rows."""

    def __init__(self, file: PackedFile, in_memory: bool) -> None:
        public, private = file.labels(0), file.labels(1)
        self.guarded = private_heads(file.by_kind, private)
        self.weighted_rows = file.weighted_rows(public_heads(file.by_kind, public) + self.guarded)
        if in_memory:
            packed, kinds = file.read(slice(None))
            self.weighted_rows = WeightedRows(
                packed, kinds, np.empty(0), self.weighted_rows.signed_weights
            )
        n_sensors, n = len(file.layout.sizes), len(file)
        self.tables = 0.1 * np.random.default_rng(0).normal(size=(2, file.layout.n_codes))
        symbols, loss = (2,) * n_sensors, LOSSES["logistic"]
        self.settings = Settings(symbols, CountKernel(), loss, 0.3 / n, 0.1 / n)

    def one_pass(self) -> tuple[float, float]:
        began = time.perf_counter()
        found = sweep(self.weighted_rows, self.tables, self.settings.loss)
        return time.perf_counter() - began, float(found.values.sum())

    def design(self) -> tuple[float, float, float]:
        began = time.perf_counter()
        work = {"rng": np.random.default_rng(0), "starts": (), "report": None}
        found = design_weighted_rows(
            self.settings, self.weighted_rows, 1, self.guarded, Target(RATIO), work
        )
        return time.perf_counter() - began, found.public_risk, found.passes


def serve(path: Path, pipe) -> None:
    """Do as told, in a process that never holds all rows."""
    threadpool_limits(limits=1)
    with PackedFile.open(path, verify=False) as file:
        work = Work(file, in_memory=False)
        while (order := pipe.recv()) != "end":
            pipe.send(memory() if order == "memory" else getattr(work, order)())


def memory() -> dict[str, float]:
    """Return resident memory in GB: the most so far, and what of it now is whose."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {name: int(found[name].split()[0]) / 1e6 for name in ("VmHWM", "RssAnon", "RssFile")}


def compare(path: Path, rounds: int, designs: int) -> None:
    context = multiprocessing.get_context("spawn")  # a fork would inherit memory
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(path, theirs), daemon=True)
    process.start()

    def ask(order: str):
        ours.send(order)
        return ours.recv()

    with PackedFile.open(path, verify=False) as file:
        here = Work(file, in_memory=True)
        n_codes = len(file) * len(file.layout.sizes)
        here.one_pass(), ask("one_pass")  # loads and warms up
        passes = []
        for _ in range(rounds):
            in_memory, value = here.one_pass()
            cached, same = ask("one_pass")
            assert value == same  # to the bit
            forget(path)
            cold, _ = ask("one_pass")
            passes.append((in_memory, cached, cold))
        print(f"{default_threads()} threads, medians (least to most) of {rounds} rounds in turn")
        show("one pass", ("in memory", "from the file", "from the disk itself"), passes, n_codes)
        taken = []
        for _ in range(designs):
            one, two = here.design(), ask("design")
            assert one[1:] == two[1:]  # the same mapping, by its risk and the number of passes
            taken.append((one[0], two[0]))
        if taken:
            words = f"whole design, {one[2]:.0f} passes"
            show(words, ("in memory", "from the file"), taken, n_codes)
    most = ask("memory")
    words = f"target <= 1.5: {'PASS' if most['VmHWM'] <= 1.5 else 'MISSED'}"
    print(
        f"resident memory of the process that reads: at most {most['VmHWM']:.2f} GB (now "
        f"{most['RssAnon']:.2f} its own, {most['RssFile']:.2f} mapped files); {words}"
    )
    ours.send("end")
    process.join()


def forget(path: Path) -> None:
    """Ask the system to drop the file from its cache."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def show(what: str, names: tuple[str, ...], seconds: list, n_codes: int) -> None:
    print(f"\n{what:32}{'seconds':>9}{'least':>8}{'most':>8}{'ns/code':>9}{'rate':>7}")
    columns = np.array(seconds).T
    for name, column in zip(names, columns, strict=True):
        share = float(np.median(columns[0] / column))
        target = (
            "" if name == names[0] else f"  target >= 0.50: {'PASS' if share >= 0.5 else 'MISSED'}"
        )
        each = 1e9 * np.median(column) / n_codes
        print(
            f"  {name:30}{np.median(column):9.2f}{column.min():8.2f}{column.max():8.2f}"
            f"{each:9.3f}{share:7.2f}{target}"
        )


if __name__ == "__main__":
    main()
