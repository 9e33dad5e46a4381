"""Run genrm, as `genrm` or `python -m genrm_cli`."""

import signal


def main() -> None:
    """Run the command line and end the process."""
    # Ctrl-C during the imports ends the process, which has nothing to keep yet. Python's handler
    # would print their traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from genrm_cli.cli.app import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
