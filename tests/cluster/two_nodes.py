"""A Ray cluster with two nodes on this machine, until stdin closes."""

import json
import sys

from ray.cluster_utils import Cluster

STORE = {"object_store_memory": 100_000_000}

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **STORE})
second = cluster.add_node(num_cpus=1, **STORE)
print(json.dumps({"address": cluster.address, "raylet": second.all_processes["raylet"][0].process.pid}), flush=True)
sys.stdin.read()
cluster.shutdown()
