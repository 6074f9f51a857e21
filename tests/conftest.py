"""What every test shares: one random generator and one way to search for counterexamples."""

import gc
import os
import signal
from itertools import count

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest test, for which all other processes would wait at the end."""
    items.sort(key=lambda item: item.path.name != "test_manual.py")


def pytest_collection_finish() -> None:
    """Spare the garbage collector everything that is loaded: it lives to the end anyway."""
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their place, not by their content.

    What is compressed or signed at collection differs from second to second, and processes that
    run the tests side by side must have the same names for them.
    """
    return "bytes" if isinstance(val, bytes) else None
