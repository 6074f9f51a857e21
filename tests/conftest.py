"""What every test shares: one random generator and one way to search for counterexamples."""

import gc
import os
import signal
from itertools import count, islice
from pathlib import Path

# Tests run side by side, and threads of several processes would wait for each other, spinning.
# Before NumPy is loaded, which reads it once; the commands that tests start inherit it.
for _name in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples on every run and on every machine, however slow it is. To search further:
# pytest --hypothesis-profile=explore. ``make quick`` tries fewer.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("fixed"), derandomize=False, max_examples=2000
)
settings.register_profile("quick", settings.get_profile("fixed"), max_examples=20)
settings.load_profile("fixed")
_NUMBERS = count()
_LONG = ("test_manual.py", "test_notebook.py")


# A background job of a shell ignores SIGINT, and the commands that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory, monkeypatch):
    """Note audits where nobody else does; a test knows of its own only."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(_NUMBERS)}"  # made by who needs it
    monkeypatch.setenv("DISCREET_STATE", str(folder))


@pytest.fixture
def few_attackers(monkeypatch):
    """Leave the attackers that take long out of audits."""
    from discreet.auditing.attackers import attack

    quick = ("knows-all", "table", "telltale", "naive-bayes")
    few = {name: attack.ATTACKERS[name] for name in quick}
    monkeypatch.setattr(attack, "ATTACKERS", few)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _from_another_file_on(config: pytest.Config) -> None:
    """Let each process begin to read the tests elsewhere, if it reads all of them.

    In a fresh clone every process would rewrite the assertions of every file. Now it comes to most
    files after another process, and finds what that has made.
    """
    if config.args_source is config.ArgsSource.TESTPATHS:
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        first = len(files) * number // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        config.args[:] = map(str, files[first:] + files[:first])


def pytest_sessionstart(session: pytest.Session) -> None:
    _from_another_file_on(session.config)


@pytest.hookimpl(trylast=True)  # when it is known which tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, for which all other processes would wait at the end.

    With ``--dist worksteal`` each process begins with a part of the list, all of the same length:
    each part begins with some of them.
    """
    items.sort(key=lambda item: item.path)  # the same in all processes, wherever they began
    long = [item for item in items if item.path.name in _LONG]
    others = (item for item in items if item.path.name not in _LONG)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ordered: list[pytest.Item] = []
    for number in range(processes):
        length, own = (len(items) - len(ordered)) // (processes - number), long[number::processes]
        ordered += [*own, *islice(others, max(0, length - len(own)))]
    items[:] = ordered


def pytest_collection_finish() -> None:
    """Spare the garbage collector everything that is loaded: it lives to the end anyway."""
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their place, not by their content.

    What is compressed or signed at collection differs from second to second, and processes that
    run the tests side by side must have the same names for them.
    """
    return "bytes" if isinstance(val, bytes) else None
