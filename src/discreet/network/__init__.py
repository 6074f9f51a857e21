"""The network: sensors, broker, fusion centre, storage and dashboard of one site."""
