"""The network: sensors to broker to fusion centre to dashboard (stage 7)."""
