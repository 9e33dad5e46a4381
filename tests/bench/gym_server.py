"""Serve NeMo Gym's own `genrm_compare`: `gym_server.py PORT JUDGE_PORT SIZE`, in an environment
with nemo-gym 0.4.0. The judge stands for NeMo Gym's model server, which would be one more process.
"""

import os
import sys

os.environ["NEMO_GYM_CONFIG_DICT"] = "{}"

import uvicorn
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from resources_servers.genrm_compare.app import GenRMCompareConfig, GenRMCompareResourcesServer


def main() -> None:
    """Serve until the process is ended."""
    port, judge_port, size = map(int, sys.argv[1:])
    model = {"entrypoint": "app.py", "host": "127.0.0.1", "port": judge_port}
    names = OmegaConf.create({"genrm_model": {"responses_api_models": {"genrm_model": model}}})
    client = ServerClient.model_construct(head_server_config=None, global_config_dict=names)
    config = GenRMCompareConfig.model_validate(
        {
            "name": "genrm_compare",
            "host": "127.0.0.1",
            "port": port,
            "entrypoint": "app.py",
            "domain": "rlhf",
            "genrm_model_server": {"type": "responses_api_models", "name": "genrm_model"},
            "genrm_responses_create_params": {"input": []},
            "num_rollouts_per_prompt": size,
        }
    )
    server = GenRMCompareResourcesServer(config=config, server_client=client)
    uvicorn.run(server.setup_webserver(), host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main()
