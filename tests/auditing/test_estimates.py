import numpy as np
import pytest

from discreet.auditing.findings import plug_in_epsilon


def brute_force(symbols, index):
    n, best = len(index), 0.0
    outputs = [tuple(row) for row in symbols.tolist()]
    for z in set(outputs):
        for g in set(index.tolist()):
            both = sum(o == z and k == g for o, k in zip(outputs, index.tolist(), strict=True)) / n
            if both:
                alone = outputs.count(z) / n * (index == g).mean()
                best = max(best, abs(np.log(both / alone)))
    return best


def test_it_is_the_papers_estimate(rng):
    symbols, index = rng.integers(3, size=(80, 2)), rng.integers(3, size=80)
    found = plug_in_epsilon(symbols, index, 3, rng)
    assert found.value == pytest.approx(brute_force(symbols, index))
    assert found.outputs_seen == len({tuple(row) for row in symbols.tolist()})


def test_outputs_seen_once_show_a_large_epsilon_whatever_the_mapping_does(rng):
    """MATH 5.5: ln(1 / min p(g)), which is why the estimate never stands alone."""
    symbols = np.array([[(i >> t) & 1 for t in range(6)] for i in range(64)])  # all different
    index = np.arange(64) % 2
    found = plug_in_epsilon(symbols, index, 2, rng)
    assert found.value == pytest.approx(np.log(2))
    assert found.null_low == pytest.approx(np.log(2))
    assert not found.beyond_chance


def test_a_private_mapping_stays_within_the_range_of_chance(rng):
    """MATH 5.5: 32 outputs, 2100 rows, 0.34 to 1.31 by chance alone."""
    inside, lows, highs = 0, [], []
    for _ in range(40):
        symbols, index = rng.integers(2, size=(2100, 5)), rng.integers(5, size=2100)
        found = plug_in_epsilon(symbols, index, 5, rng)
        inside += found.null_low <= found.value <= found.null_high
        lows.append(found.null_low)
        highs.append(found.null_high)
    assert 0.3 < np.mean(lows) < np.mean(highs) < 1.4
    # 90 % promised; of 40 trials at least 30 with probability 0.995 (binomial).
    assert inside >= 30


def test_a_leak_shows_beyond_chance(rng):
    index = rng.integers(2, size=1000)
    symbols = np.where(rng.random(1000) < 0.9, index, 1 - index)[:, None]
    found = plug_in_epsilon(symbols, index, 2, rng)
    assert found.beyond_chance
    assert "no bound" in found.words() and "more than chance" in found.words()


def test_many_sensors_do_not_overflow(rng):
    symbols, index = rng.integers(2, size=(50, 200)), rng.integers(2, size=50)
    assert plug_in_epsilon(symbols, index, 2, rng).outputs_seen == 50
