#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts the power of a node of a running cluster (off), starts the node again (on), or does both.

    e2e/scenarios/power.py DIR NODE off [on] | on    DIR: the folder that was given to e2e/cluster up
"""
import argparse

from cluster import Cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("node")
    parser.add_argument("verbs", nargs="+", choices=("off", "on"))
    arguments = parser.parse_args()
    cluster = Cluster(arguments.dir, nodes=0)
    cluster.refresh()
    node = next(one for one in cluster.nodes if one.name == arguments.node)
    for verb in arguments.verbs:
        if verb == "off":
            cluster.power_off(node)
        else:
            cluster.start_node(node)


if __name__ == "__main__":
    main()
