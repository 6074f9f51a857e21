"""The network (stage 7): sensors, broker, fusion centre, storage and dashboard of one site."""
