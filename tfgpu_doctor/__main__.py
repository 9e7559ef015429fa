"""`python -m tfgpu_doctor` and the console script."""

from __future__ import annotations


def main() -> None:
    """Start the command line."""
    from tfgpu_doctor.cli import cli

    cli()


if __name__ == "__main__":
    main()
