"""How large ``discreet-sensor`` is with its dependencies, and how long it takes to start.

    python -m research.benchmarks.slim_sensor

Builds the wheel, installs it with what it needs into an empty environment, and starts it there.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SENSOR = Path(__file__).parents[2] / "sensor"
MOST_BYTES, MOST_SECONDS, STARTS = 25 * 10**6, 0.3, 15
IMPORTS = "import discreet_sensor.running, discreet_sensor.sources; "
IMPORTS += "import cryptography.hazmat.primitives.asymmetric.ed25519"


def installed(folder):
    """Install the wheel into a new environment; return its Python and what came with it."""
    run = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]
    subprocess.run([*run, "wheel", "--no-deps", "-w", folder / "dist", SENSOR], check=True)
    (wheel,) = (folder / "dist").glob("discreet_sensor-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([*run, "--python", python, "install", wheel], check=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    return python, packages


def seconds(command):
    """Return wall and processor time of the median of some starts."""
    walls, works = [], []
    for _ in range(STARTS):
        begun = time.perf_counter()
        script = f"import resource, subprocess, sys; subprocess.run({command!r}, check=True, "
        script += "stdout=subprocess.DEVNULL); u = resource.getrusage(resource.RUSAGE_CHILDREN); "
        script += "print(u.ru_utime + u.ru_stime)"
        done = subprocess.run(
            [sys.executable, "-S", "-c", script], check=True, capture_output=True, text=True
        )
        walls.append(time.perf_counter() - begun)
        works.append(float(done.stdout))
    return statistics.median(walls), statistics.median(works)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        python, packages = installed(Path(scratch))
        size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
        names = sorted(each.name for each in packages.iterdir() if each.name.endswith("-info"))
        print(f"installed with dependencies: {size / 1e6:.1f} MB (asked: below 25)")
        print("  " + ", ".join(name.rsplit(".", 1)[0] for name in names))
        _, bare = seconds([str(python), "-c", "pass"])
        _, helped = seconds([str(python.parent / "discreet-sensor"), "--help"])
        _, whole = seconds([str(python), "-c", IMPORTS])
        print(f"start, processor time: {whole:.3f} s with all that a sensor imports (asked: 0.3)")
        print(f"  --help {helped:.3f} s; Python alone {bare:.3f} s")
        fits = size < MOST_BYTES and whole < MOST_SECONDS
        print("met" if fits else "MISSED")
        return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
