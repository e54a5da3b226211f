"""Callers: run an ADD and a DEL again and again with the node's own berth, as its runtime does, and measure each ADD."""
import json
import os
import subprocess
import threading
import time

from cluster import Cluster, Failure, Node

TRY_AGAIN = 11
# After this time a runtime gives up a sandbox, and the kubelet makes a new one.
GIVE_UP_SECONDS = 120


class Runtime:
    """Calls a node's `berth` for containers that do not exist."""

    def __init__(self, node: Node):
        self.node = node
        self.tried_again = 0  # number of calls that berth answered with "try again"
        conflist = next(iter(sorted((node.home / "cni-conf").glob("*.conflist"))))
        network = json.loads(conflist.read_text())
        self._stdin = json.dumps({"cniVersion": network["cniVersion"], "name": "calls", "type": "bridge",
                                  "ipam": network["plugins"][0]["ipam"]})

    def call(self, verb: str, container: str) -> set[str]:
        """Repeats the call while berth answers "try again". Returns the addresses in the result."""
        end = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                done = subprocess.run(self.node.inside("/opt/cni/bin/berth"), input=self._stdin, text=True,
                                      capture_output=True, check=False, timeout=GIVE_UP_SECONDS,
                                      env={"CNI_COMMAND": verb, "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0",
                                           "CNI_NETNS": "/proc/1/ns/net", "CNI_PATH": "/opt/cni/bin",
                                           "PATH": os.environ["PATH"]})
                answer = json.loads(done.stdout or "{}")
            except (ValueError, subprocess.TimeoutExpired) as error:
                raise Failure(f"{verb} on {self.node.name}: {error!r}") from error
            if done.returncode == 0:
                return {one["address"].split("/")[0] for one in answer.get("ips", [])}
            if answer.get("code") != TRY_AGAIN or time.monotonic() > end:
                raise Failure(f"{verb} on {self.node.name}: {done.stdout.strip() or done.stderr.strip()}")
            self.tried_again += 1
            time.sleep(0.1)


class Caller(threading.Thread):
    """Runs until `stop`. The time of an ADD includes its repetitions, until it has an address."""

    def __init__(self, node: Node):
        super().__init__(name=f"caller-{node.name}")
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self.runtime = Runtime(node)
        self._stop_requested = threading.Event()

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def run(self) -> None:
        number = 0
        try:
            while not self._stop_requested.wait(0.05):
                number += 1
                container = f"{self.name}-{os.getpid()}-{number}"
                started = time.monotonic()
                self.runtime.call("ADD", container)
                self.seconds.append(time.monotonic() - started)
                self.runtime.call("DEL", container)
        except Exception as error:  # a caller that has ended must not look like a caller whose calls succeeded
            self.problems.append(str(error) if isinstance(error, Failure) else repr(error))


class Callers:
    """One caller on each node, until the end of the `with` block."""

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

    def tried_again(self) -> int:
        """How many ADDs and DELs berth answered with "try again"."""
        return sum(caller.runtime.tried_again for caller in self._callers)

    def p99(self) -> float:
        """The 99th percentile of the times of all ADDs so far. Raises Failure if a call has failed."""
        problems = [problem for caller in self._callers for problem in caller.problems]
        if problems:
            raise Failure("; ".join(problems))
        seconds = sorted(second for caller in self._callers for second in caller.seconds)
        if len(seconds) < 100:
            raise Failure(f"only {len(seconds)} ADDs: too few to tell")
        return seconds[int(len(seconds) * 0.99)]
