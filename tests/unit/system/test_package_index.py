"""A package index is listed, and members of its wheels are read without the rest of the wheels."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import shutil
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from tasks.core.errors import FetchError
from tasks.core.package_files import IndexFile
from tasks.system.network import network_access, package_index, package_indexes, range_requests
from tasks.system.network.package_index import SimpleIndex, open_package_index
from tests.support import smallwheels
from tests.support.webserver import running

NAME = "torch-2.7.0+cu128-py3-none-any.whl"
QUOTED = NAME.replace("+", "%2B")
JSON = "application/vnd.pypi.simple.v1+json"
CONTENT = {
    "torch/version.py": b"cuda = '12.8'\n",
    "torch/lib/libtorch.so": random.Random(1).randbytes(3 * 2**20),  # not compressible
    "torch/cuda/__init__.py": b"def is_available(): ...\n",
}
METADATA = "torch-2.7.0+cu128.dist-info/METADATA"


class Handler(BaseHTTPRequestHandler):
    """Serves `pages` and `files`, as the attributes of the server say."""

    server: Server

    def do_GET(self) -> None:
        self.server.requested.append((self.path, dict(self.headers)))
        login, path = self.server.login, unquote(self.path.partition("?")[0])
        if self.server.faults:
            self.server.faults.pop(0)(self)
        elif login and self.headers.get("Authorization") != login:
            self.send_error(401)
        elif path in self.server.pages:
            self.answer(200, self.server.pages[path].encode(), self.server.page_type)
        elif path in self.server.files:
            self.send_file(self.server.files[path])
        else:
            self.send_error(self.server.missing_status)

    def send_file(self, content: bytes) -> None:
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if not asked or not self.server.has_ranges:
            self.answer(200, content)
            return
        first, _, last = asked.partition("-")
        start = int(first) if first else max(0, len(content) - int(last))
        stop = min(int(last) + 1, len(content)) if first else len(content)
        extent = f"bytes {start}-{stop - 1}/{len(content)}"
        self.answer(206, content[start:stop], extent=extent)

    def answer(self, status: int, content: bytes, kind: str = "", extent: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (("Content-Type", kind), ("Content-Range", extent)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.requested: list[tuple[str, dict[str, str]]] = []
        self.faults: list[Callable[[Handler], object]] = []
        self.has_ranges, self.page_type, self.login, self.missing_status = True, JSON, "", 404

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running(Server()) as made:
        yield made


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = smallwheels.wheel(tmp_path / "wheels", "torch", "2.7.0+cu128", CONTENT)
    assert path.name == NAME
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def opened(place: str, **limits: float) -> SimpleIndex:
    index = open_package_index(place, **limits)
    assert isinstance(index, SimpleIndex)
    return index


def publish(server: Server, wheel: Path, sha256: str = "") -> tuple[SimpleIndex, IndexFile]:
    server.files[f"/files/{wheel.name}"] = wheel.read_bytes()
    entry = {
        "filename": wheel.name,
        "url": f"../../files/{wheel.name}",
        "hashes": {"sha256": sha256} if sha256 else {},
    }
    server.pages["/simple/torch/"] = json.dumps({"files": [entry]})
    index = opened(server.url)
    return index, index.list_files("torch")[0]


def change_byte(wheel: Path, member: str) -> None:
    """Change the content of a member and its CRC, but not RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    content[member] = b"?" + content[member][1:]
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)


def drop_connection(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncate(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")


def stay_silent(handler: Handler) -> None:
    handler.rfile.read(1)  # until the client closes the connection


def refuse_with(status: int) -> Callable[[Handler], object]:
    return lambda handler: handler.send_error(status)


def redirect_to(url: str) -> Callable[[Handler], object]:
    def redirect(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return redirect


def send_other_range(handler: Handler) -> None:
    handler.answer(206, b"12345", extent="bytes 5-9/100")


def omit_range(handler: Handler) -> None:
    handler.answer(206, b"12345")


def test_json_page_is_parsed(server: Server) -> None:
    files = [
        {
            "filename": NAME,
            "url": f"https://files.example/{QUOTED}",
            "hashes": {"sha256": "AB"},
            "size": 7,
            "requires-python": ">=3.10",
            "yanked": "bad build",
        },
        {"filename": "torch-1.tar.gz", "url": "../../t/torch-1.tar.gz", "hashes": {}},
        {"filename": "torch_geometric-1-py3-none-any.whl", "url": "x.whl", "hashes": {}},
    ]
    server.pages["/simple/torch/"] = json.dumps({"files": files})
    index = opened(f"{server.url}/")
    assert index.list_files("Torch") == (
        IndexFile(NAME, f"https://files.example/{QUOTED}", "ab", 7, ">=3.10", True),
        IndexFile("torch-1.tar.gz", server.url.replace("/simple", "/t/torch-1.tar.gz")),
    )
    assert (index.requests, index.bytes_read) == (1, len(server.pages["/simple/torch/"]))
    assert server.requested[0][1]["Accept"] == f"{JSON}, text/html;q=0.1"


LINK = '<a href="{}">x</a>'


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (
            f'<a href="../../f/{QUOTED}#sha256=AB" data-requires-python="&gt;=3.10" data-yanked>x',
            IndexFile(NAME, f"/f/{QUOTED}", "ab", 0, ">=3.10", True),
        ),
        (LINK.format(NAME), IndexFile(NAME, f"/simple/torch/{NAME}")),
        ('<base href="/x/">' + LINK.format(NAME), IndexFile(NAME, f"/x/{NAME}")),
        (LINK.format(f"/a b/{NAME}#md5=1&sha256=c"), IndexFile(NAME, f"/a%20b/{NAME}", "c")),
        (LINK.format(NAME) + LINK.format(f"/2/{NAME}"), IndexFile(NAME, f"/simple/torch/{NAME}")),
        *[
            (LINK.format(link), None)
            for link in ("../", f"{NAME}.metadata", f"file:///tmp/{NAME}", "vision-1-py3-x-y.whl")
        ],
    ],
)
def test_html_page_is_parsed(server: Server, link: str, expected: IndexFile | None) -> None:
    server.page_type = "text/html"
    server.pages["/simple/torch/"] = f"<!DOCTYPE html><html><body>{link}<a>y</a></body></html>"
    root = server.url.removesuffix("/simple")
    files = open_package_index(server.url).list_files("torch")
    found = [(file.name, file.url.removeprefix(root), file.sha256) for file in files]
    assert found == ([(expected.name, expected.url, expected.sha256)] if expected else [])
    if expected and files:
        python, is_yanked = files[0].requires_python, files[0].yanked
        assert (python, is_yanked) == (expected.requires_python, expected.yanked)


def test_project_name_is_normalized(server: Server) -> None:
    open_package_index(server.url).list_files("Flash_.Attn")
    assert server.requested[0][0] == "/simple/flash-attn/"


def test_page_of_links_on_a_server_is_an_index(server: Server) -> None:
    server.page_type, server.pages["/whl/torch.html"] = "text/html", LINK.format(NAME)
    files = open_package_index(server.url.replace("/simple", "/whl/torch.html")).list_files("torch")
    assert [file.url for file in files] == [server.url.replace("/simple", f"/whl/{NAME}")]


@pytest.mark.parametrize("as_url", [False, True])
@pytest.mark.parametrize("layout", ["simple", "links", "wheels"])
def test_folder_is_an_index(tmp_path: Path, wheel: Path, layout: str, *, as_url: bool) -> None:
    folder = tmp_path / "an index+"
    place = folder / "files" / wheel.name if layout != "wheels" else folder / wheel.name
    place.parent.mkdir(parents=True)
    shutil.copy(wheel, place)
    link = f"files/{QUOTED}#sha256={sha256_of(wheel)}"
    if layout == "simple":
        (folder / "torch").mkdir()
        (folder / "torch" / "index.html").write_text(LINK.format(f"../{link}"))
        (folder / "index.html").write_text(LINK.format("torch/"))
    elif layout == "links":
        (folder / "index.html").write_text(LINK.format(link))
    index = opened(folder.as_uri() if as_url else str(folder))
    files = index.list_files("torch")
    assert [(file.name, file.url) for file in files] == [(NAME, place.as_uri())]
    found = index.read_members(files[0], ["torch/version.py"])
    assert found == {"torch/version.py": CONTENT["torch/version.py"]}
    assert index.list_files("torchvision") == ()
    assert (index.url, index.requests) == (folder.as_uri(), 0)


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="absent cannot be read: No such file") as caught:
        open_package_index(str(tmp_path / "absent")).list_files("torch")
    assert "torch.index" in caught.value.hint


@pytest.mark.parametrize(("status", "is_missing"), [(404, True), (410, True), (403, False)])
def test_missing_project_has_no_files(server: Server, status: int, *, is_missing: bool) -> None:
    server.missing_status = status
    index = opened(server.url)
    if is_missing:
        assert index.list_files("torch") == ()
    else:
        with pytest.raises(FetchError, match=f"did not answer: HTTP status {status}"):
            index.list_files("torch")
    assert index.requests == 1


def test_forbidden_project_of_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> range_requests.Page:
        raise range_requests.HttpStatusError("HTTP status 403", 403, hint="")

    monkeypatch.setattr(range_requests.HttpReader, "read_page", refuse)
    assert open_package_index("https://download.pytorch.org/whl/cpu").list_files("toy") == ()


def test_page_without_a_length_is_read(server: Server) -> None:
    answer = b"HTTP/1.0 200 OK\r\n\r\n<a href=torch-1.zip>"
    server.faults = [lambda handler: handler.wfile.write(answer)]
    assert [file.name for file in opened(server.url).list_files("torch")] == ["torch-1.zip"]


@pytest.mark.parametrize("page", ["{}", "[", '{"files": [{"filename": "a"}]}', '{"files": [1]}'])
def test_unknown_page_format_is_an_error(server: Server, page: str) -> None:
    server.pages["/simple/torch/"] = page
    with pytest.raises(FetchError, match="has an unknown format"):
        open_package_index(server.url).list_files("torch")


def test_range_read_fetches_a_small_part_of_the_wheel(server: Server, wheel: Path) -> None:
    index, file = publish(server, wheel)
    before = index.bytes_read, index.requests
    names = ["torch/version.py", "*.dist-info/METADATA", "torch/cuda/*.py", "torch/absent.py"]
    found = index.read_members(file, names)
    assert set(found) == {"torch/version.py", METADATA, "torch/cuda/__init__.py"}
    assert found["torch/version.py"] == CONTENT["torch/version.py"]
    assert b"Version: 2.7.0+cu128" in found[METADATA]
    assert index.bytes_read - before[0] < 70_000  # the end, and the first member
    assert index.requests - before[1] == 2


def test_members_in_few_folders_come_first(server: Server, wheel: Path) -> None:
    index, file = publish(server, wheel)
    assert [*index.read_members(file, ["torch/cuda/*", "*/version.py"])] == [
        "torch/version.py",
        "torch/cuda/__init__.py",
    ]
    assert index.read_members(file, ["absent"]) == {}


def test_huge_member_is_read_as_a_stream(
    server: Server, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_index, "_STREAM_BLOCK_BYTES", 2**20)
    monkeypatch.setattr(range_requests, "_CACHED_BYTES", 2**21)
    index, file = publish(server, wheel)
    with index.open_member(file, "torch/lib/libtorch.so") as stream:
        start = stream.read(1000)
        assert index.bytes_read < 2 * 2**20
        assert start + stream.read() == CONTENT["torch/lib/libtorch.so"]
    assert index.requests == 6  # the page, the end of the wheel, and four blocks


def test_missing_member_cannot_be_opened(server: Server, wheel: Path) -> None:
    index, file = publish(server, wheel)
    with (
        pytest.raises(FetchError, match="does not contain torch/absent"),
        index.open_member(file, "torch/absent"),
    ):
        pass


@pytest.mark.parametrize("fault", [None, refuse_with(416), refuse_with(501), omit_range])
def test_wheel_is_downloaded_once_without_ranges(
    server: Server, wheel: Path, fault: Callable[[Handler], object] | None
) -> None:
    index, file = publish(server, wheel, sha256_of(wheel))
    server.has_ranges, server.faults = False, [fault] if fault else []
    for _ in range(2):
        found = index.read_members(file, ["torch/version.py"])
        assert found == {"torch/version.py": CONTENT["torch/version.py"]}
    with index.open_member(file, "torch/lib/libtorch.so") as stream:
        assert stream.read() == CONTENT["torch/lib/libtorch.so"]
    assert index.requests == (3 if fault else 2)
    assert index.bytes_read > wheel.stat().st_size


def test_downloaded_wheel_with_wrong_sha256_is_refused(server: Server, wheel: Path) -> None:
    index, file = publish(server, wheel, "0" * 64)
    server.has_ranges = False
    with pytest.raises(FetchError, match=f"expected {'0' * 64}, found {sha256_of(wheel)}"):
        index.read_members(file, ["torch/version.py"])


def test_member_that_differs_from_record_is_refused(server: Server, wheel: Path) -> None:
    change_byte(wheel, "torch/version.py")
    index, file = publish(server, wheel)
    assert METADATA in index.read_members(file, [METADATA])
    with pytest.raises(FetchError, match=r"torch/version\.py in .* but RECORD lists"):
        index.read_members(file, ["torch/version.py"])
    with (
        pytest.raises(FetchError, match=r"torch/version\.py in .* but RECORD lists"),
        index.open_member(file, "torch/version.py") as stream,
    ):
        stream.read()


def test_wheel_without_record_is_read(server: Server, wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/version.py", "cuda = None\n")
    index, file = publish(server, wheel)
    assert index.read_members(file, ["*.py"]) == {"torch/version.py": b"cuda = None\n"}


def test_damaged_wheel_is_refused(server: Server, wheel: Path) -> None:
    index, file = publish(server, wheel)
    content = bytearray(wheel.read_bytes())
    start = content.index(CONTENT["torch/lib/libtorch.so"][:64])
    content[start + 100] ^= 1
    server.files[f"/files/{wheel.name}"] = bytes(content)
    with (
        pytest.raises(FetchError, match="cannot be read as a wheel: Bad CRC-32"),
        index.open_member(file, "torch/lib/libtorch.so") as stream,
    ):
        stream.read()
    server.files[f"/files/{wheel.name}"] = b"<html>log in</html>"
    with pytest.raises(FetchError, match="cannot be read as a wheel: File is not a zip file"):
        index.read_members(file, ["*"])


@pytest.mark.parametrize("fault", [drop_connection, truncate, refuse_with(503)])
def test_broken_answer_is_requested_once_more(
    server: Server, fault: Callable[[Handler], object]
) -> None:
    server.pages["/simple/torch/"] = '{"files": []}'
    server.faults = [fault]
    assert open_package_index(server.url).list_files("torch") == ()
    server.requested.clear()
    server.faults = [fault, fault]
    with pytest.raises(FetchError, match=f"the package index {server.url} did not answer: "):
        open_package_index(server.url).list_files("torch")
    assert len(server.requested) == 2


def test_wrong_range_is_refused(server: Server, wheel: Path) -> None:
    index, file = publish(server, wheel)
    server.faults = [lambda handler: handler.send_file(wheel.read_bytes()), send_other_range]
    with pytest.raises(FetchError, match=r"another part of torch-.* than requested"):
        index.read_members(file, ["torch/version.py"])


def test_silent_server_is_given_up_after_the_timeout(server: Server) -> None:
    server.faults = [stay_silent]
    index = opened(server.url, timeout=0.05)
    with pytest.raises(FetchError, match=r"did not answer: no data for 0\.05 s \(127\.0\.0\.1\)"):
        index.list_files("torch")
    assert index.requests == 1


def test_unreachable_server_is_an_error_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(FetchError, match=f"the package index http://127.0.0.1:{port}/s") as caught:
        open_package_index(f"http://127.0.0.1:{port}/s").list_files("torch")
    assert "check the network" in caught.value.hint


def test_nothing_is_read_after_the_deadline(server: Server, wheel: Path) -> None:
    _, file = publish(server, wheel)
    server.requested.clear()
    index = opened(server.url, deadline=time.monotonic())
    for read in (
        lambda: index.list_files("torch"),
        lambda: index.read_members(file, ["*"]),
    ):
        with pytest.raises(FetchError, match="did not answer in time"):
            read()
    assert server.requested == []


def test_deadline_ends_a_read(server: Server) -> None:
    server.faults = [stay_silent]
    with pytest.raises(FetchError, match="did not answer in time"):
        opened(server.url, deadline=time.monotonic() + 0.1).list_files("torch")


def test_login_is_sent_to_the_index_only_and_never_shown(server: Server, wheel: Path) -> None:
    server.login = f"Basic {base64.b64encode(b'me:hunter/2').decode()}"
    place = server.url.replace("://", "://me:hunter%2F2@") + "?token=hunter2"
    server.files[f"/files/{NAME}"] = wheel.read_bytes()
    server.pages["/simple/torch/"] = json.dumps(
        {"files": [{"filename": NAME, "url": f"../../files/{NAME}", "hashes": {}}]}
    )
    index = opened(place)
    (file,) = index.list_files("torch")
    assert index.read_members(file, ["torch/version.py"])
    assert "hunter" not in f"{index.url} {file}"
    assert index.url == server.url
    with running(Server()) as other:
        other.missing_status = 500
        foreign = IndexFile(NAME, f"{other.url}/{NAME}")
        with pytest.raises(FetchError) as caught:
            index.read_members(foreign, ["*"])
        assert all("Authorization" not in headers for _, headers in other.requested)
    server.login = "changed"
    with pytest.raises(FetchError, match="HTTP status 401") as refused:
        index.list_files("torch")
    assert "USER:PASSWORD" in refused.value.hint
    assert "hunter" not in f"{caught.value}{caught.value.message}{refused.value.message}"


def test_login_is_not_sent_to_the_target_of_a_redirect(server: Server) -> None:
    with running(Server()) as other:
        other.pages["/simple/torch/"] = '{"files": []}'
        server.faults = [redirect_to(f"{other.url}/torch/")]
        index = opened(server.url.replace("://", "://me:hunter2@"))
        assert index.list_files("torch") == ()
        assert "Authorization" in server.requested[0][1]
        assert "Authorization" not in other.requested[0][1]


def test_only_local_places_are_read_offline(
    server: Server, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(network_access._OFFLINE_FLAG, "wheels")
    with pytest.raises(FetchError, match="cannot be read in offline mode"):
        open_package_index(server.url).list_files("torch")
    assert len(open_package_index(str(wheel.parent)).list_files("torch")) == 1
    assert server.requested == []


def test_other_scheme_is_refused_without_its_login() -> None:
    with pytest.raises(FetchError, match="cannot read the package index ftp://h/simple") as caught:
        open_package_index("ftp://me:hunter2@h/simple")
    assert "https:" in caught.value.hint


@pytest.mark.parametrize(
    ("uv_index", "pip_index", "expected"),
    [("u", "p", "u"), ("", "p", "p"), ("", "", "https://pypi.org/simple")],
)
def test_default_index_is_that_of_uv_then_pip(
    uv_index: str, pip_index: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_indexes, "find_uv_index", lambda: uv_index)
    monkeypatch.setattr(package_indexes, "find_pip_index", lambda: pip_index)
    assert package_indexes.find_default_index() == expected
