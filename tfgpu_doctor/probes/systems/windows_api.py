"""What Windows is asked: the registry, versions of files, features of the CPU. Tests answer from a recording."""

from __future__ import annotations

import platform
import sys
from typing import Protocol


class Api(Protocol):
    """The functions of Windows that probes need."""

    root: str  # where drives are looked for; "/": they are the machine's own

    def values(self, key: str) -> dict[str, str | int]:
        """The values of a key below HKEY_LOCAL_MACHINE that are texts or numbers. Raises OSError: it has none."""
        ...

    def subkeys(self, key: str) -> list[str]:
        """The names of the keys below a key. Raises OSError: it is missing, or not ours to read."""
        ...

    def file_version(self, path: str) -> str | None:
        """The version in a file's resources, "31.0.15.3623"; None without any."""
        ...

    def has_feature(self, number: int) -> bool:
        """IsProcessorFeaturePresent."""
        ...

    def version(self) -> str:
        """Of Windows: "10.0.22631"."""
        ...

    def machine(self) -> str:
        """ "amd64", "arm64"."""
        ...


class LiveApi:
    """The Windows that runs this program."""

    root = "/"

    def values(self, key: str) -> dict[str, str | int]:
        """By winreg; the 64-bit view, also from a 32-bit Python."""
        if sys.platform != "win32":
            raise OSError(f"no registry on {sys.platform}")
        import winreg

        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY) as handle:
            count = winreg.QueryInfoKey(handle)[1]
            found = [winreg.EnumValue(handle, index) for index in range(count)]
        return {name: value for name, value, _ in found if isinstance(value, str | int)}

    def subkeys(self, key: str) -> list[str]:
        """By winreg."""
        if sys.platform != "win32":
            raise OSError(f"no registry on {sys.platform}")
        import winreg

        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY) as handle:
            return [winreg.EnumKey(handle, index) for index in range(winreg.QueryInfoKey(handle)[0])]

    def file_version(self, path: str) -> str | None:
        """VS_FIXEDFILEINFO of version.dll: two numbers of 32 bits, of which each half is a part."""
        if sys.platform != "win32":
            return None
        import ctypes

        library = ctypes.WinDLL("version")
        size = library.GetFileVersionInfoSizeW(ctypes.c_wchar_p(path), None)
        data = ctypes.create_string_buffer(size)
        block, length = ctypes.c_void_p(), ctypes.c_uint()
        if not (
            size
            and library.GetFileVersionInfoW(ctypes.c_wchar_p(path), 0, size, data)
            and library.VerQueryValueW(data, ctypes.c_wchar_p("\\"), ctypes.byref(block), ctypes.byref(length))
            and block.value
        ):
            return None
        high, low = (ctypes.c_uint32 * 4).from_address(block.value)[2:4]
        return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"

    def has_feature(self, number: int) -> bool:
        """By kernel32."""
        if sys.platform != "win32":
            return False
        import ctypes

        return bool(ctypes.WinDLL("kernel32").IsProcessorFeaturePresent(number))

    def version(self) -> str:
        """By platform, which asks cmd and the registry."""
        return platform.version()

    def machine(self) -> str:
        """By platform."""
        return platform.machine().lower()
