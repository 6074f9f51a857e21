"""Sensors behind a bad line: packets are lost and late, and for some time none comes through.

The sensors run in a network namespace of their own. Its only way out is a pair of TUN devices,
and what goes from one to the other goes through this process, which drops and delays packets. So
TCP and TLS meet a real bad network, in a kernel without the netem module as well.
"""

import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time

import numpy as np

from discreet.network.store import open_reader
from support.network_figures.home import Home, wait_until

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def why_no_namespaces():
    """Return the reason to skip, or None."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if shutil.which("ip") is None:
        return "the command ip is missing (Debian: iproute2)"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    return None


class BadLine:
    """A namespace behind a bad line; ``prefix`` runs a command in it.

    Parameters
    ----------
    loss : float
        Share of packets lost, each way.
    delay : float
        Seconds that a packet takes, each way.
    """

    def __init__(self, loss, delay):
        self.loss, self.delay, self.cut = loss, delay, False
        self._tag = f"dsc{os.getpid() % 100000}"
        number = random.randrange(16, 250)
        self.host, self._far = f"10.{number}.7.1", f"10.{number}.7.2"
        self.prefix = ["ip", "netns", "exec", self._tag]
        self._stop = threading.Event()

    def __enter__(self):
        self._ends = [_make_tun(f"{self._tag}a"), _make_tun(f"{self._tag}b")]
        near, far = f"{self._tag}a", f"{self._tag}b"
        _ip("netns", "add", self._tag)
        _ip("link", "set", far, "netns", self._tag)
        _ip("addr", "add", self.host, "peer", self._far, "dev", near)
        _ip("link", "set", near, "up")
        for words in (
            ("addr", "add", self._far, "peer", self.host, "dev", far),
            ("link", "set", far, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self._tag, *words)
        self._thread = threading.Thread(target=self._forward)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        for end in self._ends:
            os.close(end)
        _ip("netns", "del", self._tag)

    def _forward(self):
        chance, waiting, count = random.Random(), [], 0
        while not self._stop.is_set():
            pause = min(0.1, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.1
            readable, _, _ = select.select(self._ends, [], [], pause)
            now = time.monotonic()
            for end in readable:
                packet = os.read(end, 65536)
                if not self.cut and chance.random() >= self.loss:
                    other = self._ends[1 - self._ends.index(end)]
                    count += 1
                    heapq.heappush(waiting, (now + self.delay, count, other, packet))
            while waiting and waiting[0][0] <= now:
                _, _, other, packet = heapq.heappop(waiting)
                os.write(other, packet)


def _make_tun(name):
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return handle


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def survive_bad_network(
    folder, seconds, loss=0.3, delay=0.25, partitions=2, sensors=3, interval=1.0, deadline=5.0
):
    """Return the tally, and seconds from the end of rounds to messages and to decisions."""
    with BadLine(loss, delay) as line:
        home = Home(
            folder,
            sensors=sensors,
            interval=interval,
            deadline=deadline,
            prefix=line.prefix,
            host=line.host,
        )
        with home:
            wait_until(lambda: home.count_stored() > sensors, "traffic")
            for i in range(2 * partitions + 1):
                line.cut = i % 2 == 1
                time.sleep(seconds / (2 * partitions + 1))
            line.cut = False
            home.settle(seconds=300)
            return home.tally(), *_delays(home)


def _delays(home):
    site = home.settings
    reader = open_reader(site.database, home.site, site.key)
    store_rows = reader._base.query("SELECT round, received FROM messages")
    decisions = reader.decisions(limit=10**6)
    reader.close()
    ends = site.epoch + site.interval
    messages = np.array([received - ends - site.interval * n for n, received in store_rows])
    decided = np.array([each.closed - ends - site.interval * each.round for each in decisions])
    return messages, decided
