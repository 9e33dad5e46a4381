"""Run genrm as `python -m genrm_cli`."""

from genrm_cli.cli.app import main

if __name__ == "__main__":
    main()
