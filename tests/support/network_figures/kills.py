"""SIGKILL of sensors, broker and fusion centre at random moments under traffic."""

import random
import time

from support.network_figures.home import Home, wait_until


def survive_kills(folder, kills, sensors=3, seed=None, say=lambda _: None):
    """Kill each part so many times, then let everything be delivered; return the tally.

    Between two kills messages must have got through, so that each one meets traffic.
    """
    chance = random.Random(seed)
    with Home(folder, sensors=sensors) as home:
        turns = [part for part in ("sensor", "broker", "fusion") for _ in range(kills)]
        chance.shuffle(turns)
        for i, part in enumerate(turns):
            before = home.count_stored()
            wait_until(lambda before=before: home.count_stored() > before, "traffic")
            time.sleep(chance.uniform(0.0, 1.0))
            _kill(home, part, chance)
            if i % 10 == 9:
                say(f"{i + 1} of {len(turns)} kills, {home.count_stored()} messages stored")
        home.settle()
        return home.tally()


def _kill(home, part, chance):
    if part == "broker":
        home.broker.kill()
        time.sleep(chance.uniform(0, 0.3))
        home.broker.start()
    elif part == "fusion":
        home.kill("fusion")
        home.start_fusion()
    else:
        name = chance.choice(home.names)
        home.kill(name)
        home.start_sensor(name)
