"""For Linux gateways: ``discreet_sensor`` needs Python alone, ``discreet_gateway`` is fast."""
