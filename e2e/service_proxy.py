#!/usr/bin/env python3
# Replaces kube-proxy, which e2e/cluster does not run: forwards each TCP connection to the endpoint that an EndpointSlice contains
# at that time.
#
#   e2e/service_proxy.py PORT NAMESPACE SLICE     listens on 127.0.0.1; runs kubectl once a second
import json
import socket
import subprocess
import sys
import threading
import time

PERIOD_S = 1


class Endpoint:
    """The endpoint in the slice; None if there is none."""

    def __init__(self, namespace: str, name: str) -> None:
        self.command = ["kubectl", "--namespace", namespace, "get", "endpointslice", name, "-o", "json"]
        self.place: tuple[str, int] | None = None

    def follow(self) -> None:
        while True:
            found = subprocess.run(self.command, capture_output=True, check=False)
            if found.returncode == 0:
                piece = json.loads(found.stdout)
                self.place = (piece["endpoints"][0]["addresses"][0], piece["ports"][0]["port"])
            time.sleep(PERIOD_S)


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(caller: socket.socket, place: tuple) -> None:
    try:
        with caller, socket.create_connection(place, timeout=2) as server:
            server.settimeout(None)
            back = threading.Thread(target=pump, args=(server, caller), daemon=True)
            back.start()
            pump(caller, server)
            back.join()
    except OSError:
        pass


def main() -> None:
    endpoint = Endpoint(*sys.argv[2:4])
    threading.Thread(target=endpoint.follow, daemon=True).start()
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        while True:
            caller, _ = listener.accept()
            if endpoint.place:
                threading.Thread(target=serve, args=(caller, endpoint.place), daemon=True).start()
            else:
                caller.close()


if __name__ == "__main__":
    main()
