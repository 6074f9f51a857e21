"""Roots made of Debian packages, to run programs of other releases than the machine's."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path


def why_not(*programs: str) -> str:
    """Return why no root can be made or used here, or nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "it needs root on Linux"
    missing = [name for name in ("debootstrap", *programs) if not shutil.which(name)]
    return f"{', '.join(missing)} is not installed" if missing else ""


def make_root(root: Path, release: str, packages: str) -> None:
    """Make a root of a release with some packages, unless it is there.

    It resolves names and trusts certificates as the machine does.
    """
    if not (root / "made").exists():
        print(f"==> {release} from Debian packages into {root}", flush=True)
        root.mkdir(parents=True, exist_ok=True)
        include = f"--include={packages}"
        run("debootstrap", "--variant=minbase", include, release, root)
        (root / "made").touch()
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    certificates = ssl.get_default_verify_paths().cafile
    if certificates is not None:
        shutil.copy(certificates, root / "etc/ssl/certs/ca-certificates.crt")


def run(*words: str | Path, folder: Path | None = None) -> str:
    """Run a program, which has to succeed, and return what it prints."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
