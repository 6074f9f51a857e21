"""discreet-sensor, with a tenth of the acknowledgements lost on the way."""

import random
import sys

from discreet_sensor import courier
from discreet_sensor.__main__ import main

decode = courier.decode_acknowledgement


def lossy(*arguments):
    if random.random() < 0.1:
        return []
    return decode(*arguments)


courier.decode_acknowledgement = lossy
sys.exit(main())
