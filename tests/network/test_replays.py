from replays import replayed
from sites import needs_mosquitto


@needs_mosquitto
def test_a_capture_played_back_is_stored_by_nobody(tmp_path):
    tried, reasons = replayed(tmp_path, 20)
    assert tried.attempts == 7 * 20 and tried.accepted == 0
    # Each way was judged by somebody: this is no test of messages that never arrived.
    assert reasons["door", "mac"] == 20  # the topic is part of what is signed
    assert reasons["hall", "mac"] == 20  # a number cannot be changed
    assert (
        reasons["hall", "replay"] == 60
    )  # the third time by a fusion centre that was started anew
