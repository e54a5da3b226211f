"""A witness: each second compares the addresses in the network namespaces of pods, also of pods that end, with the entries in
the API server. The witness asks neither berth's programs nor the kubelets.
"""
import contextlib
import ctypes
import http.client
import ipaddress
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import credentials
from cluster import NETNS_OF_SANDBOXES, Cluster, Failure, Node

CLONE_NEWNET = 0x40000000
OWN_IPV4 = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")
# When a sandbox ends, its addresses are freed first, and its interface is deleted a moment later.
END_OF_SANDBOX_SECONDS = 5
# An agent writes the entry of an answered address a moment later, or after the end of an outage.
WRITTEN_SECONDS = 30

Place = tuple[str, str]  # a node and the name of a network namespace


class Witness(threading.Thread):
    """Watches during a `with` block. The end of the block raises Failure if the witness has seen an address in two network
    namespaces, an address that was freed and is still in its namespace, or an address without an entry."""

    def __init__(self, cluster: Cluster, *, may_see_duplicates: bool = False):
        super().__init__(name="witness")
        self.problems: list[str] = []
        self.duplicates: dict[str, float] = {}  # addresses that are in two namespaces now, and since when
        self.all_duplicates: set[str] = set()  # addresses that were ever in two namespaces
        self.count = 0
        self._cluster = cluster
        self._may_see_duplicates = may_see_duplicates
        self._credentials = credentials.of_admin(cluster)
        self._stop_requested = threading.Event()
        self._recorded: set[tuple[Place, str]] = set()
        self._missing_since: dict[tuple[Place, str], float] = {}

    def __enter__(self) -> "Witness":
        self.start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        self._stop_requested.set()
        self.join()
        if not kind:
            self.check()

    def check(self) -> None:
        if self.problems:
            raise Failure("; ".join(sorted(set(self.problems))[:10]))
        if not self.count:
            raise Failure("the witness has seen nothing")

    def run(self) -> None:
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        while not self._stop_requested.wait(1):
            try:
                self._look(home)
            except Exception as error:  # a witness that has failed must not look like a witness that saw no error
                self.problems.append(f"the witness failed: {error!r}")
                raise
        os.close(home)

    def _look(self, home: int) -> None:
        seen = dict(addresses_by_place(self._cluster.nodes, home))
        now = time.monotonic()
        self._find_duplicates(seen, now, home)
        try:
            held = self.held()
        except (OSError, http.client.HTTPException, Failure):  # the API server is away
            self._missing_since.clear()
            return
        pairs = {(place, address) for place, addresses in seen.items() for address in addresses}
        self._recorded &= pairs
        self._missing_since = {pair: since for pair, since in self._missing_since.items() if pair in pairs}
        for pair in pairs:
            if pair[1] in held:
                self._recorded.add(pair)
                self._missing_since.pop(pair, None)
                continue
            lasts = now - self._missing_since.setdefault(pair, now)
            was_recorded = pair in self._recorded
            if not self._may_see_duplicates and lasts > (END_OF_SANDBOX_SECONDS if was_recorded else WRITTEN_SECONDS):
                what = "was given back" if was_recorded else "is not recorded"
                self.problems.append(f"{pair[1]} {what}, and {pair[0][1]} of {pair[0][0]} has it")
        self.count += 1

    def _find_duplicates(self, seen: dict[Place, set[str]], now: float, home: int) -> None:
        places: dict[str, list[Place]] = {}
        for place, addresses in seen.items():
            for address in addresses:
                places.setdefault(address, []).append(place)
        shared = {address: there for address, there in places.items() if len(there) > 1}
        if shared:
            # One namespace may have ended before the witness looked at the other: look again.
            again = dict(addresses_by_place(self._cluster.nodes, home))
            shared = {address: there for address, there in shared.items()
                      if sum(address in again.get(place, ()) for place in there) > 1}
        if not self._may_see_duplicates:
            self.problems.extend(f"{address} is in {there}" for address, there in shared.items())
        self.duplicates = {address: self.duplicates.get(address, now) for address in shared}
        self.all_duplicates |= set(shared)

    def held(self) -> set[str]:
        """The addresses that are held now, read from the API server."""
        return set(held_in(self.blocks()))

    def blocks(self) -> list[dict]:
        return self.items("ipblocks")

    def items(self, kind: str) -> list[dict]:
        """Objects of one of berth's kinds; faster than kubectl."""
        status, text = self._credentials.ask("GET", f"{credentials.API}/{kind}")
        if status != 200:
            raise Failure(f"the API server said {status}")
        return json.loads(text)["items"]

    def held_on(self, node: Node) -> set[str]:
        return set(held_in(block for block in self.blocks() if block["spec"].get("node") == node.name))

    def sandboxes(self) -> int:
        """Number of network namespaces of pods."""
        return sum(self.sandboxes_on(node) for node in self._cluster.nodes)

    def sandboxes_on(self, node: Node) -> int:
        return sum(1 for _ in files_of(node))


def held_in(blocks: Iterable[dict]) -> Iterator[str]:
    for block in blocks:
        first = ipaddress.ip_network(block["spec"]["cidr"]).network_address
        for offset, entry in block["allocations"].items():
            if not entry.startswith(("~", "!")):
                yield str(first + int(offset))


def files_of(node: Node) -> Iterator[Path]:
    # A process of the node shows the node's mounts.
    return Path(f"/proc/{node.mounts_pid}/root{node.home}/{NETNS_OF_SANDBOXES}").glob("cni-*")


def addresses_by_place(nodes: list[Node], home: int) -> Iterator[tuple[Place, set[str]]]:
    """The addresses of every sandbox on these nodes. The calling thread enters each namespace and returns to `home`."""
    for node in nodes:
        for file in files_of(node):
            with contextlib.suppress(OSError):  # the sandbox may have ended
                yield (node.name, file.name), _addresses_in(file, home)


def _addresses_in(file: Path, home: int) -> set[str]:
    namespace = os.open(file, os.O_RDONLY)
    try:
        _enter(namespace)
        ipv4 = OWN_IPV4.findall(Path("/proc/thread-self/net/fib_trie").read_text())
        lines = [line.split() for line in Path("/proc/thread-self/net/if_inet6").read_text().splitlines()]
    finally:
        _enter(home)
        os.close(namespace)
    ipv6 = [str(ipaddress.IPv6Address(bytes.fromhex(line[0]))) for line in lines if line[3] == "00"]
    return {address for address in ipv4 if not address.startswith("127.")} | set(ipv6)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
