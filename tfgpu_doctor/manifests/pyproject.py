"""pyproject.toml and pixi.toml: the dependencies of a project, of its extras and of its groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.manifests import Environment, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.conda import conda_requirement
from tfgpu_doctor.manifests.pip import pip_requirement


def read_pyproject(path: str, text: str) -> tuple[Environment, ...]:
    """The project itself, then each extra and each group together with it.

    Raises:
        ManifestError: no valid TOML.
    """
    data = _toml(path, text)
    reader = _Reader(path, text)
    project, tool = _table(data, "project"), _table(data, "tool")
    python = [
        *reader.python(project.get("requires-python")),
        *_poetry_python(reader, tool),
        *_pixi_python(reader, data),
    ]
    base = [
        *reader.listed(project.get("dependencies")),
        *_poetry(reader, _table(tool, "poetry", "dependencies")),
        *_pixi(reader, _table(tool, "pixi") or data),
    ]
    environments = [reader.environment(path, python, base)]
    extras = _table(project, "optional-dependencies")
    groups = {**_table(data, "dependency-groups")}
    for name, lines in extras.items():
        environments.append(reader.environment(f"{path}, extra {name}", python, [*base, *reader.listed(lines)]))
    for name, lines in groups.items():
        environments.append(reader.environment(f"{path}, group {name}", python, [*base, *reader.listed(lines)]))
    for name, group in _table(tool, "poetry", "group").items():
        own = list(_poetry(reader, _table(group, "dependencies")))
        environments.append(reader.environment(f"{path}, group {name}", python, [*base, *own]))
    own_tensorflow = [one for one in environments[1:] if len(one.requirements) > len(base)]
    return (environments[0], *own_tensorflow)


class _Reader:
    """Turns strings of the file into requirements, and finds the lines that they stand on."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.not_understood: list[str] = []

    def environment(self, label: str, python: list[Requirement], found: list[Requirement]) -> Environment:
        return Environment(
            kind="pyproject",
            label=label,
            place=Place(self.path, 1),
            python=tuple(python),
            requirements=tuple(found),
            not_understood=tuple(dict.fromkeys(self.not_understood)),
        )

    def python(self, specifier: Any) -> Iterator[Requirement]:
        if isinstance(specifier, str):
            yield Requirement("python", specifier, self.place(specifier, "requires-python"), f"python {specifier}")

    def listed(self, lines: Any) -> Iterator[Requirement]:
        """A list of PEP 508 strings; what else a group may hold (include-group) brings nothing of its own."""
        for line in lines if isinstance(lines, list) else ():
            if not isinstance(line, str):
                continue
            place = self.place(line)
            try:
                one = pip_requirement(line, place)
            except ValueError as error:
                self.not_understood.append(f"{place}: {error}")
                continue
            if one:
                yield one

    def place(self, text: str, key: str = "") -> Place:
        """The line that a string stands on: the first that has it in quotes, and the key where one is given."""
        quoted = (f'"{text}"', f"'{text}'")
        for number, line in enumerate(self.lines, 1):
            if any(one in line for one in quoted) and (not key or re.match(rf"\s*[\"']?{re.escape(key)}\b", line)):
                return Place(self.path, number)
        return Place(self.path, next((n for n, line in enumerate(self.lines, 1) if text in line), 1))

    def keyed(self, name: str, value: str) -> Place:
        """The line of a `name = value`."""
        for number, line in enumerate(self.lines, 1):
            if re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", line) and value in line:
                return Place(self.path, number)
        return self.place(value)


def _toml(path: str, text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise ManifestError(f"{path}:{line[1] if line else 1}: no valid TOML: {error}") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply") from error


def _table(data: Any, *path: str) -> dict[str, Any]:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


# ------------------------------------------------------------------------------------------------ Poetry and pixi


def _poetry_python(reader: _Reader, tool: dict[str, Any]) -> Iterator[Requirement]:
    wanted = _table(tool, "poetry", "dependencies").get("python")
    if isinstance(wanted, str):
        yield Requirement("python", _caret(wanted), reader.keyed("python", wanted), f'python = "{wanted}"')


def _poetry(reader: _Reader, table: dict[str, Any]) -> Iterator[Requirement]:
    """name = "^2.15", name = {version = "...", extras = [...], markers = "..."}."""
    for name, value in table.items():
        if name == "python":
            continue
        details = value if isinstance(value, dict) else {"version": value}
        version = details.get("version", "*")
        if not isinstance(version, str):
            continue
        extras = details.get("extras")
        yield Requirement(
            name=re.sub(r"[-_.]+", "-", name).lower(),
            specifier=_caret(version),
            place=reader.keyed(name, version if "version" in details else ""),
            text=f'{name} = "{version}"',
            extras=tuple(one for one in extras if isinstance(one, str)) if isinstance(extras, list) else (),
            marker=details.get("markers") if isinstance(details.get("markers"), str) else None,
        )


def _caret(version: str) -> str:
    """Poetry's "^2.15" is >=2.15,<3, "~2.15" is >=2.15,<2.16, a bare "2.15.1" that version."""
    parts = [one.strip() for one in version.split(",")]
    return ",".join(filter(None, (_one_caret(part) for part in parts)))


def _one_caret(part: str) -> str:
    found = re.fullmatch(r"([\^~]?)\s*(\d+(?:\.\d+)*)(\.\*)?", part)
    if found is None:
        return "" if part in ("", "*") or "|" in part else part
    sign, number, star = found.groups()
    numbers = [int(one) for one in number.split(".")]
    if sign == "^":
        fixed = next((index for index, one in enumerate(numbers) if one), len(numbers) - 1)
        return f">={number},<{'.'.join(map(str, [*numbers[:fixed], numbers[fixed] + 1]))}"
    if sign == "~":
        upper = [numbers[0], numbers[1] + 1] if len(numbers) > 1 else [numbers[0] + 1]
        return f">={number},<{'.'.join(map(str, upper))}"
    return f"=={number}{star or ''}"


def _pixi_python(reader: _Reader, data: dict[str, Any]) -> Iterator[Requirement]:
    for root in (_table(data, "tool", "pixi"), data):
        wanted = _table(root, "dependencies").get("python")
        if isinstance(wanted, str):
            spec = wanted if wanted[:1] in "=<>!~*" else f"=={wanted}"
            found = conda_requirement(f"python{spec}", reader.keyed("python", wanted))
            if found:
                yield found


def _pixi(reader: _Reader, root: dict[str, Any]) -> Iterator[Requirement]:
    for name, value in _table(root, "dependencies").items():
        if isinstance(value, str) and name != "python":
            spec = value if value[:1] in "=<>!~*" else f"=={value}"
            found = conda_requirement(f"{name}{spec if value != '*' else ''}", reader.keyed(name, value))
            if found:
                yield found
    yield from _poetry(reader, _table(root, "pypi-dependencies"))
