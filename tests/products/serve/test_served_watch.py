"""A watched server: windows of its groups, and what it shows of its judge."""

import json
import time

import pytest
from served import REPLY_LIMIT_S, serving

from genrm_cli.watching.sentinels import BASELINE_RUNS

WORDS = "one two three four five six seven eight nine ten"


def prepare(genrm, judge):
    """Write sentinels and settings; return the flags of a server whose windows are two groups."""
    pairs = [
        {
            "prompt": f"Say {n}.",
            "chosen": WORDS[: 20 + n % 20],
            "rejected": WORDS[: 1 + n % 9],
        }
        for n in range(40)
    ]
    (genrm.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (genrm.folder / "history").mkdir(exist_ok=True)
    history = genrm.folder / "history"
    (genrm.folder / "watch.toml").write_text(
        f'[watch]\nsentinels = "pairs.jsonl"\nhistory = "{history}"\n'
    )
    return (
        "--config",
        "watch.toml",
        *judge.flags,
        "--no-probe",
        "--groups-per-step",
        2,
    )


def judge_window(server, name):
    """Judge two groups of twelve, and wait for the state of the judge after this window."""
    before = server.get("/v1/watch").json().get("dump")
    for group in range(2):
        server.group(
            messages=f"Question {name}.{group}",
            responses=[{"text": WORDS[: 3 + 3 * n]} for n in range(12)],
        )
    give_up_at = time.monotonic() + REPLY_LIMIT_S
    while (found := server.get("/v1/watch").json()).get("dump") == before:
        if time.monotonic() > give_up_at:
            raise TimeoutError(str(found))
        time.sleep(0.02)
    return dict(found)


@pytest.mark.slow
def test_a_server_tells_when_its_judge_was_replaced(genrm, judge_server):
    """Blind until ten windows have asked about the sentinels. Another judge is a look, and a stop
    when the next server confirms it.
    """
    flags = prepare(genrm, judge_server)
    with serving(genrm, *flags) as server:
        assert server.get("/v1/watch").json() == {
            "state": "blind",
            "reasons": ["no window has ended yet"],
        }
        assert judge_window(server, "a")["state"] == "blind"
        assert 'genrm_watch_state{state="blind"} 1.0' in server.get("/metrics").text
    (recorded,) = (genrm.folder / "history").glob("*.metrics.json")
    record = json.loads(recorded.read_text())
    for number in range(1, BASELINE_RUNS):
        write_window(recorded, record, number)
    judge_server.behave(verdict="hash")
    states = []
    for name in ("b", "c"):
        with serving(genrm, *flags) as server:
            states.append(judge_window(server, name)["signals"]["sentinel_flips"]["state"])
    assert states == ["look", "stop"]


def write_window(recorded, record, number):
    """Write the window of a server that asked about the sentinels and heard the same."""
    watch = record["watch"] | {"asked": str(number)}
    path = recorded.parent / f"window-{number}.metrics.json"
    path.write_text(json.dumps(record | {"watch": watch, "output": f"{recorded.parent}/{number}"}))


@pytest.mark.slow
def test_a_server_with_an_unreadable_history_is_blind(genrm, judge_server):
    """The file that cannot be read is a reason in each window."""
    flags = prepare(genrm, judge_server)
    (genrm.folder / "history" / "torn.metrics.json").write_text("{")
    with serving(genrm, *flags) as server:
        found = judge_window(server, "a")
    assert found["state"] == "blind"
    assert "torn.metrics.json" in found["reasons"][-1]


@pytest.mark.slow
def test_a_server_without_a_watch_table_says_so(genrm, judge_server):
    """The page is 404, with the table that is missing."""
    with serving(genrm, *judge_server.flags, "--no-probe") as server:
        reply = server.get("/v1/watch")
    assert reply.status_code == 404
    assert "[watch]" in reply.json()["error"]["message"]
