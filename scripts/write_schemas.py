"""Write the JSON Schemas that the package ships, derived from the records: python scripts/write_schemas.py"""

from __future__ import annotations

from tfgpu_doctor.records.schemas import FOLDER, derived


def main() -> None:
    """Write every schema."""
    for name, text in derived().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
