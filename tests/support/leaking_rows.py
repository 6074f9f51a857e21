"""Rows of which it is known what they leak, and tables to send them by."""

import numpy as np

from discreet.data.columns import Labels
from discreet.design.training_rows import Sample

CHANCES = np.array([0.35, 0.5, 0.65])  # that a sensor reads one, in each of three states
STATES = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1 / 3, 1 / 3, 1 / 3]])  # of each class
SENSORS = 11


def draw(n_rows, leak, rng, n_sensors=4, n_classes=2):
    """Rows whose codes lean to the private class by ``leak``; one of the sensors is a copy."""
    g = rng.integers(n_classes, size=n_rows)
    h = rng.integers(2, size=n_rows)
    codes = rng.integers(3, size=(n_rows, n_sensors))
    moved = rng.random((n_rows, n_sensors)) < leak
    codes[moved] = np.repeat(g[:, None] % 3, n_sensors, axis=1)[moved]
    codes[:, -1] = codes[:, 0]
    names = tuple(map(str, range(n_classes)))
    facts = Labels("h", h, ("0", "1")), (Labels("g", g, names),)
    return Sample(codes, (3,) * n_sensors, *facts)


def tables(n_sensors, rng):
    one = 0.1 + 0.8 * rng.random((n_sensors, 3))
    return [np.stack([1 - each, each], axis=1) for each in one]


def days(sizes, leak, rng, lean=1.5):
    """Rows in groups of these sizes, each of which leans to some codes of its own."""
    part = draw(sum(sizes), leak, rng)
    day = np.repeat(np.arange(len(sizes)), sizes)
    liked = rng.integers(3, size=(len(sizes), 4))
    moved = rng.random(part.codes.shape) < lean * rng.random(len(sizes))[day, None] / 2
    part.codes[moved] = liked[day][moved]
    return part, day


def moved_without_a_group(shown, own, groups):
    """The slow twin: every mean computed anew without each group, less the mean of all."""
    means = np.stack([shown[rows].mean(axis=0) for rows in own])
    found = []
    for d in np.unique(groups):
        moves = np.zeros_like(means)
        for k, rows in enumerate(own):
            inside, count = groups[rows] == d, len(np.unique(groups[rows]))
            if inside.any():
                without = shown[rows[~inside]].mean(axis=0)
                moves[k] = np.sqrt((count - 1) / count) * (without - means[k])
        found.append(((moves - moves.mean(axis=0)) / np.sqrt(len(own))).ravel())
    return np.array(found)


def hidden(n_rows, rng, n_classes=2):
    """Sensors that all follow a state: in the middle for one class, on either side for another.

    No symbol is more frequent in a class, and no pair of symbols tells much.
    """
    h, g = rng.integers(2, size=n_rows), rng.integers(n_classes, size=n_rows)
    state = (rng.random((n_rows, 1)) > STATES[g].cumsum(axis=1)[:, :-1]).sum(axis=1)
    codes = (rng.random((n_rows, SENSORS)) < CHANCES[state][:, None]).astype(np.int64)
    facts = Labels("h", h, range(2)), (Labels("g", g, range(n_classes)),)
    return Sample(codes, (2,) * SENSORS, *facts)


def noisy(kept, n_symbols=2):
    return [kept * np.eye(n_symbols) + (1 - kept) / n_symbols] * SENSORS


def in_parts(sample, cut):
    return sample.take(slice(cut)), sample.take(slice(cut, len(sample.codes)))
