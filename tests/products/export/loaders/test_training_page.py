"""The guide's page from rollouts to a trained model, run as it stands."""

import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from genrm_process import PACKAGE_ROOT

PAGE = (PACKAGE_ROOT / "genrm_cli" / "guide" / "training.md").read_text(encoding="utf-8")
WAIT = (
    "import socket, sys, time\nwhile socket.socket().connect_ex(('127.0.0.1', "
    "int(sys.argv[1]))): time.sleep(0.1)\n"
)


@pytest.mark.loader("trl", "datasets")
@pytest.mark.timeout(1800)
def test_the_page_trains_a_better_model(no_hub, tmp_path):
    """Its files and commands end without an error; after DPO and GRPO the mean reward is higher,
    and fewer are rude.
    """
    with socket.socket() as one, socket.socket() as other:  # both at once, so that they differ
        ports = {name: _port_of(each) for name, each in (("8000", one), ("8330", other))}
    for name, text in re.findall(
        r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    ):
        (tmp_path / name).write_text(_with_ports(text, ports))
    lines = [
        "set -e",
        f'python() {{ {sys.executable} "$@"; }}',
        'genrm() { python -m genrm_cli "$@"; }',
    ]
    for command in re.findall(r"^\$ (.*)", PAGE, re.MULTILINE):
        lines.append(_with_ports(command, ports))
        if command.endswith("&"):
            served = ports["8330" if "serve" in command else "8000"]
            lines[-1] = lines[-1].replace(
                "--ring-k 2 &", f"--ring-k 2 --listen 127.0.0.1:{served} &"
            )
            lines.append(f'python -c "{WAIT}" {served}')
    (tmp_path / "page.sh").write_text("\n".join(lines))
    process = subprocess.Popen(
        ["/bin/bash", "page.sh"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE_ROOT),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        found = {}
        said = []
        for line in process.stdout:
            said.append(line.decode())
            if match := re.match(rb"(\w+) +mean reward ([\d.]+), rude (\d+)%", line):
                found[match[1].decode()] = (float(match[2]), int(match[3]))
            if len(found) == 3:
                break
        assert set(found) == {"policy", "dpo", "grpo"}, "".join(said)[-3000:]
        for name in ("dpo", "grpo"):
            assert found[name][0] > found["policy"][0] + 0.2, found
            assert found[name][1] < found["policy"][1] - 5, found
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _port_of(bound):
    bound.bind(("127.0.0.1", 0))
    return str(bound.getsockname()[1])


def _with_ports(text, ports):
    return re.sub(r"\b(8000|8330)\b", lambda match: ports[match[0]], text)
