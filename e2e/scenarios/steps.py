"""Steps that scenarios share, and the main function of scenario programs: it runs scenarios one after another on one cluster of
two nodes with berth. Pods stay from one scenario to the next.
"""
import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from cluster import BERTHCTL, ROOT, Cluster, Failure, Node, end_once_by_signal, until
from witness import Witness

HERE = Path(__file__).resolve().parent
IMAGE = ROOT / "build" / "image" / "berth.tar"
OVERLAY = str(ROOT / "install" / "overlays" / "example-bridge")
LEASE = ("lease", "berth-controller", "-n", "berth-system")
CONTROLLERS = ("-n", "berth-system", "deployment/berth-controller")
AGENTS = ("-n", "berth-system", "daemonset/berth-agent")


class Steps:
    """Steps on one cluster."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster

    def install(self) -> None:
        kubectl = self.cluster.kubectl
        kubectl("apply", "-k", str(ROOT / "crds"))
        kubectl("wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/name=berth", "--timeout=60s")
        kubectl("apply", "-k", OVERLAY)
        kubectl("apply", "-f", str(ROOT / "install" / "overlays" / "example-bridge" / "pools.yaml"))
        kubectl("wait", "--for=condition=Ready", "ippool", "--all", "--timeout=120s")
        kubectl("rollout", "status", *AGENTS, "--timeout=120s")
        kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")

    def scale(self, count: int, name: str = "pods", *, grace: int = 1, stay: bool = False, node: Node | None = None,
              namespace: str = "default") -> None:
        """Scales the Deployment, and creates it if there is none. stay: its pods ignore SIGTERM. node: its pods run there."""
        text = (HERE / "deployment.yaml").read_text()
        values = {"NAME": name, "COUNT": str(count), "GRACE": str(grace), "ARGUMENTS": "stay" if stay else "",
                  "NODE": f"kubernetes.io/hostname: {node.name}" if node else ""}
        for word, value in values.items():
            text = text.replace(word, value)
        self.cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)

    def delete_pods(self, count: int) -> None:
        names = [pod["metadata"]["name"] for pod in self.cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
        self.cluster.kubectl("delete", "pod", "--wait=false", *random.sample(names, min(count, len(names))))

    def end_pods(self, witness: Witness) -> float:
        """Deletes all pods and waits until no sandbox is left. Returns how long addresses are held after that."""
        kubectl = self.cluster.kubectl
        kubectl("delete", "deployment", "--all", "--wait=false")
        until("no pod is left", 300, lambda: not self.cluster.pods(), pause=1)
        until("no sandbox is left", 300, lambda: witness.sandboxes() == 0, pause=0.5)
        return until("no address is held", 60, lambda: not witness.held(), pause=0.5)

    @contextlib.contextmanager
    def churn(self, *, through_outages: bool = False,
              look: Callable[[list[dict]], None] = lambda _: None) -> Iterator[Callable[[], None]]:
        """Deletes ten random pods every 2 s, and others start. Checks that no two pods ever have the same address. After each
        deletion `look` gets all pods, and may raise Failure. The `with` block gets a function that raises Failure if a check
        has failed."""
        stop = threading.Event()
        problems: list[str] = []
        rounds = 0

        def go_on() -> None:
            nonlocal rounds
            while not stop.wait(2) and not problems:
                try:
                    self.delete_pods(10)
                    rounds += 1
                    pods = self.cluster.pods()
                    look(pods)
                    told = [(one["ip"], pod["metadata"]["name"]) for pod in pods
                            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
                            for one in pod["status"].get("podIPs", [])]
                    addresses = [address for address, _ in told]
                    problems.extend(f"{address} is that of {name} and of another"
                                    for address, name in told if addresses.count(address) > 1)
                except Failure as failure:
                    if not through_outages:
                        problems.append(str(failure))
                except Exception as error:  # churn that has ended must not look like churn without a problem
                    problems.append(repr(error))

        def check() -> None:
            if problems:
                raise Failure("; ".join(problems))

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield check
        finally:
            stop.set()
            thread.join()
        check()
        if not rounds:
            raise Failure("no pod could be deleted")

    def leader(self) -> tuple[int, str]:
        """The PID of the leading controller, and its identity."""
        found: list[tuple[int, str]] = []

        def is_found() -> bool:
            identity = self.cluster.get(*LEASE)["spec"].get("holderIdentity", "")
            for pod in self.cluster.berth_pods("controller"):
                log = self.cluster.kubectl("logs", "-n", "berth-system", pod["metadata"]["name"])
                if identity and f"identity={identity}" in log:
                    found.append((self.cluster.process_of(pod), identity))
            return bool(found)

        until("somebody leads", 60, is_found)
        return found[0]

    def await_other_leader(self, identity: str, limit: float) -> str:
        def has_changed() -> bool:
            return self.cluster.get(*LEASE)["spec"].get("holderIdentity", "") not in ("", identity)

        return f"another leads after {until('another controller leads', limit, has_changed, pause=0.1):.1f} s"


AnySteps = TypeVar("AnySteps", bound=Steps)


def show_state(cluster: Cluster) -> None:
    for what in (("get", "pods", "-A", "-o", "wide"), ("get", "ipblocks,ippools"),
                 ("logs", "-n", "berth-system", "-l", "app.kubernetes.io/name=berth", "--tail=30", "--prefix")):
        with contextlib.suppress(Failure):
            print(cluster.kubectl(*what)[-6000:], file=sys.stderr)


def go_through(steps: AnySteps, chosen: list[Callable[[AnySteps], str]]) -> int:
    """Runs the scenarios, and returns how many failed."""
    failed = 0
    for scenario in chosen:
        name, started = scenario.__name__.replace("_", " "), time.monotonic()
        try:
            print(f"ok      {name}: {scenario(steps)} ({time.monotonic() - started:.0f} s)", flush=True)
        except Failure as failure:
            failed += 1
            print(f"FAILED  {name}: {failure} ({time.monotonic() - started:.0f} s)", flush=True)
            show_state(steps.cluster)
    return failed


def main(kind: type[AnySteps], scenarios: tuple[Callable[[AnySteps], str], ...], more_images: tuple[Path, ...] = ()) -> int:
    """Makes a cluster, runs the scenarios that the command line names, or all, and takes the cluster down. Loads this tree's
    image and `more_images` into the nodes."""
    end_once_by_signal()
    names = sys.argv[1:]
    chosen = [one for one in scenarios if not names or one.__name__ in names]
    if unknown := set(names) - {one.__name__ for one in scenarios}:
        print(f"there is no scenario {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    needed = [(IMAGE, "make image"), (Path(BERTHCTL), "make"), *((one, "tools/make-earlier-image") for one in more_images)]
    for file, remedy in needed:
        if not file.exists():
            print(f"{file} is missing: run \"{remedy}\"", file=sys.stderr)
            return 1
    failed = len(chosen)
    folder = tempfile.mkdtemp(prefix="berth-scenarios.")
    cluster = Cluster(folder + "/c", nodes=2, images=(IMAGE, *more_images))
    try:
        cluster.up()
        steps = kind(cluster)
        steps.install()
        failed = go_through(steps, chosen)
    except Failure as failure:
        print(f"FAILED  berth is not installed: {failure}", flush=True)
        show_state(cluster)
    finally:
        cluster.down()
    if failed:
        print(f"logs are kept in {folder}")
    else:
        shutil.rmtree(folder)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0
