#!/usr/bin/env python3
# Tests that no address leaks and that no used address is freed, when pods end by force, or when nodes, the API server, etcd or
# the controller end. Uses two nodes, the image and the manifests of install/. Prints measurements; the last line is "N passed,
# N failed".
#
#   e2e/scenarios/reclaim.py [SCENARIO...]     default: all of them, in their order; needs root, make, make image
#                                              BERTH_SWEEP=all: more rounds
import contextlib
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import credentials
from calls import Runtime
from cluster import Failure, Node, run, until
from controllers import ControllerProcess, dels_do_nothing, what_it_writes
from steps import AGENTS, CONTROLLERS, Steps, main
from witness import Witness

WHOLE = os.environ.get("BERTH_SWEEP") == "all"
POOL_IS_FULL = "is exhausted"


class Scenarios(Steps):
    """The scenarios share one Deployment and its pods. In each scenario a witness checks addresses."""

    def etcd_is_restored_under_agents_that_run(self) -> str:
        """The agents know the changes since the snapshot, and write them again."""
        with Witness(self.cluster, may_see_duplicates=True) as witness:
            said = self.restore(witness)
            if witness.all_duplicates:
                raise Failure(f"in two namespaces: {sorted(witness.all_duplicates)}")
            self.cluster.await_no_findings(120)
            ended = self.end_pods(witness)
        return f"{said}; after their end addresses were held for {ended:.0f} s"

    def etcd_is_restored_and_agents_start_anew(self) -> str:
        """No program knows the addresses that pods got since the snapshot."""
        with Witness(self.cluster, may_see_duplicates=True) as witness:
            said = self.restore(witness, [self.cluster.agent_on(node) for node in self.cluster.nodes])
            if not witness.all_duplicates:
                raise Failure("no address was given twice, so nothing was tried")
            # docs/operations.md says to do this.
            self.cluster.kubectl("rollout", "restart", "deployment/pods")
            self.cluster.kubectl("rollout", "status", "deployment/pods", "--timeout=200s")
            self.cluster.await_pods(40, 200)
            self.cluster.await_no_findings(120)
            ended = self.end_pods(witness)
        return f"{said}; after their end addresses were held for {ended:.0f} s"

    def restore(self, witness: Witness, ended_meanwhile: Iterable[int] = ()) -> str:
        """Restores a snapshot. Pods that are newer than the snapshot run on for two minutes, although no program knows them, and
        new pods start meanwhile."""
        with tempfile.TemporaryDirectory() as folder:
            self.scale(20)
            self.cluster.await_pods(20, 120)
            self.cluster.save_etcd(Path(folder) / "snapshot")
            self.delete_pods(10)
            self.scale(20, "unknown", grace=120, stay=True)
            self.cluster.await_pods(40, 120)
            self.cluster.restore_etcd(Path(folder) / "snapshot", ended_meanwhile)
        if ended_meanwhile:
            self.cluster.kubectl("rollout", "restart", *AGENTS)
        self.cluster.kubectl("rollout", "restart", *CONTROLLERS)
        self.scale(20, "later")
        said = self.await_end_of_duplicates(witness)
        took = self.cluster.await_pods(40, 200)
        return f"{said}; all pods right {took:.0f} s later"

    def await_end_of_duplicates(self, witness: Witness) -> str:
        """Checks that each lasting duplicate is reported within 60 s, and waits until no duplicate is left, after all sandboxes of
        unknown pods have ended."""
        told: set[str] = set()
        started = time.monotonic()
        while True:
            duplicates = dict(witness.duplicates)
            for node in self.cluster.nodes:
                told |= {one["address"] for one in self.cluster.findings_on(node, settle=2)
                         if one["kind"] in ("duplicate", "not-recorded")}
            late = [address for address, since in duplicates.items() if address not in told and time.monotonic() - since > 60]
            if late:
                raise Failure(f"nobody has told of {late} for a minute")
            if not duplicates and witness.sandboxes() == len(self.cluster.pods()):
                seen = witness.all_duplicates
                return f"{len(seen)} addresses twice, {len(seen & told)} of them reported, none after {time.monotonic() - started:.0f} s"
            if time.monotonic() - started > 300:
                raise Failure(f"after five minutes: {witness.sandboxes()} sandboxes, addresses in two: {sorted(duplicates)}")
            time.sleep(1)

    def node_dies_and_comes_back_under_its_name(self) -> str:
        """First the node's containers outlive it, and its Node object is deleted meanwhile. Then the machine is off for so long that
        it counts as gone."""
        node = self.cluster.nodes[1]
        with Witness(self.cluster) as witness:
            self.scale(60)
            self.cluster.await_pods(60, 200)
            if (there := witness.sandboxes_on(node)) < 20:
                raise Failure(f"only {there} pods on {node.name}")
            self.cluster.kill_node(node)
            self.cluster.kubectl("delete", "node", node.name)
            until("others have taken the place of its pods", 200, lambda: len(self.running_on(self.cluster.nodes[0])) == 60, pause=1)
            if (left := witness.sandboxes_on(node)) != there:
                raise Failure(f"of {there} sandboxes {left} are left on a node without kubelet")
            self.cluster.start_node(node)
            took = self.cluster.await_pods(60, 200)
            self.cluster.await_no_findings(120)
            gone = self.node_is_off_until_it_counts_as_gone(witness)
            self.cluster.await_no_findings(120)
            ended = self.end_pods(witness)
        return f"with {there} containers alive: right {took:.0f} s after its return; {gone}; in the end held for {ended:.0f} s"

    def node_is_off_until_it_counts_as_gone(self, witness: Witness) -> str:
        node = self.cluster.nodes[1]
        self.scale(0)
        until("no pod is left", 120, lambda: not self.cluster.pods(), pause=1)
        self.scale(60)
        self.cluster.await_pods(60, 200)
        self.cluster.power_off(node)
        self.cluster.kubectl("delete", "node", node.name)
        off = time.monotonic()
        # Five minutes after the node's last pod was removed, and 60 s of cooling.
        until("its blocks are gone", 480, lambda: not [one for one in self.cluster.items("ipblocks") if one["spec"]["node"] == node.name],
              pause=2)
        gone = time.monotonic() - off
        self.cluster.start_node(node)
        until("it is Ready", 120, lambda: self.cluster.kubectl("wait", "--for=condition=Ready", f"node/{node.name}", "--timeout=1s"))
        self.scale(120)
        took = self.cluster.await_pods(120, 300)
        return f"off: all it held is free {gone:.0f} s later, and 120 pods run {took:.0f} s after its return"

    def api_server_and_etcd_are_killed_under_churn(self) -> str:
        with Witness(self.cluster) as witness:
            self.scale(60)
            self.cluster.await_pods(60, 200)
            with self.churn(through_outages=True):
                for victim in ("kube-apiserver", "etcd") * 10:
                    self.cluster.tool("stop", victim, "--kill")
                    time.sleep(random.uniform(0, 3))
                    self.cluster.tool("start", victim)
                    time.sleep(random.uniform(2, 8))  # under churn: how far pods got is different each time
            # kube-controller-manager backs off for a quarter of an hour. With leader election it would have ended by itself.
            self.cluster.restart("kube-controller-manager")
            took = self.cluster.await_pods(60, 300)
            self.cluster.await_no_findings(120)
            ended = self.end_pods(witness)
        return f"60 pods are right {took:.0f} s after the last start; after their end addresses were held for {ended:.0f} s"

    def node_is_cut_off_and_its_pods_deleted_by_force(self) -> str:
        node = self.cluster.nodes[1]
        with Witness(self.cluster) as witness:
            self.scale(40)
            self.cluster.await_pods(40, 200)
            names = [pod["metadata"]["name"] for pod in self.running_on(node)]
            with self.cluster.cut_off(node):
                time.sleep(1)
                cut = time.monotonic()
                self.cluster.kubectl("delete", "pod", "--force", "--grace-period=0", *names)
                kept = witness.held_on(node)
                time.sleep(max(0.0, 180 - (time.monotonic() - cut)))
                if not names or not kept:
                    raise Failure("the node had no pods")
                if (left := witness.held_on(node)) != kept:
                    raise Failure(f"of {len(kept)} addresses {len(kept - left)} were given back")
            took = self.cluster.await_pods(40, 200)
            self.cluster.await_no_findings(120)
            ended = self.end_pods(witness)
        return (f"{len(names)} pods kept their {len(kept)} addresses; all right {took:.0f} s after its return; in the end held "
                f"for {ended:.0f} s")

    def pods_come_and_go_and_some_do_not_want_to(self) -> str:
        rounds = 20 if WHOLE else 2
        held: list[float] = []
        with Witness(self.cluster) as witness:
            for number in range(rounds):
                self.scale(50)
                # Every fifth round has a grace period of two minutes, and takes this much longer.
                self.scale(10, "stay", grace=120 if number % 5 == 0 else 10, stay=True)
                self.cluster.await_pods(60, 200)
                self.delete_by_force(10)
                self.scale(0)
                self.scale(0, "stay", grace=120 if number % 5 == 0 else 10, stay=True)
                self.delete_by_force(15)
                held.append(self.end_pods(witness))
                self.cluster.await_no_findings(60)
        return f"{rounds} rounds; after the last sandbox addresses were held for {max(held):.0f} s at most"

    def pool_has_exactly_as_many_addresses_as_pods(self) -> str:
        """Restarts a Deployment five times, first with a pool for one node and then with a Shared pool for both nodes. A restart
        starts new pods before old pods end, and so needs more addresses than there are."""
        node = self.cluster.nodes[0]
        took = [self.restart_in_exact_pool({"subnet": "10.56.0.0/26", "ranges": ["10.56.0.2-10.56.0.41"]}, node),
                self.restart_in_exact_pool({"subnet": "10.56.1.0/26", "ranges": ["10.56.1.2-10.56.1.41"],
                                            "affinity": "Shared"}, None)]
        self.put_pool({"subnet": "10.55.0.0/20", "gateway": "10.55.0.1"})
        return "five restarts of 40 pods took " + " s, in a Shared pool ".join(f"{one:.0f}" for one in took) + " s"

    def restart_in_exact_pool(self, spec: dict, node: Node | None) -> float:
        self.put_pool(spec | {"gateway": spec["subnet"].replace(".0/26", ".1")})
        with Witness(self.cluster) as witness:
            self.scale(40, node=node)
            self.cluster.await_pods(40, 200)
            earlier = {one["metadata"]["uid"] for one in self.cluster.items("events")}
            started = time.monotonic()
            for _ in range(5):
                self.cluster.kubectl("rollout", "restart", "deployment/pods")
                self.cluster.kubectl("rollout", "status", "deployment/pods", "--timeout=300s")
            took = time.monotonic() - started
            self.cluster.await_pods(40, 60)
            said = {one["message"] for one in self.cluster.items("events")
                    if one["reason"] == "FailedCreatePodSandBox" and one["metadata"]["uid"] not in earlier}
            if wrong := [one for one in said if not re.search(POOL_IS_FULL, one)]:
                raise Failure(f"pods were refused for another reason than a pool without addresses: {wrong[:3]}")
            self.end_pods(witness)
        return took

    def put_pool(self, spec: dict) -> None:
        """Replaces the pool pods-v4. Requires: no pod has an address of the pool."""
        self.cluster.kubectl("delete", "ippool", "pods-v4", "--timeout=60s")
        for node in self.cluster.nodes:
            # The bridge plugin gives a bridge no second address, so delete the bridge.
            with contextlib.suppress(Failure):
                run(*node.inside("ip", "link", "delete", "berth0"))
        pool = {"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "pods-v4"}, "spec": spec}
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pool))
        self.cluster.kubectl("wait", "--for=condition=Ready", "ippool/pods-v4", "--timeout=60s")

    def blocks_are_deleted_by_hand(self) -> str:
        """Deletes blocks while they are full, and, again and again, while they are empty and a pod starts."""
        with Witness(self.cluster) as witness:
            self.scale(120)
            self.cluster.await_pods(120, 300)
            doomed = {one["metadata"]["uid"] for one in self.cluster.items("ipblocks")}
            self.cluster.kubectl("delete", "ipblocks", "--all", "--wait=false")
            self.delete_pods(40)
            self.cluster.await_pods(120, 300)
            self.cluster.await_no_findings(60)
            ended = self.end_pods(witness)
            until("the blocks that were deleted are gone", 60,
                  lambda: not doomed & {one["metadata"]["uid"] for one in self.cluster.items("ipblocks")})
            raced = self.race_with_deletions(witness, 1000 if WHOLE else 100)
        return f"{len(doomed)} blocks went when their pods had; in the end held for {ended:.0f} s; {raced}"

    def race_with_deletions(self, witness: Witness, rounds: int) -> str:
        node = self.cluster.nodes[0]
        runtime, admin = Runtime(node), credentials.of_admin(self.cluster)
        seen: set[str] = set()
        for number in range(rounds):
            name = f"race-{number}"
            runtime.call("ADD", f"{name}-before")
            runtime.call("DEL", f"{name}-before")
            blocks = [one["metadata"] for one in witness.blocks() if one["spec"].get("node") == node.name]
            seen |= {block["uid"] for block in blocks}

            def delete() -> None:
                time.sleep(random.uniform(0, 0.03))
                for block in blocks:
                    admin.ask("DELETE", f"{credentials.API}/ipblocks/{block['name']}")

            thread = threading.Thread(target=delete)
            thread.start()
            told = runtime.call("ADD", name)
            thread.join()
            until(f"{told} are recorded, and no others", 10, lambda: witness.held() == told, pause=0.05)
            runtime.call("DEL", name)
            until("nothing is held", 10, lambda: not witness.held(), pause=0.05)
        gone = seen - {one["metadata"]["uid"] for one in witness.blocks()}
        if len(gone) < rounds / 10:
            raise Failure(f"only {len(gone)} of {len(seen)} blocks went: that was no race")
        return f"{rounds} ADDs beside deletions, by which {len(gone)} blocks went"

    def deployment_and_namespace_are_deleted(self) -> str:
        """Deletes with a foreground cascade, in which the garbage collector deletes IPAllocations of running pods."""
        count = 200 if WHOLE else 100
        with Witness(self.cluster) as witness:
            took = self.time_of_cascade(witness, count)
            self.cluster.kubectl("create", "namespace", "team")
            for namespace in ("team", "default"):
                self.scale(15, "stay", grace=20, stay=True, namespace=namespace)
            until("30 pods have sandboxes", 120, lambda: witness.sandboxes() == 30, pause=1)
            self.cluster.await_pods(15, 120)
            self.cluster.kubectl("delete", "namespace", "team", "--timeout=200s")
            names = [pod["metadata"]["name"] for pod in self.cluster.pods()]
            self.cluster.kubectl("delete", "pod", "--cascade=orphan", "--wait=false", *names)
            ended = self.end_pods(witness)
            self.cluster.await_no_findings(60)
            self.set_controller_option("--allocations=off")
            without = self.time_of_cascade(witness, count)
            self.cluster.kubectl("rollout", "undo", *CONTROLLERS)
            self.cluster.kubectl("rollout", "status", *CONTROLLERS, "--timeout=120s")
        if took > 1.3 * without:
            raise Failure(f"a cascade of {count} pods takes {took:.1f} s, without IPAllocations {without:.1f} s")
        return f"a cascade of {count} pods takes {took:.1f} s, without IPAllocations {without:.1f} s; held for {ended:.0f} s"

    def time_of_cascade(self, witness: Witness, count: int) -> float:
        self.scale(count)
        self.cluster.await_pods(count, 400)
        started = time.monotonic()
        self.cluster.kubectl("delete", "deployment", "pods", "--cascade=foreground", "--timeout=300s")
        took = time.monotonic() - started
        self.end_pods(witness)
        return took

    def set_controller_option(self, option: str) -> None:
        patch = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": option}]
        self.cluster.kubectl("patch", *CONTROLLERS, "--type=json", "-p", json.dumps(patch))
        self.cluster.kubectl("rollout", "status", *CONTROLLERS, "--timeout=120s")

    def controller_is_killed_at_each_of_its_writes(self) -> str:
        """The controller frees 100 addresses of pods without a DEL meanwhile."""
        with Witness(self.cluster) as witness, tempfile.TemporaryDirectory() as folder:
            self.scale(50)
            self.cluster.await_pods(50, 300)
            self.cluster.kubectl("scale", "--replicas=0", *CONTROLLERS)
            until("there is no controller", 60, lambda: not self.cluster.berth_pods("controller"))
            with dels_do_nothing(self.cluster):
                self.cluster.kubectl("delete", "deployment", "--all", "--wait=false")
                until("no pod is left", 120, lambda: not self.cluster.pods(), pause=1)
                until("no sandbox is left", 120, lambda: witness.sandboxes() == 0, pause=0.5)
            outstanding, started, lives = len(witness.held()), time.monotonic(), 0
            if outstanding != 100:
                raise Failure(f"{outstanding} addresses are held, not 100")
            controller = ControllerProcess(self.cluster, Path(folder))
            while witness.held() or witness.items("ipallocations"):
                lives += 1
                if time.monotonic() - started > 900:
                    raise Failure(f"after {lives} lives {len(witness.held())} addresses are held")
                before = what_it_writes(witness)
                with controller.lives():
                    until("it writes", 120, lambda: what_it_writes(witness) != before, pause=0.01)
            took = time.monotonic() - started
            if lives < 10:
                raise Failure(f"{lives} controllers wrote all: they were not killed at each write")
            self.cluster.kubectl("scale", "--replicas=2", *CONTROLLERS)
            self.cluster.kubectl("rollout", "status", *CONTROLLERS, "--timeout=120s")
            self.scale(50)
            self.cluster.await_pods(50, 200)
            self.cluster.await_no_findings(120)
            self.end_pods(witness)
        return f"{outstanding} addresses were given back by {lives} controllers in {took:.0f} s"

    def delete_by_force(self, count: int) -> None:
        names = [pod["metadata"]["name"] for pod in self.cluster.pods()]
        self.cluster.kubectl("delete", "pod", "--force", "--grace-period=0", "--wait=false", "--ignore-not-found",
                             *random.sample(names, min(count, len(names))))

    def running_on(self, node: Node) -> list[dict]:
        return [pod for pod in self.cluster.pods() if pod["spec"].get("nodeName") == node.name
                and pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]


ALL: tuple[Callable[[Scenarios], str], ...] = (
    Scenarios.etcd_is_restored_under_agents_that_run,
    Scenarios.etcd_is_restored_and_agents_start_anew,
    Scenarios.node_dies_and_comes_back_under_its_name,
    Scenarios.api_server_and_etcd_are_killed_under_churn,
    Scenarios.node_is_cut_off_and_its_pods_deleted_by_force,
    Scenarios.pool_has_exactly_as_many_addresses_as_pods,
    Scenarios.pods_come_and_go_and_some_do_not_want_to,
    Scenarios.controller_is_killed_at_each_of_its_writes,
    Scenarios.blocks_are_deleted_by_hand,
    Scenarios.deployment_and_namespace_are_deleted,
)

if __name__ == "__main__":
    sys.exit(main(Scenarios, ALL))
