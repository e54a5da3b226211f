#!/usr/bin/env python3
# Takes a cluster with berth, installed as users do, through updates, crashes, a reboot, stolen credentials, and the removal of
# berth. Uses two nodes, the image and the manifests of install/. Prints measurements; the last line is "N passed, N failed".
#
#   e2e/scenarios/run.py [SCENARIO...]     default: all of them, in their order; needs root, make, make image
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import credentials
from calls import Callers
from cluster import ROOT, Failure, Node, cpu_seconds, resident_megabytes, until
from steps import AGENTS, CONTROLLERS, OVERLAY, Steps, main


class Scenarios(Steps):
    """The scenarios share one Deployment and its pods."""

    def agents_are_updated_three_times_under_churn(self) -> str:
        self.scale(200)
        self.cluster.await_pods(200, 400)
        took = []
        with Callers(self.cluster) as callers, self.churn():
            for _ in range(3):
                started = time.monotonic()
                self.cluster.kubectl("rollout", "restart", *AGENTS)
                self.cluster.kubectl("rollout", "status", *AGENTS, "--timeout=180s")
                took.append(time.monotonic() - started)
        p99 = callers.p99()
        if p99 >= 3:
            raise Failure(f"ADD p99 is {p99:.2f} s, not under 3 s")
        self.cluster.await_pods(200, 300)
        agent = max(resident_megabytes(self.cluster.agent_on(node)) for node in self.cluster.nodes)
        controller = resident_megabytes(self.leader()[0])
        if agent >= 30 or controller >= 40:
            raise Failure(f"resident: an agent {agent:.1f} MB, not under 30; controller {controller:.1f} MB, not under 40")
        return (f"updates took {', '.join(f'{one:.0f}' for one in took)} s; ADD p99 {p99:.2f} s of {callers.count()}; "
                f"resident: an agent {agent:.1f} MB, the leader {controller:.1f} MB")

    def node_with_sixty_pods_is_rebooted(self) -> str:
        node = self.cluster.nodes[1]
        self.scale(130)
        self.cluster.await_pods(130, 200)
        there = sum(pod["spec"]["nodeName"] == node.name for pod in self.cluster.pods())
        if there < 60:
            raise Failure(f"only {there} pods on {node.name}")
        self.cluster.power_off(node)
        self.cluster.start_node(node)
        until("its agent serves", 120, node.has_agent)
        took = self.cluster.await_pods(130, 400)
        return f"its {there} pods have addresses again {took:.0f} s after its agent serves"

    def agent_is_killed_three_times_within_a_minute(self) -> str:
        node = self.cluster.nodes[0]
        self.scale(30)
        self.cluster.await_pods(30, 120)
        os.kill(self.cluster.agent_on(node), signal.SIGKILL)
        started = time.monotonic()
        first = until("the agent serves", 60, node.has_agent, pause=0.02)
        if first > 5:
            raise Failure(f"it serves {first:.1f} s after its first end only, not after 5 s")
        for count in (40, 50):
            os.kill(self.cluster.agent_on(node), signal.SIGKILL)
            last = time.monotonic() - started
            self.scale(count)  # pods start, and below pods end, while there is no agent
            self.delete_pods(5)
            until("the agent serves", 90, node.has_agent)
        if last > 60:
            raise Failure(f"it was killed for the third time after {last:.0f} s only")
        self.cluster.await_pods(50, 200)
        return f"serves {first:.1f} s after its first end; ended for the third time after {last:.0f} s"

    def agent_that_hangs_is_started_again(self) -> str:
        node = self.cluster.nodes[1]
        self.scale(30)
        self.cluster.await_pods(30, 120)
        os.kill(self.cluster.agent_on(node), signal.SIGSTOP)
        self.scale(40)
        self.delete_pods(5)
        took = until("an agent serves", 90, node.has_agent)
        rest = self.cluster.await_pods(40, 120)
        return f"serves {took:.0f} s after it hung, and all pods run {rest:.0f} s later"

    def runtime_of_each_node_is_restarted(self) -> str:
        self.scale(50)
        with self.churn():
            for node in self.cluster.nodes:
                self.cluster.restart(f"containerd-{node.name}")
        return f"50 pods run {self.cluster.await_pods(50, 200):.0f} s after the last restart"

    def idle_controllers(self) -> float:
        """CPU seconds per second of all controllers. Requires: no pod comes or goes."""
        processes = [self.cluster.process_of(pod) for pod in self.cluster.berth_pods("controller")]
        began, before = time.monotonic(), sum(map(cpu_seconds, processes))
        time.sleep(20)
        return (sum(map(cpu_seconds, processes)) - before) / (time.monotonic() - began)

    def controllers_cost_little(self) -> str:
        """Measures CPU time while pods come and go, alternately with and without controllers, because measurements vary."""
        pods = 60
        of_api_server: dict[bool, list[float]] = {True: [], False: []}
        of_controllers: list[float] = []
        self.scale(0)
        self.cluster.await_pods(0, 120)
        idle = self.idle_controllers()
        for are_there in (True, False) * 3:
            self.cluster.kubectl("scale", f"--replicas={2 if are_there else 0}", *CONTROLLERS)
            self.cluster.kubectl("rollout", "status", *CONTROLLERS, "--timeout=120s")
            until("controllers are as many as they are to be", 60,
                  lambda: len(self.cluster.berth_pods("controller")) == (2 if are_there else 0))  # noqa: B023
            if are_there:
                self.leader()
            processes = [self.cluster.process_of(pod) for pod in self.cluster.berth_pods("controller")]
            began = time.monotonic()
            before = cpu_seconds(self.cluster.api_server()), sum(map(cpu_seconds, processes))
            self.scale(pods)
            self.cluster.kubectl("rollout", "status", "deployment/pods", "--timeout=200s")
            self.scale(0)
            self.cluster.kubectl("wait", "--for=delete", "pod", "-l", "app=pods", "--timeout=200s")
            if are_there:
                until("no IPAllocation is left", 60, lambda: not self.cluster.items("ipallocations", "-A"))
            of_api_server[are_there].append(1000 * (cpu_seconds(self.cluster.api_server()) - before[0]) / pods)
            spent = sum(map(cpu_seconds, processes)) - before[1] - idle * (time.monotonic() - began)
            of_controllers += [1000 * spent / pods] if are_there else []
        self.cluster.kubectl("scale", "--replicas=2", *CONTROLLERS)
        self.cluster.kubectl("rollout", "status", *CONTROLLERS, "--timeout=120s")
        own, with_them, without = (statistics.median(one) for one in (of_controllers, of_api_server[True], of_api_server[False]))
        # Compares only the API server's time with and without controllers: the controllers' own time depends on the machine's load.
        if with_them > 1.3 * without:
            raise Failure(f"the API server takes {with_them:.0f} ms a pod, without controllers {without:.0f} ms")
        return (f"{own:.1f} ms for each pod that comes and goes, {1000 * idle:.1f} ms a second idle; the API server takes {with_them:.0f} ms, without controllers "
                f"{without:.0f} ms")

    def controller_that_leads_is_killed(self) -> str:
        process, identity = self.leader()
        os.kill(process, signal.SIGKILL)
        return self.await_other_leader(identity, 20)

    def controller_that_leads_is_told_to_end(self) -> str:
        process, identity = self.leader()
        os.kill(process, signal.SIGTERM)
        return self.await_other_leader(identity, 5)

    def controller_that_leads_hangs(self) -> str:
        process, identity = self.leader()
        os.kill(process, signal.SIGSTOP)
        took = self.await_other_leader(identity, 20)
        gone = until("its container is started again", 90, lambda: not Path(f"/proc/{process}").exists(), pause=1)
        return f"{took}; the process was ended {gone:.0f} s later"

    def api_server_is_restarted(self) -> str:
        self.leader()
        self.cluster.tool("stop-apiserver", "--kill")
        self.cluster.tool("start-apiserver")
        started = time.monotonic()
        # Only a leader accepts a pool.
        pool = ('{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "later"}, '
                '"spec": {"subnet": "10.56.0.0/24"}}')
        until("the API server takes a pool", 30, lambda: self.cluster.kubectl("apply", "-f", "-", stdin=pool))
        left = max(1, int(30 - (time.monotonic() - started)))
        self.cluster.kubectl("wait", "--for=condition=Ready", "ippool/later", f"--timeout={left}s")
        took = time.monotonic() - started
        self.cluster.kubectl("delete", "ippool", "later", "--timeout=60s")
        return f"a pool is accepted {took:.1f} s after it is back"

    def credentials_of_another_node_change_nothing(self) -> str:
        self.scale(30)
        self.cluster.await_pods(30, 120)
        thief = self.node_without_leader()
        kinds = "ippools,ipspaces,ipblocks,ipallocations,ipreservations"
        self.cluster.kubectl("apply", "-f", "-", stdin='{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPReservation", '
                                                       '"metadata": {"name": "printer"}, "spec": {"addresses": ["10.55.0.9"]}}')
        objects = [one for one in self.cluster.items(kinds, "-A") if one.get("spec", {}).get("node") != thief.name]
        found = {one["kind"] for one in objects}
        if not {"IPPool", "IPSpace", "IPBlock", "IPReservation"} <= found:
            raise Failure(f"there is nothing to steal but {found}")
        refused = [credentials.try_all(one, objects)
                   for one in (credentials.of_agent(self.cluster, thief), credentials.of_kubelet(self.cluster, thief))]
        still = {(one["kind"], one["metadata"]["uid"]) for one in self.cluster.items(kinds, "-A")}
        if lost := [one["metadata"]["name"] for one in objects if (one["kind"], one["metadata"]["uid"]) not in still]:
            raise Failure(f"lost: {lost}")
        self.cluster.kubectl("delete", "ipreservation", "printer")
        self.cluster.await_pods(30, 60)
        return f"{sum(refused)} writes of {len(objects)} objects refused"

    def node_without_leader(self) -> Node:
        process, _ = self.leader()
        leads = next(pod["spec"]["nodeName"] for pod in self.cluster.berth_pods("controller")
                     if self.cluster.process_of(pod) == process)
        return next(node for node in self.cluster.nodes if node.name != leads)

    def install_is_deleted_and_applied_again(self) -> str:
        self.scale(30)
        self.cluster.await_pods(30, 120)
        before = self.cluster.addresses()
        self.cluster.kubectl("delete", "-k", OVERLAY, "--timeout=120s")
        if self.cluster.addresses() != before:
            raise Failure("pods lost their addresses with berth")
        self.install()
        self.scale(30, name="more")
        self.cluster.await_pods(60, 200)
        after = self.cluster.addresses()
        if any(after.get(name) != addresses for name, addresses in before.items()):
            raise Failure("old pods have other addresses than before")
        return "30 old pods keep their addresses, 30 new ones have others"

    def everything_is_removed(self) -> str:
        """Removes berth in the documented order: nothing hangs and nothing is left."""
        kubectl = self.cluster.kubectl
        kubectl("delete", "deployment", "--all", "--wait=false")
        until("no pod hangs in Terminating", 120, lambda: not self.cluster.pods(), pause=1)
        emptied = until("every address has come back", 60, lambda: self.cluster.used() == 0, pause=1)
        kubectl("delete", "ippool", "--all", "--timeout=60s")
        until("no block is left", 60, lambda: not self.cluster.items("ipblocks"), pause=1)
        kubectl("delete", "-k", OVERLAY, "--timeout=120s")
        kubectl("annotate", "crd", "-l", "app.kubernetes.io/name=berth", "ipam.berth.dev/purge=yes")
        policy = ("validatingadmissionpolicy/berth-purge", "validatingadmissionpolicybinding/berth-purge")
        kubectl("patch", *policy, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        kubectl("delete", "-k", str(ROOT / "crds"), "--timeout=120s")
        if left := [name for name in kubectl("api-resources", "-o", "name").split() if name.endswith(".berth.dev")]:
            raise Failure(f"kinds are left: {left}")
        return f"all addresses are back {emptied:.0f} s after the last pod; no kind is left"


ALL: tuple[Callable[[Scenarios], str], ...] = (
    Scenarios.agents_are_updated_three_times_under_churn,
    Scenarios.node_with_sixty_pods_is_rebooted,
    Scenarios.agent_is_killed_three_times_within_a_minute,
    Scenarios.agent_that_hangs_is_started_again,
    Scenarios.runtime_of_each_node_is_restarted,
    Scenarios.controllers_cost_little,
    Scenarios.controller_that_leads_is_killed,
    Scenarios.controller_that_leads_is_told_to_end,
    Scenarios.controller_that_leads_hangs,
    Scenarios.api_server_is_restarted,
    Scenarios.credentials_of_another_node_change_nothing,
    Scenarios.install_is_deleted_and_applied_again,
    Scenarios.everything_is_removed,
)


if __name__ == "__main__":
    sys.exit(main(Scenarios, ALL))
