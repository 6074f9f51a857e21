"""SIGKILL of sensors, broker and fusion centre at random moments under traffic."""

import random
import time

from network_figures.home import Home, wait_until


def survive_kills(folder, kills, pause=(0.2, 1.2), sensors=3, seed=None, say=lambda _: None):
    """Kill each part so many times, then let everything be delivered; return the tally."""
    chance = random.Random(seed)
    with Home(folder, sensors=sensors) as home:
        wait_until(lambda: home.count_stored() > 5 * sensors, 60, "traffic")
        turns = [part for part in ("sensor", "broker", "fusion") for _ in range(kills)]
        chance.shuffle(turns)
        for i, part in enumerate(turns):
            time.sleep(chance.uniform(*pause))
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
