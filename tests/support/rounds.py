"""Slow and obvious twins of the accountant: every sequence of symbols, of facts and of codes."""

import itertools

import numpy as np

from discreet.leakage.chains import Chain

HALF = np.array([[0.52, 0.48], [0.48, 0.52]])
"""The table of the examples: advantage 0.020 in one round."""


def skewed_chain(share, stay):
    """The stationary chain with this share of class 1 and this stay probability in it."""
    return Chain.of_stay([1 - (1 - stay) * share / (1 - share), stay], [0.5, 0.5])


def random_law(rng, outputs=None, classes=2):
    """A law of a round, sometimes sharp and sometimes with outputs that a class never sends."""
    outputs = outputs or int(rng.integers(2, 4))
    given = rng.dirichlet(np.full(outputs, rng.choice([0.2, 1.0, 5.0])), classes)
    if rng.random() < 0.1:
        given[0, 0] = 0.0
    return given / given.sum(axis=1, keepdims=True)


def law_of_sequences(given, chain, n, at=None):
    """p(all symbols | fact of a round, the middle one), classes x sequences, class by class."""
    at = n // 2 if at is None else at
    classes, outputs = given.shape
    found = []
    for middle in range(classes):
        reached = chain.prior[None, :]
        for t in range(n):
            reached = reached if t == 0 else reached @ chain.moves
            reached = (reached[:, None, :] * given.T[None]).reshape(-1, classes)
            if t == at:
                reached = reached * (np.arange(classes) == middle)
        found.append(reached.sum(axis=1) / chain.prior[middle])
    return np.array(found).reshape(classes, outputs**n)


def law_of_remembered(table, chain, n, period, code_law):
    """The same for one sensor that keeps the symbol of a code for a period, path by path."""
    classes, codes = code_law.shape
    found = np.zeros((classes, *(table.shape[1],) * n))
    for facts in itertools.product(range(classes), repeat=n):
        chance = chain.prior[facts[0]]
        chance *= np.prod([chain.moves[a, b] for a, b in itertools.pairwise(facts)])
        for read in itertools.product(range(codes), repeat=n):
            seen = chance * np.prod([code_law[g, x] for g, x in zip(facts, read, strict=True)])
            for sent in itertools.product(range(table.shape[1]), repeat=n):
                drawn, draws = {}, 1.0
                for t, (x, z) in enumerate(zip(read, sent, strict=True)):
                    if (t // period, x) not in drawn:
                        draws *= table[x, z]
                    draws *= drawn.setdefault((t // period, x), z) == z
                found[(facts[n // 2], *sent)] += seen * draws / chain.prior[facts[n // 2]]
    return found.reshape(classes, -1)
