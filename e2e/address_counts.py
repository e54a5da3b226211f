#!/usr/bin/env python3
# Compares the address counts that Nodes show with the blocks, pools and pods (docs/scheduling.md, "How the number is computed").
# Computes all counts from the objects, without berth's code. Prints a line for each problem, and nothing if all is right. A
# controller needs some seconds after each change, so callers repeat the program until it prints nothing.
#
#   kubectl get nodes,pods,ippools,ipblocks --all-namespaces -o json | e2e/address_counts.py [NODE...]
#
# NODE: a node that is switched off. Its Node may be missing, not Ready or without address counts, but must not show too much.
import ipaddress
import json
import sys
import time
from collections import defaultdict

PREFIX = "ipam.berth.dev/"


def is_true(thing: dict, condition: str) -> bool:
    return any(one["type"] == condition and one["status"] == "True" for one in thing.get("status", {}).get("conditions", []))


class Pool:
    def __init__(self, pool: dict):
        spec = pool["spec"]
        self._subnet = ipaddress.ip_network(spec["subnet"])
        self._ranges = [bounds(text) for text in spec.get("ranges") or [spec["subnet"]]]
        self._exclude = [bounds(text) for text in spec.get("exclude", [])]
        self._exclude += [bounds(spec["gateway"])] if "gateway" in spec else []
        if self._subnet.num_addresses > 2 and not spec.get("allowEdgeAddresses"):
            self._exclude += [(edge, edge) for edge in (self._subnet[0], self._subnet[-1])]
        self.resource = PREFIX + spec.get("resource", f"ipv{self._subnet.version}")
        self._labels = spec.get("nodeSelector", {}).get("matchLabels", {})
        self._counts = (spec.get("affinity", "Node") == "Node" and not spec.get("disabled") and is_true(pool, "Ready")
                        and "deletionTimestamp" not in pool["metadata"])
        self.is_scarce = is_true(pool, "Scarce")

    def counts_for(self, node: dict) -> bool:
        labels = node["metadata"].get("labels", {})
        return self._counts and all(labels.get(key) == value for key, value in self._labels.items())

    def gives(self, address) -> bool:
        return (any(first <= address <= last for first, last in self._ranges)
                and not any(first <= address <= last for first, last in self._exclude))


def bounds(text: str) -> tuple:
    """The first and the last address of a range."""
    if "-" in text:
        return tuple(ipaddress.ip_address(part) for part in text.split("-"))
    network = ipaddress.ip_network(text)
    return network[0], network[-1]


class Tally:
    """The addresses of one resource on one node."""

    def __init__(self):
        self.is_counted = False  # a pool of the resource counts for the node
        self.usable = self.held = self.requested = 0
        self.leaving = 0  # of the usable addresses: those in empty blocks that another node may get

    def __str__(self) -> str:
        return f"{self.usable} free + {self.held} held, pods request {self.requested}"


def requests_of(pod: dict) -> dict[str, int]:
    units: dict[str, int] = defaultdict(int)
    for container in pod["spec"]["containers"]:
        for resource, value in container.get("resources", {}).get("requests", {}).items():
            if resource.startswith(PREFIX):
                units[resource] += int(value)
    return units


def is_unschedulable(pod: dict) -> bool:
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in pod["status"].get("conditions", []))


class Cluster:
    def __init__(self, objects: list[dict]):
        def of(kind: str) -> list[dict]:
            return [one for one in objects if one["kind"] == kind]

        self.nodes = {node["metadata"]["name"]: node for node in of("Node")}
        self.pods = of("Pod")
        self.pools = {pool["metadata"]["uid"]: Pool(pool) for pool in of("IPPool")}
        self.tallies: dict[tuple, Tally] = defaultdict(Tally)
        for name, node in self.nodes.items():
            for pool in self.pools.values():
                if pool.counts_for(node):
                    self.tallies[name, pool.resource].is_counted = True
        held = self._count_blocks(of("IPBlock"))
        for pod in self.pods:
            self._count_pod(pod, held)

    def _count_blocks(self, blocks: list[dict]) -> dict[str, list]:
        """Counts free addresses. Returns the held addresses by the name of the pod: UID, resource, node, address."""
        wanted = {resource for pod in self.pods if "nodeName" not in pod["spec"] for resource in requests_of(pod)}
        held = defaultdict(list)
        for block in blocks:
            pool = self.pools.get(block["spec"]["poolUID"])
            if not pool:
                continue
            node, entries = block["spec"].get("node", ""), block["allocations"]
            network = ipaddress.ip_network(block["spec"]["cidr"])
            of_pods = {offset: entry.split(" ") for offset, entry in entries.items() if entry[0] not in "~!"}
            for offset, (pod, uid, *_) in of_pods.items():
                held[pod].append((uid, pool.resource, node, str(network[int(offset)])))
            if "deletionTimestamp" in block["metadata"] or node not in self.nodes or not pool.counts_for(self.nodes[node]):
                continue
            usable = sum(pool.gives(address) and is_free(entries.get(str(offset))) for offset, address in enumerate(network))
            tally = self.tallies[node, pool.resource]
            tally.usable += usable
            if not of_pods and (pool.is_scarce or pool.resource in wanted):
                tally.leaving += usable
        return held

    def _count_pod(self, pod: dict, held: dict[str, list]) -> None:
        meta, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node or pod["status"]["phase"] in ("Succeeded", "Failed"):
            return
        uids = (meta["uid"], meta.get("annotations", {}).get("kubernetes.io/config.hash"))
        addresses = [one["ip"] for one in pod["status"].get("podIPs", [])]
        for resource, units in requests_of(pod).items():
            has = sum(of == resource and (uid in uids or (where == node and address in addresses))
                      for uid, of, where, address in held[f"{meta['namespace']}/{meta['name']}"])
            self.tallies[node, resource].requested += units
            self.tallies[node, resource].held += min(units, has)

    def problems(self, off: set[str]):
        for name in self.nodes.keys() - off:
            if not is_true(self.nodes[name], "Ready"):
                yield f"{name} is not Ready"
        for pod in self.pods:
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if not node and not is_unschedulable(pod):
                yield f"the scheduler has not decided about {name}"
            if node and node in self.nodes.keys() - off and "deletionTimestamp" in pod["metadata"]:
                yield f"{name} has not ended"
        shown = {(name, resource) for name, node in self.nodes.items() for resource in node["status"].get("allocatable", {})
                 if resource.startswith(PREFIX)}
        for name, resource in sorted(shown | self.tallies.keys()):
            if name in self.nodes and (why := self._problem_of(name, resource, name in off)):
                yield f"{name} shows {why} of {resource}: {self.tallies[name, resource]}"

    def _problem_of(self, name: str, resource: str, is_off: bool) -> str:
        tally, status = self.tallies[name, resource], self.nodes[name]["status"]
        numbers = {status.get(part, {}).get(resource) for part in ("capacity", "allocatable")}
        if len(numbers) > 1:
            return " and ".join(str(number) for number in numbers)
        number = numbers.pop()
        highest = tally.usable + tally.held
        lowest = highest - tally.leaving
        if number is None:
            should_show = lowest >= tally.requested and (tally.is_counted or tally.held > 0)
            return "no number" if should_show and not is_off else ""
        if not tally.is_counted and tally.held == 0:
            return f"{number}, and no pool counts there,"
        is_right = max(tally.requested, 0 if is_off else lowest) <= int(number) <= highest
        return "" if is_right else number


def is_free(entry: str | None) -> bool:
    """No entry, or that of a cooling address whose time is over."""
    return entry is None or (entry.startswith("~ t=") and int(entry.split(" ")[1][2:]) <= time.time() * 1000)


def main() -> int:
    cluster = Cluster(json.load(sys.stdin)["items"])
    for problem in cluster.problems(off=set(sys.argv[1:])):
        print(problem)
    return 0


if __name__ == "__main__":
    sys.exit(main())
