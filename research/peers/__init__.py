"""Methods to compare with, which a trusted curator runs on all sensors at once."""
