"""Build wheel and sdist, try each in a clean environment, print its size and write its SBOM.

Run it as ``make package``; what it builds is in ``build/package``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "build" / "package"
TABLE = "hall,door,fall,who\n" + "0,1,no,Ada\n3,2,no,Ben\n5,6,yes,Ada\n8,7,yes,Ben\n" * 100
LARGEST = 8  # packages that are named


def run(*words: str | Path, folder: Path = ROOT) -> str:
    """Run a program, which has to succeed, and return what it prints."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def megabytes(folder: Path) -> float:
    """Return the size of all files in a folder."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6


def try_package(package: Path, python: str, folder: Path) -> None:
    """Install a package where nothing else is, learn and audit with it, and print what it takes."""
    home = folder / "environment"
    if python == sys.executable:
        venv.create(home, with_pip=True)
    else:
        run(python, "-m", "venv", home)
    bin_ = home / "bin"
    run(bin_ / "pip", "install", "-qq", package)
    (folder / "home.csv").write_text(TABLE)
    asked = ("--public", "fall", "--private", "who", "--max-advantage", "0.4", "--out", "m.json")
    run(bin_ / "discreet", "learn", "home.csv", *asked, folder=folder)
    run(bin_ / "discreet", "audit", "m.json", "home.csv", "--json", folder=folder)
    (site,) = home.glob("lib/python*/site-packages")
    sizes = sorted(((megabytes(each), each.name) for each in site.iterdir()), reverse=True)
    print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB; installed with its dependencies")
    print(f"{megabytes(site):.0f} MB under {run(bin_ / 'python', '--version').strip()}: ", end="")
    print(", ".join(f"{name} {size:.0f}" for size, name in sizes[:LARGEST]))
    if package.suffix == ".whl":
        sbom = OUT / "sbom.json"
        run(sys.executable, "-m", "cyclonedx_py", "environment", bin_ / "python", "-o", sbom)
        print(f"wrote {sbom.relative_to(ROOT)}")


def main() -> None:
    """Build and try what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the Python to try it with")
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", OUT)
    for package in sorted(OUT.glob("discreet*")):
        with tempfile.TemporaryDirectory() as name:
            try_package(package, given.python, Path(name))


if __name__ == "__main__":
    main()
