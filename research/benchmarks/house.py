"""Print the figures of the house: how large it is, and how far one `learn` walks through it.

    python -m research.benchmarks.house [--against OTHER_CHECKOUT]

Lines and modules of the package, of what is beside it and of the tests; modules that only one
other module imports; lines of a function (median and 90th percentile, without docstrings);
classes that hold rows of a table; and, of one `discreet learn` on a small table, how many
functions in how many modules of the package run, and how deep their calls go.
"""

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent.parent
ROWS_OF = {"codes", "rows", "table", "labels", "readings", "symbols", "index", "batch", "batches"}
"""Names of fields whose owner is taken for one that holds rows, if they are arrays or tables."""
ARRAYS = ("NDArray", "ndarray", "DataFrame", "Ints", "Floats", "Series", "Codes")
WALK = """
import json, sys
from pathlib import Path
package = str(Path(sys.argv[1]).resolve())
functions, depth, deepest = set(), 0, 0
def watch(frame, event, arg):
    global depth, deepest
    if not frame.f_code.co_filename.startswith(package):
        return
    if event == "call":
        depth += 1
        deepest = max(deepest, depth)
        if not frame.f_code.co_name.startswith("<"):
            functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))
    elif event == "return":
        depth -= 1
sys.argv = ["discreet", *sys.argv[2:]]
from discreet import cli
import discreet.mappers.auto_mapper, pandas, sklearn
sys.setprofile(watch)
try:
    cli.main()
except SystemExit as stop:
    code = stop.code
finally:
    sys.setprofile(None)
modules = {file for file, _ in functions}
print(json.dumps([len(functions), len(modules), deepest]), file=sys.stderr)
"""


def modules_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def count_lines(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def function_lines(files: list[Path]) -> list[int]:
    """Return the lines of every function and method, without its docstring."""
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((node.end_lineno or 0) - node.lineno + 1 - _docstring_lines(node))
    return found


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def imports_of(file: Path, names: set[str]) -> Iterator[str]:
    """Yield the package's modules that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each for each in inner if each in names)
            if node.module in names and not all(each in names for each in inner):
                yield node.module


def importers(source: Path) -> dict[str, set[str]]:
    """Return who imports each module; packages themselves do not count."""
    files = {
        ".".join(file.relative_to(source).with_suffix("").parts): file
        for file in modules_of(source / "discreet")
        if file.name not in {"__init__.py", "__main__.py"} and "runtimes" not in file.parts
    }
    found: dict[str, set[str]] = {name: set() for name in files}
    for file in modules_of(source / "discreet"):
        own = ".".join(file.relative_to(source).with_suffix("").parts)
        for name in imports_of(file, set(files)):
            if name != own:
                found[name].add(own)
    return found


def row_types(files: list[Path]) -> list[str]:
    """Return the classes with a field for rows of a table."""
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(_holds_rows(each) for each in node.body):
                found.append(f"{file.stem}.{node.name}")
    return sorted(found)


def _holds_rows(node: ast.stmt) -> bool:
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return False
    kind = ast.unparse(node.annotation)
    return node.target.id in ROWS_OF and any(each in kind for each in ARRAYS)


def walk_of_learn(checkout: Path) -> tuple[int, int, int]:
    """Return functions, modules and depth of one `learn` on a small table."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table.csv")
        lines = [f"{i % 7},{i * i % 5},{i % 2},{i // 3 % 2}" for i in range(400)]
        table.write_text("\n".join(["a,b,fact,secret", *lines]) + "\n", encoding="utf-8")
        command = [sys.executable, "-c", WALK, str(checkout / "src" / "discreet"), "learn"]
        command += [str(table), "--public", "fact", "--private", "secret", "--quiet"]
        command += ["--out", str(Path(folder, "m.json"))]
        settings = os.environ | {"PYTHONPATH": str(checkout / "src")}
        run = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    functions, modules, depth = json.loads(run.stderr.splitlines()[-1])
    return functions, modules, depth


def figures(checkout: Path) -> dict[str, object]:
    source = checkout / "src"
    files = modules_of(source / "discreet")
    lines = function_lines(files)
    alone = [name for name, by in importers(source).items() if len(by) == 1]
    functions, modules, depth = walk_of_learn(checkout)
    beside = [*modules_of(checkout / "research"), *modules_of(checkout / "tools")]
    return {
        "lines in src": count_lines(files),
        "modules in src": len(files),
        "modules at the top of the package": len(list((source / "discreet").glob("*.py"))),
        "modules with one importer": len(alone),
        "lines in research": count_lines(beside),
        "lines in tests": count_lines(modules_of(checkout / "tests")),
        "functions of one learn": functions,
        "modules of one learn": modules,
        "depth of one learn": depth,
        "function lines, median": statistics.median(lines),
        "function lines, 90th percentile": statistics.quantiles(lines, n=10)[-1],
        "classes that hold rows": len(row_types(files)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout, printed first")
    parser.add_argument("--names", action="store_true", help="list modules and classes by name")
    options = parser.parse_args()
    if options.names:
        alone = {n: next(iter(b)) for n, b in importers(HERE / "src").items() if len(b) == 1}
        print("\n".join(f"{name} <- {by}" for name, by in sorted(alone.items())))
        print("\n".join(row_types(modules_of(HERE / "src" / "discreet"))))
    houses = [figures(each) for each in (options.against, HERE) if each is not None]
    for name in houses[0]:
        print(f"{name:36}" + "".join(f"{house[name]:>10}" for house in houses))


if __name__ == "__main__":
    main()
