"""Results in a format, as commands show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfgpu_doctor.render.formats import renderer


def as_format(name: str, kind: str) -> Callable[..., str]:
    """The function that shows a result of this kind; options come in the order in which commands name them."""

    def render(result: Any, fail_on: str = "error", only: tuple[str, ...] = (), **options: Any) -> str:
        return str(renderer(name, kind, {"fail_on": fail_on, "only": only, **options})(result))

    return render
