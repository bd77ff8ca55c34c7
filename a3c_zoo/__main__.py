"""The `a3c-zoo` command."""

from __future__ import annotations

from a3c_zoo.cli.main import cli


def main() -> None:
    """Runs the command line and leaves with its exit status."""
    cli.main(prog_name="a3c-zoo")


if __name__ == "__main__":
    main()
