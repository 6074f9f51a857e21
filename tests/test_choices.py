import pytest

from discreet import choices
from discreet.design.kernels import ProductKernel
from discreet.design.losses import LogisticLoss


@pytest.mark.parametrize("names", ["METHODS", "KERNELS", "LOSSES", "TARGETS"])
def test_every_name_stands_for_something_of_its_own(names):
    offered = getattr(choices, names)
    assert len({id(each) for each in offered.values()}) == len(offered) > 2


def test_a_name_is_what_it_says():
    assert choices.KERNELS["product"] is ProductKernel
    assert isinstance(choices.LOSSES["logistic"], LogisticLoss)
    assert all(loss.name == name for name, loss in choices.LOSSES.items())
    with pytest.raises(KeyError):
        choices.METHODS["magic"]
