import pytest
from support.intruders import ALL, Stage, control
from support.sites import make_site, needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intruders")
    with Stage(make_site(folder), folder) as stage:
        yield stage


@pytest.mark.parametrize("attempt", ALL, ids=lambda each: each.__name__)
def test_an_intruder_gets_in_nowhere_and_reads_nothing(stage, attempt):
    tried = attempt(stage, 2)
    assert tried.attempts >= 2
    assert (tried.accepted, tried.read) == (0, 0)
    assert stage.honest


def test_the_counters_do_count(tmp_path):
    """Last, and at a site of its own: the honest lose their sessions to themselves."""
    with Stage(make_site(tmp_path), tmp_path) as stage:
        stage.be_quiet()
        tried = control(stage)
    assert tried.accepted == 2 and tried.read > 0
