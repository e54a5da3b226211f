"""Tries every write with a node's credentials on berth's objects that do not belong to the node. Sends the requests directly
to the API server, because kubectl would first read objects that the credentials may not read.
"""
import base64
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from cluster import Cluster, Failure, Node

API = "/apis/ipam.berth.dev/v1alpha1"
OF_ANY_OBJECT: tuple[dict, ...] = (
    {"metadata": {"annotations": {"stolen": "yes"}}},
    {"metadata": {"labels": {"stolen": "yes"}}},
    {"metadata": {"finalizers": None}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "gone"}]}},
)


def patches_of(one: dict) -> list[dict]:
    """Patches that the API server would accept from a caller with the right."""
    patches = list(OF_ANY_OBJECT)
    if one["kind"] == "IPPool":
        patches += [{"spec": {"disabled": True}}, {"status": {"claimable": []}}]
    if one["kind"] == "IPBlock":
        held, free = one["allocations"], next(str(offset) for offset in range(8, 60) if str(offset) not in one["allocations"])
        mine = "team/thief 6f1d 0123456789ab-0123456789abcdef i=eth0 t=1"
        # The patch must change something, because the policy allows every caller a write without a change.
        standby = None if one.get("standby") else [int(free)]
        patches += [{"agent": "stolen.1"}, {"standby": standby}, {"allocations": {free: mine}, "used": len(held) + 1}]
        patches += [{"allocations": {offset: None}, "used": len(held) - 1} for offset in held]
        patches += [{"allocations": {offset: mine}} for offset in held]
    return patches


class Credentials:
    """The credentials of one user: a token or a client certificate."""

    def __init__(self, name: str, kubeconfig: dict, token: str = ""):
        self.name = name
        cluster = kubeconfig["clusters"][0]["cluster"]
        self._server = urlsplit(cluster["server"]).netloc
        self._headers = {"Content-Type": "application/merge-patch+json"}
        self._context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        else:
            user = kubeconfig["users"][0]["user"]
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                for part in ("client-certificate-data", "client-key-data"):
                    file.write(base64.b64decode(user[part]))
                file.flush()
                self._context.load_cert_chain(file.name)

    def ask(self, method: str, path: str, body: dict | None = None) -> tuple[int, str]:
        """Sends a request, and returns the answer's status and text."""
        connection = http.client.HTTPSConnection(self._server, context=self._context, timeout=30)
        try:
            content = {"Content-Type": "application/json"} if method == "POST" else {}
            connection.request(method, path, json.dumps(body) if body else None, self._headers | content)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def of_agent(cluster: Cluster, node: Node) -> Credentials:
    token = Path(f"/proc/{cluster.agent_on(node)}/root/var/run/secrets/kubernetes.io/serviceaccount/token").read_text()
    return Credentials(f"the agent's token of {node.name}", _admin(cluster), token)


def of_kubelet(cluster: Cluster, node: Node) -> Credentials:
    text = cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json", kubeconfig=str(node.home / "kubelet.kubeconfig"))
    return Credentials(f"the kubelet's certificate of {node.name}", json.loads(text))


def of_admin(cluster: Cluster) -> Credentials:
    return Credentials("the administrator", _admin(cluster))


def _admin(cluster: Cluster) -> dict:
    return json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))


def try_all(credentials: Credentials, objects: list[dict]) -> int:
    """Tries all writes, and returns how many were refused. Raises Failure for the first write that was not refused."""
    count = 0

    def refused(method: str, path: str, body: dict | None = None) -> None:
        nonlocal count
        count += 1
        status, text = credentials.ask(method, path, body)
        # 422 comes from a policy or from a schema; a schema's 422 proves nothing about rights.
        if status not in (403, 404, 405) and not (status == 422 and "ValidatingAdmissionPolicy 'berth-blocks'" in text):
            raise Failure(f"{credentials.name}: {method} {path} {json.dumps(body)[:120]} was answered {status}: {text[:300]}")

    for one in objects:
        meta = one["metadata"]
        scope = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        collection = f"{API}{scope}/{one['kind'].lower()}s"
        path = f"{collection}/{meta['name']}"
        for patch in patches_of(one):
            refused("PATCH", path, patch)
            refused("PATCH", f"{path}/status", patch)
        refused("PUT", path, one)
        refused("DELETE", path)
        refused("DELETE", collection)
        refused("POST", collection, one | {"metadata": {"name": meta["name"], "finalizers": meta.get("finalizers", [])}})
    return count
