"""Runs a controller as a process of this machine, which a scenario can kill at any moment, and makes DELs do nothing."""
import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cluster import ROOT, Cluster
from witness import Witness

LEASE = ("lease", "berth-controller", "-n", "berth-system")


class ControllerProcess:
    """A controller with the rights of the installed controller."""

    def __init__(self, cluster: Cluster, folder: Path):
        self._cluster = cluster
        self._log = folder / "controller.log"
        self._kubeconfig = folder / "kubeconfig"
        config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        token = cluster.kubectl("create", "token", "berth-controller", "-n", "berth-system", "--duration=2h").strip()
        config["users"][0]["user"] = {"token": token}
        self._kubeconfig.write_text(json.dumps(config))

    @contextlib.contextmanager
    def lives(self) -> Iterator[None]:
        """Runs the controller until the end of the `with` block, and then kills it. The controller leads at once, because the
        holder is removed from the Lease first."""
        with contextlib.suppress(Exception):
            self._cluster.kubectl("patch", *LEASE, "--type=merge", "-p", '{"spec": {"holderIdentity": ""}}')
        with self._log.open("a") as log:
            process = subprocess.Popen([str(ROOT / "build" / "bin" / "berth-controller"), "--kubeconfig", str(self._kubeconfig)],
                                       stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def what_it_writes(witness: Witness) -> tuple:
    """A value that changes with each write of the controller, and not with the agents' writes while no pod comes or goes."""
    written = {(kind, one["metadata"]["name"], one["metadata"]["resourceVersion"])
               for kind in ("ippools", "ipspaces", "ipallocations") for one in witness.items(kind)}
    return frozenset(written), frozenset(witness.held()), frozenset(one["metadata"]["name"] for one in witness.blocks())


@contextlib.contextmanager
def dels_do_nothing(cluster: Cluster) -> Iterator[None]:
    """Until the end of the `with` block, the `berth` of each node does nothing and answers with success."""
    folders = [node.home / "cni-bin" for node in cluster.nodes]
    for folder in folders:
        (folder / "berth").rename(folder / "berth.kept")
        (folder / "nothing").write_text("#!/bin/sh\nexit 0\n")
        (folder / "nothing").chmod(0o755)
        (folder / "nothing").rename(folder / "berth")
    try:
        yield
    finally:
        for folder in folders:
            (folder / "berth.kept").rename(folder / "berth")
