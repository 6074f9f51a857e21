"""A short version of research/benchmarks/network/throughput.py: what is acknowledged is stored."""

import pytest
from support.matrices import crossed
from support.network_figures.devices import SecureSite
from support.network_figures.load import LoadSite, Serve, committed
from support.network_sites import wait_for
from support.sites import needs_mosquitto

from discreet.network.broker import Broker

pytestmark = [pytest.mark.slow, needs_mosquitto]


SHAPES = {"single": {}, "gateways": {"width": 4, "batch": 8}}
CASES = crossed(
    ["sqlite", "postgresql"], SHAPES, kept=[("sqlite", "single"), ("postgresql", "gateways")]
)


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_all_that_is_acknowledged_is_committed(tmp_path, request, kind, shape):
    database = None if kind == "sqlite" else request.getfixturevalue("new_postgres_database")
    with Broker.plain(tmp_path / "broker") as broker:
        site = LoadSite(
            tmp_path / "site", broker.port, clients=20, database=database, **SHAPES[shape]
        )
        with Serve(site) as serve:
            committed(site, serve, processes=2, each=25)  # raises if anything is missing
            wait_for(lambda: serve.value("messages_total") == 20 * 25)
            assert site.count_stored() == 20 * 25
            assert serve.value("shed_total") == 0


def test_all_is_committed_over_tls_with_a_connection_for_each_device(tmp_path):
    site = SecureSite(tmp_path / "tls", devices=6)
    with site.broker, Serve(site) as serve:
        committed(site, serve, processes=2, each=25)
        wait_for(lambda: serve.value("messages_total") == 6 * 25)
        assert site.count_stored() == 6 * 25
