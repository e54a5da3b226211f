#!/usr/bin/env python3
# Measures what address counts cost with 1,000 nodes, and how soon the counts of 100 nodes rise. Uses a real control plane, Nodes
# without kubelets, and a controller as a process of this machine. Prints measurements; the last line is "N passed, N failed".
# Takes two minutes.
#
#   e2e/scenarios/counts.py [SCENARIO...]     default: all of them; needs make
import base64
import concurrent.futures
import datetime
import http.client
import ipaddress
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cluster import ROOT, Cluster, Failure, cpu_seconds, end_once_by_signal, resident_megabytes, until

NODES = 1000
RISING = 100  # nodes that get a second block at the same time
STARTS_PER_SECOND = 100
STARTS_PER_SECOND_MIN = 80
RISE_S = 2  # how soon the counts of RISING nodes must rise
ROUNDS = 3  # tries, because other programs of the machine may disturb one
SECONDS = 30
BLOCK = 26  # prefix length
RESOURCE = "ipam.berth.dev/ipv4"
ALLOCATABLE = {"cpu": "64", "memory": "256Gi", "pods": "250"}


class Api:
    """A client of the API server; several threads may call."""

    def __init__(self, kubeconfig: str, folder: Path):
        config = json.loads(subprocess.run(["kubectl", "--kubeconfig", kubeconfig, "config", "view", "--raw", "--minify", "-o", "json"],
                                           text=True, capture_output=True, check=True).stdout)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._host = cluster["server"].removeprefix("https://")
        self._context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        for name in ("client-certificate-data", "client-key-data"):
            (folder / name).write_bytes(base64.b64decode(user[name]))
        self._context.load_cert_chain(folder / "client-certificate-data", folder / "client-key-data")
        self._of_thread = threading.local()

    def call(self, verb: str, path: str, body: dict | None = None, kind: str = "application/json") -> dict:
        if not hasattr(self._of_thread, "connection"):
            self._of_thread.connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=60)
        connection = self._of_thread.connection
        connection.request(verb, path, json.dumps(body) if body else None, {"Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise Failure(f"{verb} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def each(self, calls: Iterable[tuple], workers: int = 8) -> None:
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(self.call, *one) for one in calls]:
                done.result()


class Numbers:
    def __init__(self, cluster: Cluster, api: Api, controller: int, log: Path):
        self._cluster, self._api, self._controller, self._log = cluster, api, controller, log

    def create_nodes(self) -> None:
        pool = self._cluster.get("ippool", "numbers")
        names = [f"node-{i:04}" for i in range(NODES)]
        self._api.each(("POST", "/api/v1/nodes", {"metadata": {"name": name}}) for name in names)
        status = {"conditions": [{"type": "Ready", "status": "True", "reason": "Made", "message": "",
                                  "lastHeartbeatTime": None, "lastTransitionTime": None}],
                  "capacity": ALLOCATABLE, "allocatable": ALLOCATABLE}
        self._api.each(("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, "application/merge-patch+json")
                       for name in names)
        self._api.each(self._block(pool, i, name) for i, name in enumerate(names))
        until("every Node shows its number", 300, lambda: self._showing(1) == NODES, pause=1)

    @staticmethod
    def _block(pool: dict, index: int, node: str) -> tuple:
        first = ipaddress.ip_network(pool["spec"]["subnet"]).network_address + (index << (32 - BLOCK))
        block = {"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPBlock",
                 "metadata": {"name": f"{first}-{BLOCK}", "finalizers": ["ipam.berth.dev/in-use"]},
                 "spec": {"space": "default", "pool": "numbers", "poolUID": pool["metadata"]["uid"], "cidr": f"{first}/{BLOCK}",
                          "node": node},
                 "used": 0, "free": 1 << (32 - BLOCK), "allocations": {}}
        return "POST", "/apis/ipam.berth.dev/v1alpha1/ipblocks", block

    def _nodes(self) -> list[dict]:
        return self._api.call("GET", "/api/v1/nodes?resourceVersion=0")["items"]

    def _showing(self, blocks: int) -> int:
        """How many Nodes show the addresses of `blocks` blocks. No pod gets the subnet's first address."""
        least = blocks * (1 << (32 - BLOCK)) - 1
        return sum(int(node["status"].get("allocatable", {}).get(RESOURCE, 0)) >= least for node in self._nodes())

    def pods_that_come_and_go_cost_little_and_patch_no_node(self) -> str:
        versions = {node["metadata"]["name"]: node["metadata"]["resourceVersion"] for node in self._nodes()}
        before, began, changes = cpu_seconds(self._controller), time.monotonic(), 0
        stop = began + SECONDS
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            while (now := time.monotonic()) < stop:
                # Starts the pods that are due by now, spread over all nodes.
                due = int((now - began) * STARTS_PER_SECOND)
                list(pool.map(self._come_and_go, range(changes // 2, due)))
                changes = 2 * max(due, changes // 2)
                time.sleep(0.02)
        took = time.monotonic() - began
        spent = 1000 * (cpu_seconds(self._controller) - before) / changes
        resident = resident_megabytes(self._controller)
        patched = [node["metadata"]["name"] for node in self._nodes()
                   if versions[node["metadata"]["name"]] != node["metadata"]["resourceVersion"]]
        said = (f"{changes / 2 / took:.0f} starts and ends of pods a second on {NODES} nodes; {spent:.2f} ms of the controller's CPU time "
                f"each; resident {resident:.0f} MB; {len(patched)} Nodes patched")
        if patched or resident >= 300 or spent > 2 or changes / 2 / took < STARTS_PER_SECOND_MIN:
            raise Failure(said)
        return said

    def _last_write(self) -> float:
        """When the controller last wrote an address count. Its log says so without requests that would disturb it."""
        lines = [line for line in self._log.read_text().splitlines() if "address counts of a Node written" in line]
        return datetime.datetime.fromisoformat(lines[-1].split(" ")[0]).timestamp()

    def _come_and_go(self, number: int) -> None:
        name = f"pod-{number}"
        units = {"requests": {RESOURCE: "1"}, "limits": {RESOURCE: "1"}}
        self._api.call("POST", "/api/v1/namespaces/default/pods", {
            "metadata": {"name": name},
            "spec": {"nodeName": f"node-{number % NODES:04}", "automountServiceAccountToken": False,
                     "containers": [{"name": "one", "image": "none", "resources": units}]}})
        self._api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")

    def numbers_of_a_hundred_nodes_rise_at_once(self) -> str:
        pool = self._cluster.get("ippool", "numbers")
        seen = []
        for number in range(1, ROUNDS + 1):
            indexes = range((number - 1) * RISING, number * RISING)
            calls = [self._block(pool, NODES + i, f"node-{i:04}") for i in indexes]
            # Nothing shows when the controller may write a burst of Nodes again. It may after 5 s, and change a count after 10 s.
            time.sleep(11)
            began = time.time()
            self._api.each(calls)
            created = time.time()
            until("they show both blocks", 30, lambda: self._showing(2) == indexes.stop, pause=1)
            took = self._last_write() - created
            seen.append(f"{RISING} blocks created in {created - began:.2f} s; all Nodes show them {took:.2f} s after the last")
            if took <= RISE_S:
                return "; ".join(seen)
        raise Failure("; ".join(seen))


SCENARIOS: tuple[Callable[[Numbers], str], ...] = (Numbers.pods_that_come_and_go_cost_little_and_patch_no_node,
                                                   Numbers.numbers_of_a_hundred_nodes_rise_at_once)


def main() -> int:
    end_once_by_signal()
    names = sys.argv[1:]
    chosen = [one for one in SCENARIOS if not names or one.__name__ in names]
    if unknown := set(names) - {one.__name__ for one in SCENARIOS}:
        print(f"there is no scenario {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    failed = len(chosen)
    with tempfile.TemporaryDirectory(prefix="berth-numbers.") as text:
        folder = Path(text)
        cluster = Cluster(text + "/c", nodes=0)
        process = None
        try:
            run_up(cluster)
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(
                {"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "numbers"},
                 "spec": {"subnet": "10.0.0.0/12", "blockSize": BLOCK}}))
            with (folder / "controller.log").open("w") as log:
                process = subprocess.Popen([str(ROOT / "build" / "bin" / "berth-controller"), "--kubeconfig", cluster.kubeconfig],
                                           stdout=log, stderr=log)
            cluster.kubectl("wait", "--for=condition=Ready", "ippool/numbers", "--timeout=60s")
            numbers = Numbers(cluster, Api(cluster.kubeconfig, folder), process.pid, folder / "controller.log")
            numbers.create_nodes()
            failed = 0
            for scenario in chosen:
                name = scenario.__name__.replace("_", " ")
                try:
                    print(f"ok      {name}: {scenario(numbers)}", flush=True)
                except Failure as failure:
                    failed += 1
                    print(f"FAILED  {name}: {failure}", flush=True)
        except Failure as failure:
            print(f"FAILED  the Nodes are not there: {failure}", flush=True)
        finally:
            if process:
                process.kill()
                process.wait()
                if failed:
                    print((folder / "controller.log").read_text()[-3000:], file=sys.stderr)
            cluster.down()
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def run_up(cluster: Cluster) -> None:
    cluster.up()
    cluster.kubectl("apply", "-k", str(ROOT / "crds"))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/name=berth", "--timeout=60s")
    cluster.kubectl("create", "namespace", "berth-system")
    until("pods may be created", 30, lambda: cluster.kubectl("get", "serviceaccount", "default"))
    # The controller manager would treat the Nodes as lost, because no kubelet reports.
    cluster.tool("stop", "kube-controller-manager")


if __name__ == "__main__":
    sys.exit(main())
