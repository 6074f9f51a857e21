"""Build wheels and sdists, try each in clean environments, print sizes and write the SBOM.

Run it as ``make package``; what it builds is in ``build/package``. The packages are tried with
every Python from 3.11 on that is on the PATH or named (``--python``). ``--debian trixie,sid``
tries them with the Pythons of these releases too, in roots of Debian packages; that needs root,
debootstrap, and a network that reaches Debian and PyPI. The small package for devices is tried
from Python 3.9 on, which bullseye has.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from research.debian import make_root, run, why_not

ROOT = Path(__file__).parent.parent
OUT = ROOT / "build" / "package"
TABLE = "hall,door,fall,who\n" + "0,1,no,Ada\n3,2,no,Ben\n5,6,yes,Ada\n8,7,yes,Ben\n" * 100
ASKED = "--public fall --private who --max-advantage 0.4 --out m.json"
LARGEST = 8  # packages that are named
TOOLS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")  # of every environment
# A device's messages and draws, beside those that docs/vectors.json lists.
VECTORS = """
import json, sys
from discreet_sensor import wire
from discreet_sensor.runtime import Table

known = json.load(open("vectors.json"))
key, topic, same = bytes.fromhex(known["key"]), known["topic"], 0
for case in known["messages"]:
    sent = bytes.fromhex(case["bytes"])
    found = wire.decode(sent, len(case["symbols"]) // 2, key, topic.encode())
    assert found.seq == case["seq"] and wire.encode(found, key, topic) == sent
    same += 1
for case in known["tables"]:
    table = Table(bytes.fromhex(case["body"]))
    for row, word, symbol in case["draws"]:
        below = sum(threshold <= word for threshold in table.thresholds[row])
        assert symbol == min(below, table.tops[row])
        same += 1
print(f"{same} messages and draws equal docs/vectors.json")
"""


@dataclass(frozen=True)
class Place:
    """A Python to try packages with: of this machine, or of a root of Debian packages."""

    python: str
    root: Path | None = None

    def run(self, folder: Path, *words: str | Path) -> str:
        """Run a program in a folder, where this Python is."""
        if self.root is None:
            return run(*words, folder=folder)
        inside = "/" / folder.relative_to(self.root)
        script = ('cd "$0" && exec "$@"', inside, *words)
        return run(
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "chroot",
            self.root,
            "/bin/sh",
            "-c",
            *script,
        )

    def version(self) -> tuple[int, int]:
        """Return its version, such as (3, 13)."""
        asked = "import sys; print(*sys.version_info[:2])"
        major, minor = self.run(self.root or ROOT, self.python, "-c", asked).split()
        return int(major), int(minor)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder that this Python sees, and remove it."""
        with tempfile.TemporaryDirectory(dir=self.root) as name:
            yield Path(name)


def pythons(more: Sequence[str] = ()) -> list[Place]:
    """Return one Python of each version from 3.11 on: this one, those named, those on the PATH."""
    found = {sys.version_info[:2]: Place(sys.executable)}
    for program in (*more, *(f"python3.{minor}" for minor in range(11, 20))):
        if shutil.which(program) is None:
            continue
        asked = [program, "-c", "import ensurepip, sys; print(*sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:  # a name on the PATH may be a shim for nothing
            major, minor = map(int, done.stdout.split())
            found.setdefault((major, minor), Place(program))
    return list(found.values())


def debian_python(release: str, roots: Path) -> Place:
    """Return the Python of a release of Debian, in a root that is made if it is not there."""
    root = roots.absolute() / release
    make_root(root, release, "python3-venv,ca-certificates")
    return Place("python3", root)


def megabytes(folder: Path) -> float:
    """Return the size of all files in a folder."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6


def try_package(package: Path, place: Place) -> None:
    """Install a package where nothing else is, use it, and print what it takes."""
    with place.folder() as folder:
        for each in (package, ROOT / "docs" / "vectors.json"):
            shutil.copy(each, folder)
        place.run(folder, place.python, "-m", "venv", "environment")
        place.run(folder, "environment/bin/pip", "install", "-qq", "--no-compile", package.name)
        if "sensor" in package.name:
            done = try_sensor(folder, place)
        else:
            done = try_discreet(folder, place)
        version = ".".join(map(str, place.version()))
        print(
            f"{package.name} under Python {version}: {done}; {sizes(package, folder)}", flush=True
        )
        if package.suffix == ".whl" and place.python == sys.executable and "sensor" not in done:
            write_sbom(folder / "environment" / "bin" / "python")


def sizes(package: Path, folder: Path) -> str:
    """Return how large a package is, what it brings along, and which parts are the largest."""
    (site,) = (folder / "environment").glob("lib/python*/site-packages")
    brought = (each for each in site.iterdir() if not each.name.startswith(TOOLS))
    parts = sorted(((megabytes(each), each.name) for each in brought), reverse=True)
    largest = ", ".join(f"{name} {size:.0f}" for size, name in parts[:LARGEST])
    own, all_ = package.stat().st_size / 1e6, sum(size for size, _ in parts)
    return f"{own:.1f} MB, installed {all_:.0f} MB without bytecode: {largest}"


def try_discreet(folder: Path, place: Place) -> str:
    """Import it, learn and audit."""
    (folder / "home.csv").write_text(TABLE)
    place.run(folder, "environment/bin/python", "-c", "import discreet; print(discreet.Mapper)")
    program = "environment/bin/discreet"
    place.run(folder, program, "learn", "home.csv", *ASKED.split())
    place.run(folder, program, "audit", "m.json", "home.csv", "--json")
    return "imported, learned, audited"


def try_sensor(folder: Path, place: Place) -> str:
    """Ask the device's program for help and compare its messages with those that are listed."""
    place.run(folder, "environment/bin/discreet-sensor", "--help")
    found = place.run(folder, "environment/bin/python", "-c", VECTORS).strip()
    return f"discreet-sensor --help, {found}"


def write_sbom(python: Path) -> None:
    """Write what an environment holds, for those who watch over supply chains."""
    out = OUT / "sbom.json"
    run(sys.executable, "-m", "cyclonedx_py", "environment", python, "-o", out)
    print(f"wrote {out.relative_to(ROOT)}")


def build() -> list[Path]:
    """Build both distributions and return their files."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    for source in (ROOT, ROOT / "sensor"):
        run(sys.executable, "-m", "build", "--outdir", OUT, folder=source)
    return sorted(OUT.glob("discreet*"))


def main() -> None:
    """Build and try what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="a further one; repeatable")
    parser.add_argument("--debian", default="", help="releases whose Pythons are tried besides")
    parser.add_argument("--only", default="", help="packages to try: a part of their file names")
    parser.add_argument("--roots", type=Path, default=ROOT / "build" / "debian", help="their place")
    given = parser.parse_args()
    releases = [each for each in given.debian.split(",") if each]
    if releases and why_not():
        sys.exit(f"--debian cannot be had here: {why_not()}.")
    places = [*pythons(given.python), *(debian_python(each, given.roots) for each in releases)]
    for package in (each for each in build() if given.only in each.name):
        least = (3, 9) if "sensor" in package.name else (3, 11)
        for place in places:
            if place.version() >= least:
                try_package(package, place)


if __name__ == "__main__":
    main()
