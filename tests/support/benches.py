"""Runs of the benchmarks with times of our choice."""

from research.bench.results import Contest, Machine, Run, Timed


def timed(name, *clock):
    return Timed(name=name, clock=clock, processor=clock)


def contest(ours=(1.0, 1.1, 0.9), peer=(2.0, 2.2, 1.8), **more):
    options = {"name": "pass", "title": "One pass", "size": "small", "unit": "s", "factor": 1.0}
    options |= {"ours": "ours", "yardstick": "peer"} | more
    return Contest(times=(timed("ours", *ours), timed("peer", *peer)), **options)


def run_of(*contests, version="0.1.0"):
    machine = Machine(cores=2, python="3.12.0", versions={"numpy": "2.0.0"})
    return Run(discreet=version, quick=True, machine=machine, contests=contests)
