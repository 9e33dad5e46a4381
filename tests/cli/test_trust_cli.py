"""An untrusted folder: no command sends a key, runs code, reads a file or writes one because of its
settings file.
"""

import pytest

COMMANDS = [
    ("score", "in.jsonl"),
    ("score", "in.jsonl", "--dry-run"),
    ("validate", "in.jsonl"),
    ("compare", "-p", "Q?", "one", "two"),
    ("show", "in.jsonl", "--as-judge"),
    ("eval", "pairs.jsonl"),
    ("config",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_hostile_folder_gets_nothing(genrm, call, judge_server, command):
    """Every command ends with 2 and names file, setting and remedies; nothing is sent, run or
    written.
    """
    genrm.rollouts(1, 2)
    genrm.write(
        "pairs.jsonl",
        [
            {
                "prompt": "Q?",
                "chosen": "good",
                "rejected": "bad",
            }
        ],
    )
    (genrm.folder / "mine.py").write_text(
        "open('owned', 'w')\ndef f(group): return [1.0] * len(group)\n"
    )
    (genrm.folder / "genrm.toml").write_text(
        f"base_url = '{judge_server.base_url}'\nmodel = 'm'\n"
        "api_key_env = 'AWS_SECRET_ACCESS_KEY'\nlog_json = 'events'\noutput = 'mine.py'\nforce = "
        "true\n"
        f"principle = '@/etc/passwd'\n[components.x]\npython = 'mine:f'\n"
    )
    before = genrm.names()
    finished = call(
        *command, GENRM_API_KEY="key-of-the-user", AWS_SECRET_ACCESS_KEY="another"
    ).ended(2)
    assert finished.out == b""
    for word in (
        "base_url",
        "api_key_env",
        "components",
        "--config genrm.toml",
        "genrm trust .",
    ):
        assert word in finished.err
    assert judge_server.stats()["requests"] == 0
    assert genrm.names() == before


def test_a_trusted_folder_works_until_its_settings_change(genrm, call, judge_server):
    """`genrm trust .` says what it allows; --remove ends it."""
    genrm.rollouts(1, 2)
    file = genrm.folder / "genrm.toml"
    file.write_text(f"base_url = '{judge_server.base_url}'\nmodel = 'm'\n")
    call("score in.jsonl").ended(2)
    trusted = call("trust .").ended(0)
    assert trusted.out.decode() == f"{file} is trusted and sets base_url, model\n"
    call("score in.jsonl").ended(0)
    file.write_text(file.read_text().replace("127.0.0.1", "localhost"))
    assert "genrm.toml has changed since you trusted it" in call("score in.jsonl --force").err
    call("trust --remove .").ended(0)
    call("trust --remove .").ended(2)
