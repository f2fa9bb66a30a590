"""Builds the package for pip (PEP 517) with the standard library alone, so that an installation
fetches nothing.  What it needs to know of the package stands in caisson_client and here."""

import base64
import hashlib
import io
import pathlib
import tarfile
import zipfile

NAME, VERSION = "caisson_client", "0.1.0"
HERE = pathlib.Path(__file__).resolve().parent
METADATA = f"""Metadata-Version: 2.1
Name: caisson-client
Version: {VERSION}
Summary: Client of a Caisson gateway: sandboxes, operations, their events
License: ISC
Requires-Python: >=3.9
"""
WHEEL = """Wheel-Version: 1.0
Generator: caisson
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _files():
    for path in sorted((HERE / NAME).rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed":
            yield path.relative_to(HERE).as_posix(), path.read_bytes()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"{NAME}-{VERSION}.dist-info"
    files = [*_files(), (f"{info}/METADATA", METADATA.encode()), (f"{info}/WHEEL", WHEEL.encode())]
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    record += f"{info}/RECORD,,\n"
    wheel = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in [*files, (f"{info}/RECORD", record.encode())]:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100644 << 16
            z.writestr(entry, data)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    top = f"{NAME}-{VERSION}"
    files = [*_files(), ("PKG-INFO", METADATA.encode())]
    files += [(n, (HERE / n).read_bytes()) for n in ("pyproject.toml", "README.md", "_build.py")]
    with tarfile.open(pathlib.Path(sdist_directory, f"{top}.tar.gz"), "w:gz") as t:
        for name, data in files:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(data), 0o644
            t.addfile(entry, io.BytesIO(data))
    return f"{top}.tar.gz"
