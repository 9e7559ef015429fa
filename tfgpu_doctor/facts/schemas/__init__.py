"""JSON Schemas of what tfgpu writes and reads, as files beside this one; scripts/write_schemas.py derives them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
