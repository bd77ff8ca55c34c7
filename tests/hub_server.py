"""A hub on loopback: the part of Hugging Face's API that huggingface_hub uses to make, fill and read a repository.

Large files (`.safetensors`, `.mp4`) travel as the hub's do: an address to send them to, then a pointer in the commit,
and a redirect to them when they are read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_test"
LARGE = (".safetensors", ".mp4")


class Repository:
    """Commits, each with all its files; the newest is last. `gated` lets nobody read."""

    def __init__(self, private: bool = False) -> None:
        self.private, self.gated = private, False
        self.commits: dict[str, dict[str, bytes]] = {}

    def commit(self, files: dict[str, bytes], deleted: Collection[str] = ()) -> str:
        """Adds files to those of the newest commit, but for deleted ones."""
        name = hashlib.sha1(repr((len(self.commits), sorted(files))).encode()).hexdigest()
        before = list(self.commits.values())[-1] if self.commits else {}
        assert {*deleted} <= before.keys()
        self.commits[name] = {path: content for path, content in before.items() if path not in deleted} | files
        return name


class Hub(ThreadingHTTPServer):
    """What the server has and has been asked.

    Attributes:
        requests: method and path of each. sizes: path → what the server says instead of a file's true size.
        tails: path → bytes that it sends beyond that size. faults: a part of a path → what answers in its place.
        more: entries that every listing has.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.forget()

    def forget(self) -> None:
        """Behaves again."""
        self.sizes: dict[str, int] = {}
        self.tails: dict[str, bytes] = {}
        self.faults: dict[str, Callable[[Handler], None]] = {}
        self.more: list[dict[str, Any]] = []
        self.requests.clear()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error."""


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *parts: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self.dispatch()

    def do_POST(self) -> None:
        self.dispatch()

    def do_PUT(self) -> None:
        self.dispatch()

    def dispatch(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.parts, self.query = [unquote(part) for part in url.path.strip("/").split("/")], parse_qs(url.query)
        self.server.requests.append(f"{self.command} {url.path}")
        for part, fault in self.server.faults.items():
            if part in url.path:
                return fault(self)
        match self.parts:
            case ["api", "repos", "create"]:
                self.create()
            case ["api", "validate-yaml"]:
                self.answer({"errors": [], "warnings": []})
            case ["api", "models", owner, name, *rest]:
                self.repository(f"{owner}/{name}", rest)
            case [owner, name, "info", "lfs", "objects", "batch"]:
                self.batch(f"{owner}/{name.removesuffix('.git')}")
            case ["large", digest]:
                self.store_or_send(digest)
            case [owner, name, "resolve", revision, *path]:
                self.resolve(f"{owner}/{name}", revision, "/".join(path))
            case _:
                self.answer({"error": "no such path"}, 404)

    def answer(self, content: Any, status: int = 200, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(data)

    def is_owner(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def readable(self, name: str) -> Repository | None:
        found = self.server.repositories.get(name)
        if found is None or (found.private and not self.is_owner()):
            self.answer({"error": "Repository not found"}, 404 if self.is_owner() else 401, X_Error_Code="RepoNotFound")
            return None
        if found.gated:
            self.answer({"error": "gated"}, 403, X_Error_Code="GatedRepo")
            return None
        return found

    def create(self) -> None:
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}"
        if not self.is_owner():
            self.answer({"error": "Invalid username or password."}, 401)
        elif name in self.server.repositories:
            self.answer({"error": "You already created this model repo", "url": f"{self.server.address}/{name}"}, 409)
        else:
            self.server.repositories[name] = Repository(asked.get("visibility") == "private")
            self.answer({"url": f"{self.server.address}/{name}"})

    def repository(self, name: str, rest: list[str]) -> None:
        found = self.readable(name)
        if found is None:
            return
        known = {"main": [*found.commits, ""][-2] if found.commits else ""} | {each: each for each in found.commits}
        revision = rest[1] if len(rest) > 1 else "main"
        if revision not in known:
            return self.answer({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        match rest[:1]:
            case [] | ["revision"]:
                self.answer({"id": name, "sha": known[revision], "private": found.private})
            case ["preupload"]:
                files = json.loads(self.body)["files"]
                modes = [
                    {
                        "path": each["path"],
                        "uploadMode": "lfs" if each["path"].endswith(LARGE) else "regular",
                        "shouldIgnore": False,
                    }
                    for each in files
                ]
                self.answer({"files": modes})
            case ["commit"]:
                self.commit(found, name)
            case ["paths-info"]:
                files, asked = found.commits.get(known[revision], {}), parse_qs(self.body.decode())["paths"]
                sizes = {path: self.server.sizes.get(path, len(files[path])) for path in asked if path in files}
                rows = [{"type": "file", "path": path, "size": size, "oid": "0"} for path, size in sizes.items()]
                self.answer(rows + self.server.more)

    def commit(self, repository: Repository, owner_name: str) -> None:
        if not self.is_owner():
            return self.answer({"error": "forbidden"}, 403)
        files, deleted = {}, []
        for line in self.body.splitlines():
            match json.loads(line):
                case {"key": "file", "value": value}:
                    files[value["path"]] = base64.b64decode(value["content"])
                case {"key": "lfsFile", "value": value}:
                    files[value["path"]] = self.server.large[value["oid"]]
                case {"key": "deletedFile", "value": value}:
                    deleted.append(value["path"])
        name = repository.commit(files, deleted)
        self.answer({"commitUrl": f"{self.server.address}/{owner_name}/commit/{name}", "commitOid": name})

    def batch(self, name: str) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.server.address}/large/{each['oid']}"}}}
            for each in json.loads(self.body)["objects"]
        ]
        self.answer({"transfer": "basic", "objects": objects})

    def store_or_send(self, digest: str) -> None:
        if self.command == "PUT":
            assert hashlib.sha256(self.body).hexdigest() == digest
            self.server.large[digest] = self.body
            return self.answer(b"")
        self.answer(self.server.large[digest])

    def resolve(self, name: str, revision: str, path: str) -> None:
        found = self.readable(name)
        if found is None:
            return
        content = found.commits[revision].get(path)
        if content is None:
            return self.answer({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
        content += self.server.tails.get(path, b"")
        if path.endswith(LARGE):
            digest = hashlib.sha256(content).hexdigest()
            self.server.large[digest] = content
            return self.answer(b"", 302, Location=f"{self.server.address}/large/{digest}")
        self.answer(content)


# Faults, for `Hub.faults`.


def status(number: int, code: str = "Unknown") -> Callable[[Handler], None]:
    """Answers with this status."""
    return lambda handler: handler.answer({"error": "broken"}, number, Retry_After="86400", X_Error_Code=code)


def silence(handler: Handler) -> None:
    """Never answers."""
    time.sleep(20)


def endless(handler: Handler) -> None:
    """Sends bytes and does not end."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b"10000\r\n" + b"x" * (1 << 16) + b"\r\n")


def dripping(handler: Handler) -> None:
    """Sends a byte now and then, and does not end."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b"1\r\n \r\n")
            time.sleep(0.1)


def nonsense(handler: Handler) -> None:
    """Answers with what is no JSON."""
    handler.answer(b"<html>")


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub in a thread of this process."""
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
