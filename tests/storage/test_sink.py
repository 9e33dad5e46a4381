import os
import stat
import subprocess
import sys

import pytest
from processes import run_program, start_process

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.storage.local.sinks import reserve_and_replace
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.store import Store

STORE = Store()


def _open(path, *, overwrite=False):
    return STORE.open_sink(str(path), overwrite=overwrite)


def test_link_stays_a_link(tmp_path):
    """Without overwrite a link is refused, a dangling one as well; overwriting replaces what it
    points to.
    """
    link = tmp_path / "link.jsonl"
    link.symlink_to("real.jsonl")
    with pytest.raises(UsageError, match="force"):
        _open(link)
    (tmp_path / "real.jsonl").write_bytes(b"old")
    sink = _open(link, overwrite=True)
    sink.write(b"new")
    sink.commit()
    assert link.is_symlink()
    assert (tmp_path / "real.jsonl").read_bytes() == b"new"


def test_without_hard_links_nothing_is_replaced_either(tmp_path):
    """The way for file systems without hard links refuses an existing target too."""
    temp = tmp_path / "temp"
    target = tmp_path / "out.jsonl"
    temp.write_bytes(b"ours")
    reserve_and_replace(temp, target)
    assert target.read_bytes() == b"ours"
    temp.write_bytes(b"more")
    with pytest.raises(FileExistsError):
        reserve_and_replace(temp, target)
    assert target.read_bytes() == b"ours"


def test_full_disk_leaves_the_old_output(tmp_path):
    """A full disk is a `StorageError`; the old file stays intact and no other file remains."""
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"old")
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, {2**63 - 1}))\n"
        "from genrm_cli.errors import StorageError\n"
        "from genrm_cli.storage.store import Store\n"
        "from genrm_cli.storage.outputs import Outputs\n"
        "try:\n"
        "    with Outputs(Store(), overwrite=True) as outputs:\n"
        "        sink = outputs.open(sys.argv[1])\n"
        "        for _ in range(8): sink.write(bytes(1 << 20))\n"
        "        outputs.commit()\n"
        "except StorageError as error: print(error)\n"
    )
    done = run_program(script, path)
    assert done.stdout.startswith(f"{path}: cannot be written: File too large; free some disk")
    assert done.stderr == ""
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_missing_folder_is_a_storage_error(tmp_path):
    """The message names the folder and says to create it; so does the check before a run."""
    (tmp_path / "file").write_bytes(b"")
    for name in ["gone/out.jsonl", "file/out.jsonl"]:
        with pytest.raises(StorageError, match=r"the folder .* does not exist; create it"):
            STORE.at(str(tmp_path / name)).check_writable()
        with pytest.raises(StorageError, match=r"the folder .* does not exist; create it"):
            _open(tmp_path / name)


def test_folder_is_no_output(tmp_path):
    """A target that is a folder is refused by the check before a run."""
    with pytest.raises(StorageError, match="is a folder"):
        STORE.at(str(tmp_path)).check_writable()


def test_folder_without_permission_is_a_storage_error(tmp_path):
    """The check before a run says that permission is missing."""
    tmp_path.chmod(0o555)
    script = (
        "import os\n"
        "from genrm_cli.errors import StorageError\n"
        "from genrm_cli.storage.store import Store\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"  # root may write everywhere
        "try: Store().at('out.jsonl').check_writable()\n"
        "except StorageError as error: print(error)\n"
    )
    done = run_program(script, cwd=tmp_path)
    assert done.stdout.startswith("out.jsonl: permission denied; make it and its folder writable")


def test_device_is_written_to_and_never_replaced():
    """`/dev/null` takes an output and stays a device; `/dev/full` is a full disk."""
    sink = STORE.open_sink("/dev/null", overwrite=True)
    sink.write(b"{}\n")
    sink.commit()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not STORE.at("/dev/null").exists()
    full = STORE.open_sink("/dev/full", overwrite=False)
    with pytest.raises(StorageError, match="No space left"):
        full.write(b"{}\n")
    full.abort()


def test_standard_output_gets_the_bytes_and_nothing_else():
    """`-` is written immediately, and stays open."""
    script = (
        "from genrm_cli.storage.store import Store\n"
        "import sys\n"
        "sink = Store().open_sink('-', overwrite=False)\n"
        "sink.write(b'\\xff\\n')\n"
        "sink.commit()\n"
        "print('end')\n"
        "assert not {'boto3', 'botocore'} & sys.modules.keys()\n"
    )
    done = run_program(script, text=False)
    assert done.stdout == b"\xff\nend\n"
    assert done.stderr == b""


def test_two_outputs_with_one_name_are_refused(tmp_path):
    """One would silently replace the other, with any spelling of its name."""
    with Outputs(STORE, overwrite=True) as outputs:
        outputs.open(str(tmp_path / "a"))
        with pytest.raises(UsageError, match="two outputs"):
            outputs.open(f"{tmp_path}/./a")


def test_a_replaced_file_keeps_its_mode(tmp_path):
    """A private output and its hidden file are never readable to others."""
    for mode in [0o600, 0o660, 0o444]:
        path = tmp_path / "out.jsonl"
        path.touch()
        path.chmod(mode)
        sink = _open(path, overwrite=True)
        assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {mode}
        sink.commit()
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_mode_asked_for_less_the_umask(tmp_path):
    """The content of a private output is private under its hidden name, too."""
    before = os.umask(0o027)
    try:
        for number, (mode, expected) in enumerate([(0o600, 0o600), (0o664, 0o640), (0o666, 0o640)]):
            sink = STORE.open_sink(str(tmp_path / f"{number}.jsonl"), overwrite=False, mode=mode)
            (hidden,) = tmp_path.glob(".genrm-*.part")
            assert stat.S_IMODE(hidden.stat().st_mode) == expected
            sink.commit()
            assert stat.S_IMODE((tmp_path / f"{number}.jsonl").stat().st_mode) == expected
    finally:
        os.umask(before)


_OPENS = """
import os, sys, time
from genrm_cli.storage.store import Store
Store().open_sink(sys.argv[1], overwrite=True).write(b"half")
print("open", flush=True)
time.sleep(60)
"""


def test_what_killed_writers_left_is_removed_by_the_next(tmp_path):
    """Files of processes that were killed go with the next output of their name; that of a live
    one stays and becomes its output.
    """
    target = tmp_path / "out.jsonl"
    live = _open(target, overwrite=True)
    live.write(b"from the live one")
    killed = [
        start_process([sys.executable, "-c", _OPENS, str(target)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in killed:
        assert process.stdout.readline() == b"open\n"
    for process in killed:
        process.kill()
        process.communicate()
    other = tmp_path / "other.jsonl"
    _open(other, overwrite=True).commit()
    assert len(list(tmp_path.glob(".genrm-*.part"))) == 3
    _open(target, overwrite=True).commit()
    assert len(list(tmp_path.glob(".genrm-*.part"))) == 1
    live.commit()
    assert target.read_bytes() == b"from the live one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.jsonl", "out.jsonl"]


def test_nothing_is_written_through_a_file_with_a_hidden_name(tmp_path):
    """A link, a pipe or a folder with the hidden name of an output is in nobody's way, and what a
    link names stays as it is.
    """
    target = tmp_path / "out.jsonl"
    sink = _open(target)
    (hidden,) = tmp_path.glob(".genrm-*.part")
    sink.abort()
    for make in (
        lambda: hidden.symlink_to(tmp_path / "precious"),
        lambda: os.mkfifo(hidden),
        hidden.mkdir,
    ):
        make()
        (tmp_path / "precious").write_bytes(b"precious")
        sink = _open(target, overwrite=True)
        sink.write(b"whole")
        sink.commit()
        assert (tmp_path / "precious").read_bytes() == b"precious"
        if hidden.is_dir():
            hidden.rmdir()
        else:
            hidden.unlink(missing_ok=True)
