"""The samples in the parsers' docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tfgpu_doctor.parsers

MODULES = sorted(module.name for module in pkgutil.iter_modules(tfgpu_doctor.parsers.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_the_samples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"tfgpu_doctor.parsers.{name}")).failed == 0
