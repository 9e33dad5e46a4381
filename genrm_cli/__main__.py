"""Run genrm, as `genrm` or `python -m genrm_cli`."""

import gc
import signal


def main() -> None:
    """Run the command line and end the process."""
    # Ctrl-C during the imports ends the process, which has nothing to keep yet. Python's handler
    # would print their traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Python looks for cycles every 700 objects, a tenth of the time of a run that has few of them.
    gc.set_threshold(20_000)
    from genrm_cli.cli.app import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
