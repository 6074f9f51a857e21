"""A short version of research/benchmarks/network/floods.py."""

import pytest
from support.matrices import sparing
from support.network_figures import floods
from support.sites import needs_mosquitto

from discreet.network.store.writing import MOST_FOR_ROUND

pytestmark = [pytest.mark.slow, needs_mosquitto]


HONEST = range(6, 9)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with floods.flooded_site(tmp_path_factory.mktemp("floods") / "site", 9) as found:
        yield found


KEPT = (floods.small, floods.large, floods.boots)


@pytest.mark.parametrize("kind", sparing(floods.ALL, *KEPT))
def test_a_device_that_floods_is_suspended_and_the_others_are_heard(running, kind):
    """A device each: whoever was suspended stays so."""
    (site, serve), number = running, floods.ALL.index(kind)
    found = floods.flood(site, serve, kind, [number], HONEST, 4.0)
    assert found.named == {f"d{number}"}
    assert found.told == {"doctor", "/health", "dashboard"}
    assert f"d{number} floods the site and is suspended" in serve.log.read_text()
    assert found.heard >= 0.75  # of four rounds one may fall into a pause of a busy machine
    assert found.rows <= MOST_FOR_ROUND
