"""discreet-sensor, with a tenth of the acknowledgements lost on the way.

The file CLOCK, if it is there, holds the seconds by which its clock is ahead.
"""

import os
import random
import sys
import time

from discreet_sensor import courier
from discreet_sensor.__main__ import main

decode = courier.decode_acknowledgement
true_time, clock = time.time, os.environ["CLOCK"]


def wrong_time():
    if not os.path.exists(clock):
        return true_time()
    with open(clock) as stream:
        return true_time() + float(stream.read())


def lossy(*arguments):
    if random.random() < 0.1:
        return []
    return decode(*arguments)


time.time = wrong_time
courier.decode_acknowledgement = lossy
sys.exit(main())
