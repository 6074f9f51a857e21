"""Acts of a device, one to a line, for the clients in C and MicroPython: see ``client.c``."""

import json
import subprocess

from research import protocol_vectors
from support.devices import RUNTIMES, SANITIZED, STRICT, build, needs, run_micropython

VECTORS = json.loads(protocol_vectors.FILE.read_text(encoding="utf-8"))
CLIENT = RUNTIMES / "c" / "client"


def build_client(folder, script="client.c", *options):
    needs("gcc")
    flags = (*STRICT, *SANITIZED, "-O1", f"-I{CLIENT}", *options)
    return build(folder, script, *flags)


def run_c(program, lines):
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def run_mpy(folder, lines):
    source = RUNTIMES / "micropython" / "discreet_client.py"
    files = {
        "discreet_client.py": source.read_bytes(),
        "lines": "".join(f"{line}\n" for line in lines).encode(),
    }
    found = run_micropython(folder, "client_micropython.py", files)
    return found["out"].decode().splitlines()


def vector_lines():
    """Enrolments, good and bad, and messages; and what every client must answer."""
    good = VECTORS["enrolment"]["binary"]
    bad = [case["bytes"] for case in VECTORS["bad_binary_enrolments"]]
    lines = [f"E {each}" for each in (good, *bad, good)]
    answers = ["E 0", *["E -6"] * len(bad), "E 0"]
    for case in VECTORS["messages"]:
        numbers = (case["boot"], case["seq"], case["round"], case["spent"])
        lines.append(f"M {' '.join(map(str, numbers))} {case['symbols']}")
        answers.append(f"M {case['bytes']}")
    return lines, answers
