"""The calls of Drive v3 and of the sign-in, as the server that plays Google Drive answers them."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.drive.faults import DROP, GARBAGE, HALF, LATE, ODD
from tests.support.drive.files import DOCUMENT, FOLDER

if TYPE_CHECKING:
    from tests.support.drive.server import PlayedServer

EMAIL = "memoryd@project.example"
"""The account\'s."""
QUOTED = r"'((?:[^'\\]|\\.)*)'"


@dataclass
class Upload:
    """An upload in parts."""

    file_id: str | None
    said: dict[str, Any]
    kind: str
    length: int
    content: bytes = b""


class Refused(Exception):
    """The answer is an error."""

    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: PlayedServer

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        owner, split = self.server.owner, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = split.query
        if (override := self.headers.get("X-HTTP-Method-Override")) is not None:
            method, query = override, body.decode()  # an address that is too long for a GET
        asked = dict(parse_qsl(query))
        what = split.path.removeprefix("/upload").removeprefix("/drive/v3/").strip("/")
        if split.path.startswith("/upload"):
            what = what.replace("files", "upload", 1)
        noted = what.replace("files", "content", 1) if asked.get("alt") == "media" else what
        fault, released = owner.note(f"{method} {noted}")
        if fault is not None and fault.kind == "hang":
            owner.hanging.set()
            released.wait()
            fault = DROP
        if fault == DROP:
            self._drop(what, body)
            return
        if fault is not None and fault.kind == "status":
            self._refuse(fault.code, fault.reason, fault.headers)
            return
        try:
            with owner.drive.lock:
                status, content, headers = self._do(method, what, asked, body)
        except Refused as error:
            self._refuse(error.status, error.reason, {})
            return
        if fault == LATE:
            self.close_connection = True
        elif fault == GARBAGE:
            self._send(200, b"<html>It works!</html>", {"Content-Type": "text/html"})
        else:
            content = content.replace(b'"parents": [', b'"parents": [["x"], ') if fault == ODD else content
            self._send(status, content, headers, half=fault == HALF)

    def _drop(self, what: str, body: bytes) -> None:
        """Of a part of an upload, unless it was sent before, half has arrived."""
        self.close_connection = True
        upload = self.server.owner.uploads.get(what.removeprefix("session/"))
        if upload is not None and self.headers["Content-Range"].startswith(f"bytes {len(upload.content)}-"):
            upload.content += body[: len(body) // 2]

    def _do(
        self, method: str, what: str, asked: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        owner = self.server.owner
        if what == "token":
            return self._sign_in(dict(parse_qsl(body.decode())))
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in owner.tokens:
            raise Refused(401, "authError")
        if owner.drive.read_only and method != "GET":
            raise Refused(403, "insufficientFilePermissions")
        kind, _, file_id = what.partition("/")
        if kind == "upload":
            return self._upload(file_id or None, asked, body)
        if kind == "session":
            return self._part(file_id, body)
        if method == "GET":
            return self._look(what, file_id, asked)
        if method == "DELETE":
            return self._delete(file_id)
        said = json.loads(body)
        return _json(self._change(file_id, said, asked) if file_id else self._save(None, said, None, FOLDER))

    def _look(self, what: str, file_id: str, asked: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        drive = self.server.owner.drive
        if what in ("files", "changes", "changes/startPageToken") and drive.shared_drive is not None:
            # A person's own log of changes would lack most of what happens in a shared drive.
            if asked.get("driveId") != drive.shared_drive or asked["supportsAllDrives"] != "true":
                raise Refused(400)
            if not drive.is_member:
                raise Refused(404, "notFound")
        if file_id.endswith("/export"):
            return self._export(file_id.removesuffix("/export"), asked)
        match what:
            case "files":
                return _json(self._list(asked))
            case "files/generateIds":
                return _json({"ids": [drive.new_id() for _ in range(int(asked["count"]))]})
            case "changes/startPageToken":
                return _json({"startPageToken": str(len(drive.log))})
            case "changes":
                return _json(self._changes(asked))
            case _:
                return self._get(file_id, asked)

    def _delete(self, file_id: str) -> tuple[int, bytes, dict[str, str]]:
        self._visible(file_id)
        if not self.server.owner.drive.may_delete:
            raise Refused(403, "insufficientFilePermissions")
        self.server.owner.drive.delete(file_id)
        return 204, b"", {}

    def _sign_in(self, form: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        owner = self.server.owner
        part = form["assertion"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        if owner.refuses_key or claims["iss"] != EMAIL or "auth/drive" not in claims["scope"]:
            said = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            return 400, json.dumps(said).encode(), {"Content-Type": "application/json"}
        token = f"token-{len(owner.requests)}"
        owner.tokens.add(token)
        return _json({"access_token": token, "expires_in": 3600, "token_type": "Bearer"})

    def _visible(self, file_id: str) -> Any:
        found = self.server.owner.drive.visible(file_id)
        if found is None:
            raise Refused(404, "notFound")
        return found

    def _get(self, file_id: str, asked: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        found = self._visible(file_id)
        if asked.get("alt") != "media":
            return _json(self.server.owner.drive.resource(found))
        if found.content is None:
            raise Refused(403, "fileNotDownloadable")
        return 200, found.content, {"Content-Type": found.kind}

    def _export(self, file_id: str, asked: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        found = self._visible(file_id)
        if found.kind != DOCUMENT or asked["mimeType"] != "text/markdown":
            raise Refused(403, "fileNotExportable")
        text = self.server.owner.drive.written.get(file_id, "")
        if len(text) > 10_000_000:
            raise Refused(403, "exportSizeLimitExceeded")
        return 200, text.encode(), {"Content-Type": "text/markdown"}

    def _list(self, asked: dict[str, str]) -> dict[str, Any]:
        drive, query = self.server.owner.drive, asked["q"]
        parents = [_unquoted(one) for one in re.findall(rf"{QUOTED} in parents", query)]
        name = re.search(rf"name = {QUOTED}", query)
        found = [
            drive.resource(one)
            for one in drive.files.values()
            if one.parent in parents
            and not (len(parents) > 1 and one.parent in drive.left_out_of_groups)
            and drive.visible(one.id)
            and not drive.is_in_trash(one)
            and one.id not in drive.not_listed_yet
            and (name is None or one.name == _unquoted(name[1]))
        ]
        return self._page("files", found, asked)

    def _changes(self, asked: dict[str, str]) -> dict[str, Any]:
        drive = self.server.owner.drive
        if not asked["pageToken"].isdecimal():
            raise Refused(400, "invalid")
        start = int(asked["pageToken"])
        if start < drive.oldest:
            raise Refused(410, "pageTokenExpired")
        most = self.server.owner.page_size
        found: list[dict[str, Any]] = []
        for one in dict.fromkeys(drive.log[start : start + most]):
            seen = drive.files.get(one) if drive.is_shared else None
            said = {} if seen is None else {"file": drive.resource(seen)}
            found.append({"changeType": "file", "fileId": one, "removed": seen is None, **said})
        if len(drive.log) > start + most:
            return {"changes": found, "nextPageToken": str(start + most)}
        return {"changes": found, "newStartPageToken": str(len(drive.log))}

    def _page(self, name: str, found: list[Any], asked: dict[str, str]) -> dict[str, Any]:
        most, start = self.server.owner.page_size, int(asked.get("pageToken", "0"))
        following = {"nextPageToken": str(start + most)} if len(found) > start + most else {}
        return {name: found[start : start + most], **following}

    def _save(
        self, file_id: str | None, said: dict[str, Any], content: bytes | None, kind: str
    ) -> dict[str, Any]:
        drive = self.server.owner.drive
        if file_id is not None:
            self._visible(file_id)
            return drive.resource(drive.save(file_id, content or b""))
        if said["id"] in drive.files:
            raise Refused(409, "fileIdInUse")
        self._visible(said["parents"][0])
        return drive.resource(
            drive.create(said["id"], said["name"], said.get("mimeType", kind), said["parents"][0], content)
        )

    def _change(self, file_id: str, said: dict[str, Any], asked: dict[str, str]) -> dict[str, Any]:
        drive, found = self.server.owner.drive, self._visible(file_id)
        if asked.get("removeParents") not in (None, found.parent):
            raise Refused(400)
        changed = drive.change(
            file_id, name=said.get("name"), parent=asked.get("addParents"), trashed=said.get("trashed")
        )
        return drive.resource(changed)

    def _upload(
        self, file_id: str | None, asked: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        owner = self.server.owner
        if asked["uploadType"] == "resumable":
            name = f"{len(owner.uploads)}"
            length = int(self.headers["X-Upload-Content-Length"])
            kind = self.headers["X-Upload-Content-Type"]
            owner.uploads[name] = Upload(file_id, json.loads(body or b"{}"), kind, length)
            return 200, b"", {"Location": f"{owner.url}/session/{name}"}
        if asked["uploadType"] == "media":
            return _json(self._save(file_id, {}, body, self.headers["Content-Type"]))
        boundary = self.headers["Content-Type"].rpartition("boundary=")[2].strip('"').encode()
        _, said, content, _ = re.split(
            rb"(?:^|\n)--" + re.escape(boundary) + rb"(?:--)?(?:\n|$)", body, maxsplit=3
        )
        head, _, data = content.partition(b"\n\n")
        kind = BytesParser().parsebytes(head).get_content_type()
        return _json(self._save(file_id, json.loads(said.partition(b"\n\n")[2]), data, kind))

    def _part(self, name: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        upload = self.server.owner.uploads.get(name)
        if upload is None:
            raise Refused(404)
        which = re.fullmatch(r"bytes (\*|(\d+)-\d+)/(\d+)", self.headers["Content-Range"])
        assert which is not None
        if which[2] is not None:
            if int(which[2]) != len(upload.content):
                raise Refused(400)
            upload.content += body
        if len(upload.content) < upload.length:
            got = {"Range": f"bytes=0-{len(upload.content) - 1}"} if upload.content else {}
            return 308, b"", got
        del self.server.owner.uploads[name]
        return _json(self._save(upload.file_id, upload.said, upload.content, upload.kind))

    def _refuse(self, status: int, reason: str, headers: dict[str, str]) -> None:
        said = {"error": {"code": status, "message": "no", "errors": [{"reason": reason}]}}
        self._send(status, json.dumps(said).encode(), {"Content-Type": "application/json", **headers})

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, half: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if half else body)
        self.close_connection |= half

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gave it
        """Says nothing."""


def _json(said: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
    return 200, json.dumps(said).encode(), {"Content-Type": "application/json; charset=UTF-8"}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
