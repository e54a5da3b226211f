"""A cluster of e2e/cluster for its administrator: kubectl, nodes, the processes of pods, and the pods' addresses.

Functions raise Failure on errors, because the scenario cannot continue.
"""
import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CLUSTER = str(ROOT / "e2e" / "cluster")
BERTHCTL = str(ROOT / "build" / "bin" / "berthctl")
NETNS_OF_SANDBOXES = "state/io.containerd.grpc.v1.cri/netns"  # in a node's folder
# The kubelet mounts a file of the pod's folder into each container of a pod, except the sandbox.
HOSTS_OF_POD = re.compile(r"/pods/([0-9a-f-]{36})/etc-hosts /etc/hosts ")


class Failure(Exception):
    """A scenario has failed."""


def run(*command: str, stdin: str | None = None, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, input=stdin, env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)[:200]}: {(done.stderr.strip() or done.stdout.strip())[-600:]}")
    return done.stdout


def end_once_by_signal() -> None:
    """SIGINT and SIGTERM raise SystemExit, so that the program takes its cluster down. A further signal does not interrupt this."""
    def end(number: int, _: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)


def until(what: str, limit: float, condition: Callable[[], object], pause: float = 0.2) -> float:
    """Waits until the condition is true, and returns the seconds. An exception of the condition counts as false."""
    start = time.monotonic()
    said: object = ""
    while time.monotonic() - start < limit:
        try:
            if condition():
                took = time.monotonic() - start
                if took <= limit:
                    return took
                said = f"but after {took:.1f} s"
        except Failure as failure:
            said = failure
        time.sleep(pause)
    raise Failure(f"not within {limit:g} s: {what} {said}".strip())


@dataclass
class Node:
    name: str
    home: Path
    netns: str
    mounts_pid: str
    containerd_socket: str

    def inside(self, *command: str) -> list[str]:
        """The command line that runs the command like a process of the node's runtime."""
        return ["nsenter", f"--net={self.netns}", f"--mount=/proc/{self.mounts_pid}/ns/mnt", *command]

    def inside_mounts(self, *command: str) -> list[str]:
        """The command line that runs the command with the node's files."""
        return ["nsenter", f"--mount=/proc/{self.mounts_pid}/ns/mnt", *command]

    def has_agent(self) -> bool:
        """Whether an agent that has loaded its blocks answers on the node."""
        folder = os.open(self.home / "run" / "berth", os.O_PATH)
        try:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                # The path of the node's folder may be longer than a socket's address allows.
                connection.connect(f"/proc/self/fd/{folder}/agent.sock")
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: berth\r\n\r\n")
                return connection.recv(64).startswith(b"HTTP/1.1 200")
        finally:
            os.close(folder)
        return False


class Cluster:
    def __init__(self, directory: str, nodes: int, images: Iterable[Path] = ()):
        self.directory = directory
        self._count = nodes
        self._images = images
        self._environment: dict[str, str] = {}

    def tool(self, command: str, *arguments: str) -> str:
        return run(CLUSTER, command, *arguments, "--dir", self.directory)

    def up(self) -> None:
        of_nodes = ["--cni-conf", "none", *(f"--image={image}" for image in self._images)] if self._count else []
        self.tool("up", "--nodes", str(self._count), *of_nodes)
        self.refresh()

    def down(self) -> None:
        self.tool("down")

    def refresh(self) -> None:
        """Reads the cluster's environment again, because a restarted process has another process ID."""
        text = run("bash", "-c", f'eval "$({shlex.quote(CLUSTER)} env --dir {shlex.quote(self.directory)})"; env -0')
        self._environment = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)

    @property
    def nodes(self) -> list[Node]:
        def value(index: int, name: str) -> str:
            return self._environment[f"BERTH_NODE{index}_{name}"]

        return [Node(name=value(i, "NAME"), home=Path(self.directory).resolve() / value(i, "NAME"), netns=value(i, "NETNS"),
                     mounts_pid=value(i, "MOUNTS_PID"), containerd_socket=value(i, "CONTAINERD_SOCKET"))
                for i in itertools.takewhile(lambda i: f"BERTH_NODE{i}_NAME" in self._environment, itertools.count(1))]

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: str | None = None) -> str:
        environment = self._environment | ({"KUBECONFIG": kubeconfig} if kubeconfig else {})
        return run("kubectl", *arguments, stdin=stdin, environment=environment)

    def get(self, *arguments: str) -> dict:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def items(self, *arguments: str) -> list[dict]:
        return self.get(*arguments)["items"]

    # --- Processes --------------------------------------------------------------------------------------------------

    def process_of(self, pod: dict) -> int:
        """The PID of berth's program in the pod, which is the first process of its container."""
        uid = pod["metadata"]["uid"]
        for pid, owner in _processes_of_pods():
            with contextlib.suppress(OSError):
                if owner == uid and "berth-" in os.readlink(f"/proc/{pid}/exe") and _is_first(pid):
                    return pid
        raise Failure(f"no process of berth runs in {pod['metadata']['name']}")

    def berth_pods(self, component: str) -> list[dict]:
        return self.items("pods", "-n", "berth-system", "-l", f"app.kubernetes.io/component={component}")

    def agent_on(self, node: Node) -> int:
        return next(self.process_of(pod) for pod in self.berth_pods("agent") if pod["spec"]["nodeName"] == node.name)

    def restart(self, name: str) -> None:
        self.tool("stop", name, "--kill")
        self.tool("start", name)
        self.refresh()

    def kill_node(self, node: Node) -> None:
        """Kills the node's kubelet and containerd. The processes in its containers run on."""
        self.tool("stop", f"kubelet-{node.name}", "--kill")
        self.tool("stop", f"containerd-{node.name}", "--kill")

    def start_node(self, node: Node) -> None:
        self.tool("start", f"containerd-{node.name}")
        # Without a runtime the kubelet would end, and here nothing starts it again.
        until("containerd serves", 30, lambda: run("ctr", "--address", node.containerd_socket, "version",
                                                   environment=self._environment))
        self.tool("start", f"kubelet-{node.name}")
        self.refresh()

    def power_off(self, node: Node) -> None:
        """Like a loss of power: kills every process at once, and removes the files that are not on disk."""
        self.kill_node(node)
        shims = list(_shims_of(node))
        ended = shims + [pid for shim in shims for pid in _children_of(shim)]
        for pid in ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(f"the processes of {node.name} are gone", 20, lambda: not any(Path(f"/proc/{pid}").exists() for pid in ended))
        inside = (f"{node.home}/state/", "/run/containerd/", "/run/netns/cni-")
        mounts = [line.split()[4] for line in Path(f"/proc/{node.mounts_pid}/mountinfo").read_text().splitlines()]
        for point in sorted((point for point in mounts if point.startswith(inside)), reverse=True):
            run(*node.inside("umount", "--lazy", point))
            if point.startswith("/run/netns/"):
                Path(point).unlink(missing_ok=True)
        for folder in ("run/berth", "run/containerd", "state"):
            run("find", str(node.home / folder), "-mindepth", "1", "-delete")

    @contextlib.contextmanager
    def cut_off(self, node: Node) -> Iterator[None]:
        """Cuts the node off from all other machines until the end of the `with` block."""
        space = ("ip", "-n", node.netns.rsplit("/", 1)[1], "-json")
        device = json.loads(run(*space, "route", "show", "default"))[0]["dev"]
        # Takes down the other end of the link: if the node's own end went down, the node would lose its routes.
        peer = json.loads(run(*space, "link", "show", device))[0]["link_index"]
        name = next(link["ifname"] for link in json.loads(run("ip", "-json", "link")) if link["ifindex"] == peer)
        change = ("ip", "link", "set", name)
        run(*change, "down")
        try:
            yield
        finally:
            run(*change, "up")

    @property
    def kubeconfig(self) -> str:
        return self._environment["KUBECONFIG"]

    def api_server(self) -> int:
        return int(self._environment["BERTH_APISERVER_PID"])

    # --- etcd -------------------------------------------------------------------------------------------------------

    def save_etcd(self, file: Path) -> None:
        """Makes a snapshot of etcd's present data. Stops etcd first, because only then are its files complete."""
        database = Path(self.directory) / "etcd" / "member" / "snap" / "db"
        self.tool("stop", "etcd")
        shutil.copyfile(database, file)
        self.tool("start", "etcd")
        self.refresh()

    def restore_etcd(self, file: Path, ended_meanwhile: Iterable[int] = ()) -> None:
        """Restores etcd as the guides of etcd and Kubernetes say: stops the API servers, and versions do not go back. Kills the
        processes `ended_meanwhile` before the API server is back."""
        wanted = ("--name=", "--data-dir=", "--initial-cluster=", "--initial-advertise-peer-urls=")
        words = Path(f"/proc/{self._environment['BERTH_ETCD_PID']}/cmdline").read_text().split("\0")
        options = [word for word in words if word.startswith(wanted)]
        self.tool("stop-apiserver", "--kill")
        self.tool("stop", "etcd", "--kill")
        shutil.rmtree(Path(self.directory) / "etcd")
        run("etcdutl", "snapshot", "restore", str(file), "--skip-hash-check", "--bump-revision=1000000000", "--mark-compacted",
            *options, environment=self._environment)
        for pid in ended_meanwhile:
            os.kill(pid, signal.SIGKILL)
        self.tool("start", "etcd")
        self.tool("start-apiserver")
        self.refresh()

    # --- Pods and addresses -----------------------------------------------------------------------------------------

    def pods(self) -> list[dict]:
        return self.items("pods")

    def used(self) -> int:
        """Number of addresses with an entry."""
        return sum(block["used"] for block in self.items("ipblocks"))

    def addresses(self) -> dict[str, set[str]]:
        """The addresses of running pods, by name, from the network namespaces of their processes."""
        pids = {uid: pid for pid, uid in _processes_of_pods()}
        found: dict[str, set[str]] = {}
        owners: dict[str, str] = {}
        for pod in self.pods():
            name = pod["metadata"]["name"]
            if pod["status"]["phase"] != "Running" or "deletionTimestamp" in pod["metadata"]:
                continue
            if (pid := pids.get(pod["metadata"]["uid"])) is None:
                raise Failure(f"{name} is said to run, and no process of it does")
            links = json.loads(run("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-json", "address"))
            found[name] = {one["local"] for link in links if link["ifname"] == "eth0" for one in link["addr_info"]
                           if one["scope"] == "global"}
            told = {one["ip"] for one in pod["status"].get("podIPs", [])}
            if told != found[name] or len(told) != 2:
                raise Failure(f"{name} has {sorted(found[name])} and is said to have {sorted(told)}")
            for address in told:
                if other := owners.get(address):
                    raise Failure(f"{address} is that of {name} and of {other}")
                owners[address] = name
        return found

    def findings_on(self, node: Node, settle: int) -> list[dict]:
        """The findings of `berthctl check` on the node, which also reads the network namespaces of pods."""
        namespaces = f"{node.home}/{NETNS_OF_SANDBOXES}"
        command = node.inside_mounts(BERTHCTL, "check", "--settle", str(settle), "--node", node.name, "--netns", namespaces,
                                     "-o", "json")
        done = subprocess.run(command, env=self._environment, text=True, capture_output=True, check=False)
        if done.returncode not in (0, 1):
            raise Failure(f"berthctl on {node.name}: {done.stderr.strip()[-600:]}")
        return json.loads(done.stdout)["findings"]

    def await_no_findings(self, limit: float) -> float:
        def condition() -> bool:
            found = [f"{node.name}: {one}" for node in self.nodes for one in self.findings_on(node, settle=3)]
            if found:
                raise Failure("; ".join(found)[:1500])
            return True

        return until("nothing is wrong on any node", limit, condition, pause=1)

    def await_pods(self, count: int, limit: float) -> float:
        """Waits until exactly `count` pods exist and all run. Then checks that each address belongs to one pod, and that the
        entries say the same."""

        def condition() -> bool:
            pods = self.pods()
            if failed := [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Failed"]:
                raise Failure(f"failed for good: {failed}")
            running = sum(pod["status"]["phase"] == "Running" and bool(pod["status"].get("podIPs")) for pod in pods)
            if len(pods) != count or running != count:
                raise Failure(f"({len(pods)} pods, {running} running)")
            return len(self.addresses()) == count

        took = until(f"{count} pods with addresses", limit, condition, pause=1)
        until("the record is right", 90, lambda: run(BERTHCTL, "check", "--settle", "2", environment=self._environment))
        return took


def _is_first(pid: int) -> bool:
    """Whether the process is the first in its container. Probes also run in the container, for a moment."""
    status = Path(f"/proc/{pid}/status").read_text()
    return re.search(r"^NSpid:.*\s1$", status, re.MULTILINE) is not None


def _processes_of_pods() -> Iterator[tuple[int, str]]:
    """The processes of all pods on this machine: PID and the pod's UID."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if found := HOSTS_OF_POD.search((folder / "mountinfo").read_text()):
                yield int(folder.name), found[1]


def _shims_of(node: Node) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"containerd-shim" in words[0] and node.containerd_socket.encode() in words:
                yield int(folder.name)


def _children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def cpu_seconds(pid: int) -> float:
    """CPU seconds that the process's threads have used. (The process's own stat counts in hundredths of a second.)"""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise Failure(f"process {pid} has no memory")
