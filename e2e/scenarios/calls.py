"""Callers: one after another, ADD and DEL through the node's own berth, as its runtime does, and how long each took."""
import json
import os
import subprocess
import threading
import time

from cluster import Cluster, Failure, Node

TRY_AGAIN = 11
# A runtime gives a sandbox up after so long, and the kubelet makes a new one.
GIVE_UP_SECONDS = 120


class Caller(threading.Thread):
    """Until `stop`. An ADD that is told to come again does so: its time is that until it has an address."""

    def __init__(self, node: Node):
        super().__init__(name=f"caller-{node.name}")
        self.node = node
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self._stop_requested = threading.Event()
        conflist = next(iter(sorted((node.home / "cni-conf").glob("*.conflist"))))
        network = json.loads(conflist.read_text())
        self._stdin = json.dumps({"cniVersion": network["cniVersion"], "name": "calls", "type": "bridge",
                                  "ipam": network["plugins"][0]["ipam"]})

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def run(self) -> None:
        number = 0
        while not self._stop_requested.is_set() and not self.problems:
            number += 1
            container = f"{self.name}-{os.getpid()}-{number}"
            started = time.monotonic()
            self._call_until_done("ADD", container)
            self.seconds.append(time.monotonic() - started)
            self._call_until_done("DEL", container)
            self._stop_requested.wait(0.05)

    def _call_until_done(self, verb: str, container: str) -> None:
        end = time.monotonic() + GIVE_UP_SECONDS
        while True:
            done = subprocess.run(self.node.inside("/opt/cni/bin/berth"), input=self._stdin, text=True,
                                  capture_output=True, check=False,
                                  env={"CNI_COMMAND": verb, "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0",
                                       "CNI_NETNS": "/proc/1/ns/net", "CNI_PATH": "/opt/cni/bin", "PATH": os.environ["PATH"]})
            if done.returncode == 0:
                return
            error = json.loads(done.stdout or "{}")
            if error.get("code") != TRY_AGAIN or time.monotonic() > end:
                self.problems.append(f"{verb} on {self.node.name}: {done.stdout.strip() or done.stderr.strip()}")
                return
            time.sleep(0.1)


class Callers:
    """One on each node, for as long as the block lasts."""

    def __init__(self, cluster: Cluster):
        self._callers = [Caller(node) for node in cluster.nodes]

    def __enter__(self) -> "Callers":
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.stop()

    def count(self) -> int:
        return sum(len(caller.seconds) for caller in self._callers)

    def p99(self) -> float:
        """Of all ADDs so far, which none may have failed."""
        problems = [problem for caller in self._callers for problem in caller.problems]
        if problems:
            raise Failure("; ".join(problems))
        seconds = sorted(second for caller in self._callers for second in caller.seconds)
        if len(seconds) < 100:
            raise Failure(f"only {len(seconds)} ADDs: too few to tell")
        return seconds[int(len(seconds) * 0.99)]
