"""For Linux gateways: many readings at once; ``discreet_sensor.runtime`` needs Python alone."""
