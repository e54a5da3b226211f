#!/usr/bin/env python3
# Replaces the agents of two nodes by agents of an earlier commit and back, ten times each, while pods start and end. Checks
# that no address belongs to two pods, that no pod fails or waits long, and that no address stays held. Prints measurements;
# the last line is "N passed, N failed".
#
#   e2e/scenarios/upgrade.py       needs root, make, make image, tools/make-earlier-image
import collections
import re
import sys
import time

from calls import Callers
from cluster import ROOT, Cluster, Failure, until
from steps import AGENTS, Steps, main
from witness import Witness

EARLIER = ROOT / "build" / "earlier" / "berth.tar"
REPLACEMENTS = 20
PODS = 60
# The limit for a pod to get its addresses, and for a deleted pod to end. Other suites may run at the same time.
WAIT_SECONDS = 120
# In a message of a runtime: what a network plugin said, and the parts that differ from pod to pod.
FROM_PLUGIN = re.compile(r"plugin type=.*", re.DOTALL)
OF_ONE_POD = re.compile(r"\b[0-9a-f]{12,}\b|\bpods-[a-z0-9]+-[a-z0-9]+\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class PodWatch:
    """Checks that no pod fails, and that none waits longer than the limit for its addresses or its end."""

    def __init__(self) -> None:
        self.seen: set[str] = set()  # UIDs
        self.longest = 0.0  # seconds that a pod waited
        self._since: dict[tuple[str, str], float] = {}  # UID and what the pod waits for

    def look(self, pods: list[dict]) -> None:
        now = time.monotonic()
        waiting: dict[tuple[str, str], float] = {}
        for pod in pods:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            self.seen.add(uid)
            if pod["status"]["phase"] == "Failed":
                raise Failure(f"{name} failed for good: {pod['status']}")
            ends = "deletionTimestamp" in pod["metadata"]
            if not ends and pod["status"].get("podIPs"):
                continue
            key = uid, "its end" if ends else "its addresses"
            waiting[key] = self._since.get(key, now)
            self.longest = max(self.longest, now - waiting[key])
            if now - waiting[key] > WAIT_SECONDS:
                raise Failure(f"{name} on {pod['spec'].get('nodeName')} waits for {key[1]} for more than {WAIT_SECONDS} s")
        self._since = waiting


def plugin_errors(cluster: Cluster) -> collections.Counter[str]:
    """How often a network plugin failed for a pod, by message, from the events of kubelets."""
    found: collections.Counter[str] = collections.Counter()
    for reason in ("FailedCreatePodSandBox", "FailedKillPod"):
        for event in cluster.items("events", f"--field-selector=reason={reason}"):
            if said := FROM_PLUGIN.search(event["message"]):
                found[f"{reason}: {OF_ONE_POD.sub('...', said[0])}"] += event.get("count") or 1
    return found


class Scenarios(Steps):
    """One scenario, on pods of its own."""

    def agents_are_replaced_by_earlier_agents_and_back(self) -> str:
        this = self.cluster.get(*AGENTS)["spec"]["template"]["spec"]["containers"][0]["image"]
        images = (this.rsplit(":", 1)[0] + ":earlier", this)
        watch, took, digests = PodWatch(), [], set()
        with Witness(self.cluster) as witness:
            self.scale(PODS)
            self.cluster.await_pods(PODS, 200)
            with Callers(self.cluster) as callers, self.churn(look=watch.look) as check_churn:
                for number in range(REPLACEMENTS):
                    started, before = time.monotonic(), len(watch.seen)
                    digests.add(self.replace_agents(images[number % 2]))
                    took.append(time.monotonic() - started)
                    # On a busy machine a round of deletions may take longer than a replacement.
                    until("new pods have been created", WAIT_SECONDS, lambda: len(watch.seen) > before)  # noqa: B023
                    check_churn()
                    witness.check()
            self.cluster.await_pods(PODS, 200)
            self.cluster.await_no_findings(120)
            errors = plugin_errors(self.cluster)
            ended = self.end_pods(witness)
        if len(digests) != 2:
            raise Failure(f"the agents ran {len(digests)} images, not two")
        for message, count in errors.most_common():
            print(f"        {count} times {message}", flush=True)
        return (f"{REPLACEMENTS} replacements on each of {len(self.cluster.nodes)} nodes took {min(took):.0f} to "
                f"{max(took):.0f} s; {len(watch.seen)} pods waited for at most {watch.longest:.0f} s; plugins failed "
                f"{errors.total()} times for pods; ADD p99 {callers.p99():.2f} s of {callers.count()}, {callers.tried_again()} "
                f"calls were to try again; after the last sandbox addresses were held for {ended:.0f} s")

    def replace_agents(self, image: str) -> str:
        """Replaces the agents of all nodes, and returns the digest of the image that the new agents run."""
        self.cluster.kubectl("set", "image", *AGENTS, f"*={image}")
        self.cluster.kubectl("rollout", "status", *AGENTS, "--timeout=300s")
        digests = {status["imageID"] for pod in self.cluster.berth_pods("agent") if "deletionTimestamp" not in pod["metadata"]
                   for status in pod["status"]["containerStatuses"]}
        if len(digests) != 1:
            raise Failure(f"after the replacement by {image} agents run {sorted(digests)}")
        return digests.pop()


if __name__ == "__main__":
    sys.exit(main(Scenarios, (Scenarios.agents_are_replaced_by_earlier_agents_and_back,), (EARLIER,)))
