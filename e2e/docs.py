#!/usr/bin/env python3
# Runs the commands in README.md and docs/install.md unchanged, on a cluster of two nodes without a network.
#
#   e2e/docs.py             needs root, build/image/berth.tar (make image) and build/bin/berthctl (make)
#   e2e/docs.py --list      prints the blocks and how the script handles each
#   e2e/docs.py --update    also writes the output of the blocks `console` into the documents
#
# The first words behind a fence give the kind of its block:
#   sh               commands, run in the root of the tree
#   sh on-each-node  commands, run on every node, in the folder of the image
#   sh at-the-end    commands, run after all other commands of all documents
#   sh no-test       commands that are not run; a comment "<!-- no test: why -->" must be before the block
#   console          a transcript: lines that begin with "$ " are run, and must print the lines below
#   json file=PATH   the same JSON as in that file
#   yaml kustomization   a kustomization.yaml in a folder beside the tree, whose folder is called berth there
#   yaml, text, mermaid  not run
# Environment variables stay from block to block, as in a person's shell. The last line is "N passed, N failed".
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/install.md")
TRY_FOLDER = "/tmp/try"  # the documents' folder of the cluster; the script replaces it with its own folder
BLOCK_LIMIT_S = 240
KNOWN = (
    ("sh",), ("sh", "on-each-node"), ("sh", "at-the-end"), ("sh", "no-test"), ("console",), ("json",), ("yaml",),
    ("yaml", "kustomization"), ("text",), ("mermaid",),
)


@dataclass
class Block:
    document: str
    line: int  # of the opening fence, from 1
    words: tuple  # behind the fence, without file=PATH
    file: str
    text: str
    comment: str  # the line before the block

    def name(self) -> str:
        first = self.text.strip().split("\n")[0][:70]
        return f"{self.document}:{self.line}: {first}"


def blocks_of(document: str, text: str) -> list[Block]:
    blocks = []
    lines = text.split("\n")
    start, indent = None, ""
    for number, line in enumerate(lines):
        fence = re.match(r"( *)```(.*)$", line)
        if start is None and fence:
            start, indent = number, fence[1]
        elif start is not None and fence and not fence[2]:
            words = lines[start].strip()[3:].split()
            file = next((word[5:] for word in words if word.startswith("file=")), "")
            blocks.append(Block(
                document, start + 1, tuple(word for word in words if not word.startswith("file=")), file,
                "\n".join(body.removeprefix(indent) for body in lines[start + 1 : number]) + "\n",
                lines[start - 1].strip() if start else "",
            ))
            start = None
    if start is not None:
        raise ValueError(f"{document}:{start + 1}: the block does not end")
    return blocks


def complaint_about(block: Block) -> str:
    """The error in the block's form; empty: no error."""
    if block.words not in KNOWN:
        return f"``` {' '.join(block.words)}: unknown; the top of e2e/docs.py lists the kinds of blocks"
    if block.words == ("sh", "no-test") and not re.match(r"<!-- no test: .+ -->$", block.comment):
        return "no comment before the block says why it is not run: <!-- no test: why -->"
    return ""


def normalised(output: str) -> list[str]:
    """The words of each line, without words that differ from run to run: numbers, ages, times, addresses, node names."""
    lines = []
    for line in output.strip().split("\n"):
        line = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", line)
        line = re.sub(r"\b[0-9a-f]{12}-[0-9a-f]{16}\b", "ATTACHMENT", line)
        line = re.sub(r"10\.55\.\d+\.\d+", "IPV4", line)
        line = re.sub(r"2001[:-]db8[:-]55(::|--)[0-9a-f]{1,4}", "IPV6", line)
        line = re.sub(r"\bn[12]\b", "NODE", line)
        line = re.sub(r"\b\d+(\.\d+)?([smhd]\d*)*\b", "N", line)
        lines.append(" ".join(line.split()))
    return lines


def differences(written: str, now: str) -> list[str]:
    """Lines of the document that the command does not print now. The command may print more lines, because a node claims
    blocks in advance."""
    printed = set(normalised(now))
    return [line for line in normalised(written) if line not in printed]


class Reader:
    """A person at a terminal, who types the blocks."""

    def __init__(self, work: Path):
        self.work = work
        self.dir = work / "c"
        self.state = work / "environment"
        self.state.write_text("")
        self.nodes = 0

    def shell(self, text: str, folder: Path = ROOT, before: str = "") -> str:
        """Runs the commands until one fails, and keeps their environment for the next call. Returns the output."""
        text = text.replace(TRY_FOLDER, str(self.dir))
        script = f"set -e -o pipefail\n. {self.state}\n{before}\n{text}\nexport -p >{self.state}\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=BLOCK_LIMIT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"it ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def value(self, name: str) -> str:
        return self.shell(f'printf %s "${{{name}:-}}"')

    def on_each_node(self, text: str) -> None:
        for index in range(1, int(self.value("BERTH_NODES") or 0) + 1):
            pid = self.value(f"BERTH_NODE{index}_MOUNTS_PID")
            script = self.work / f"node{index}.sh"
            script.write_text(f"set -e -o pipefail\ncd {ROOT}/build/image\n{text}")
            self.shell(
                f"CONTAINERD_ADDRESS=$BERTH_NODE{index}_CONTAINERD_SOCKET nsenter --mount=/proc/{pid}/ns/mnt "
                f"--net=$BERTH_NODE{index}_NETNS bash {script}"
            )

    def kustomization(self, text: str) -> str:
        """Makes a folder with the kustomization, and returns kustomize's output."""
        folder = self.work / "mine"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        link = self.work / "berth"
        if not link.exists():
            # A copy, because kustomize follows no link out of its folder.
            shutil.copytree(ROOT / "install", link / "install")
        shutil.copy(ROOT / "install/overlays/example-bridge/10-berth.conflist", folder)
        (folder / "kustomization.yaml").write_text(text)
        return self.shell(f"kubectl kustomize {folder}")

    def transcript(self, text: str) -> list[tuple[str, str, str]]:
        """Runs the commands of a block `console`. Returns (command, output in the document, output now) for each."""
        results = []
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, written = part.partition("\n")
            results.append((command, written.strip("\n"), self.shell(command).strip("\n")))
        return results


def run(reader: Reader, block: Block, update: bool) -> None:
    """Runs a block. Raises RuntimeError or AssertionError if a command fails or prints other lines than the document."""
    if block.words == ("sh", "on-each-node"):
        reader.on_each_node(block.text)
    elif block.words[0] == "sh":
        reader.shell(block.text)
    elif block.words[0] == "console":
        new = ""
        if update:
            time.sleep(12)  # the controller counts every 10 s
        for command, written, now in reader.transcript(block.text):
            new += f"$ {command}\n{now}\n"
            if not update and differences(written, now):
                raise AssertionError(f"$ {command}\nsays now:\n{now}\nand in the document:\n{written}")
        if update:
            path = ROOT / block.document
            path.write_text(path.read_text().replace(block.text, new))
    elif block.words == ("yaml", "kustomization"):
        if "kind: DaemonSet" not in reader.kustomization(block.text):
            raise AssertionError("it makes no DaemonSet")
    elif block.file:
        if json.loads(block.text) != json.loads((ROOT / block.file).read_text()):
            raise AssertionError(f"it is not what {block.file} says")


def metrics_are_served(reader: Reader) -> None:
    """With the component of docs/install.md, each agent and each controller serves its metrics on a TCP port."""
    text = (ROOT / "docs/install.md").read_text()
    component = next(b for b in blocks_of("", text) if "install/metrics" in b.text)
    overlay = component.text.replace("../berth/install  ", "../berth/install/overlays/example-bridge  ")
    reader.kustomization(overlay)
    reader.shell(f"kubectl apply -k {reader.work}/mine")
    reader.shell("kubectl -n berth-system rollout status daemonset/berth-agent deployment/berth-controller --timeout=120s")
    deadline = time.monotonic() + 30
    while True:
        agents = controllers = 0
        for index in (1, 2):
            address = reader.value(f"BERTH_NODE{index}_ADDRESS")
            for port in (9745, 9746, 9747):
                output = reader.shell(
                    f"nsenter --net=$BERTH_NODE{index}_NETNS curl -s -m 5 http://{address}:{port}/metrics || true"
                )
                agents += "\nberth_agent_calls_waiting " in output
                controllers += "\nberth_controller_leading " in output
        if (agents, controllers) == (2, 2):
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"metrics of {agents} agents and {controllers} controllers, wanted 2 and 2")
        time.sleep(0.5)


def examples_of(program: Path) -> list[str]:
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    examples = [line.strip() for line in text.partition("Examples:\n")[2].split("\n") if line.strip()]
    if not examples:
        raise AssertionError(f"{program} --help does not end with examples: {text}")
    return examples


def examples_run(reader: Reader) -> None:
    """Runs the examples in the help of the programs: servers on this host, all other programs on a node. /tmp is the test's
    folder."""
    home = reader.work / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube/config").write_text(Path(reader.value("KUBECONFIG")).read_text())
    (home / "tmp/berth").mkdir(parents=True)
    programs = home / "bin"
    programs.mkdir()
    for program in ("berth", "berth-agent", "berth-direct"):
        (programs / program).symlink_to(ROOT / "build/bin" / program)
    (programs / "berth-controller").symlink_to(ROOT / "build/bin/berth-agent")
    environment = os.environ | {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    pid = reader.value("BERTH_NODE1_MOUNTS_PID")
    for program in ("berth-controller", "berth-agent", "berth"):
        servers, sockets = [], []
        for example in examples_of(programs / program):
            line = example.replace("/tmp/", f"{home}/tmp/")
            if "--kubeconfig" in line:
                sockets += [Path(one) for one in re.findall(r"--(?:probe-)?socket[= ](\S+)", line)]
                servers.append(subprocess.Popen(["bash", "-c", f"exec {line}"], env=environment,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                continue
            node = [] if str(home) in line else ["nsenter", f"--mount=/proc/{pid}/ns/mnt"]
            deadline = time.monotonic() + 60
            while True:
                done = subprocess.run([*node, "bash", "-c", line], env=environment, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    break
                if time.monotonic() > deadline:
                    raise AssertionError(f"{line}: {done.returncode}\n{done.stdout}{done.stderr}")
                time.sleep(0.2)
        deadline = time.monotonic() + 60
        while not all(one.exists() for one in sockets):
            if time.monotonic() > deadline:
                raise AssertionError(f"an example of {program} made none of its sockets: {sockets}")
            time.sleep(0.2)
        for server in servers:
            server.terminate()
            if server.wait(30) != 0:
                raise AssertionError(f"a server of {program}'s examples ended with {server.returncode}")


def end_once_by_signal() -> None:
    """SIGINT and SIGTERM raise SystemExit, so that the program takes its cluster down. A further signal does not interrupt this."""
    def end(number: int, _: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)


def main() -> int:
    blocks = []
    for document in DOCUMENTS:
        blocks += blocks_of(document, (ROOT / document).read_text())
    if "--list" in sys.argv:
        for block in blocks:
            print(f"{' '.join(block.words):<20} {block.name()}")
        return 0
    update = "--update" in sys.argv
    for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS", "BERTH_USE_EXISTING_CLUSTER"):
        os.environ.pop(name, None)
    end_once_by_signal()
    work = Path(tempfile.mkdtemp(prefix="berth-docs."))
    reader = Reader(work)
    passed = failed = 0
    started = time.monotonic()

    def check(name: str, action) -> bool:
        nonlocal passed, failed
        try:
            action()
        except (RuntimeError, AssertionError, subprocess.TimeoutExpired, OSError, ValueError) as error:
            failed += 1
            print(f"{time.monotonic() - started:4.0f}s  FAIL  {name}\n{error}", flush=True)
            return False
        passed += 1
        print(f"{time.monotonic() - started:4.0f}s  ok    {name}", flush=True)
        return True

    def is_well_formed() -> None:
        wrong = [f"{block.name()}: {complaint_about(block)}" for block in blocks if complaint_about(block)]
        if wrong:
            raise AssertionError("\n".join(wrong))

    goes_on = check("every block says what it is", is_well_formed)
    typed = [block for block in blocks if block.words[:2] not in (("sh", "no-test"), ("sh", "at-the-end"))
             and (block.words[0] in ("sh", "console") or block.file or "kustomization" in block.words)]
    try:
        for block in typed:
            if goes_on and block.document != "README.md" and not reader.nodes:
                reader.nodes = 2
                goes_on = check("the component install/metrics serves metrics", lambda: metrics_are_served(reader))
            # The example of berth-agent adds a node, whose blocks a later `berthctl check` would report.
            if goes_on and "kubectl delete pod hello" in block.text:
                check("the examples in the help of the programs run", lambda: examples_run(reader))
            # After a failed command, later commands would fail too, without new information.
            if goes_on:
                goes_on = check(block.name(), lambda b=block: run(reader, b, update))
                if not goes_on:
                    print(subprocess.run(
                        ["bash", "-c", f". {reader.state}; kubectl get pods,nodes -A -o wide; kubectl get events -A | tail -20"],
                        capture_output=True, text=True, check=False).stdout)
    finally:
        last = [block for block in blocks if block.words == ("sh", "at-the-end")]
        for block in last:
            check(block.name(), lambda b=block: run(reader, b, update))
        if not last:
            subprocess.run([ROOT / "e2e/cluster", "down", "--dir", reader.dir], check=False)
    if failed == 0:
        shutil.rmtree(work)
    else:
        print(f"logs are kept in {work}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
