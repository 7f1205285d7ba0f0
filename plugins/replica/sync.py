"""One pass over the replica: finds what changed on either side, and makes folder and documents the same.

    Sync.run           once, in a daemon that holds the lease
     1 survey          what the folder and the database have
     2 erase again     files that name what was erased go               documents/ignored_files.py
     3 claim           paths of files of entries are theirs             entries/sync.py
     4 match           which file is which document's                   plugins/replica/rules/decision.py
     5 compare         per document: by three hashes, one side goes to the other
                                                                        plugins/replica/rules/decision.py
     6 conflicts       what people wrote into files of conflicts        documents/conflicts.py
     7 deletions       once they are settled: a conflict takes the place of its document, else the document goes
     8 end conflicts   whose files people deleted                       documents/conflicts.py
     9 add             files that are nobody's become documents
    10 entries         the same for what is remembered                  entries/sync.py
    11 tell            people are told which files were left as they are
    12 index           README.md and Index.md                           documents/index.py

Promise: a pass may end at any point, by kill -9 too, and the next one goes on from what is there. A file is written before it
is noted: one whose text is already the row's is only noted. What a person wrote is in the database in the same transaction as
its base. No transaction is open while a file is read or written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from uuid import UUID

from plugins.files.local import is_text, written
from plugins.files.refusals import accepted
from plugins.replica.changed_files import SETTLE_SECONDS, ChangedFiles, FileText
from plugins.replica.documents.conflicts import Conflicts
from plugins.replica.documents.ignored_files import IgnoredFiles
from plugins.replica.documents.index import Index
from plugins.replica.entries.sync import Collections
from plugins.replica.folder import Folder
from plugins.replica.pass_state import PassState, Report, Settling, SkipReason, Writer
from plugins.replica.rules import decision
from plugins.replica.rules.decision import Action, RowState
from plugins.replica.rules.document_file import DocumentText, Text, read, write
from plugins.replica.rules.paths import key, path_for, source_of, title_of, user_of
from plugins.replica.store.documents import ADD, BURY, FORGET, MOVE, TAKE, Base, Document, Edit, Store

BATCH = 100
"""Documents whose contents are in memory at once."""


@dataclass(slots=True)
class _Results:
    noted: list[Base] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    forgotten: list[tuple[UUID, None]] = field(default_factory=list)
    given: dict[UUID, str] = field(default_factory=dict)
    gone: dict[UUID, datetime] = field(default_factory=dict)


class Sync:
    """Makes a folder and the documents the same, pass by pass. One at a time works on a folder."""

    def __init__(self, *, store: Store, folder: Folder, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._store = store
        self._folder = folder
        self._reading = ChangedFiles(folder, settle_seconds=settle_seconds)
        self._writer = Writer(folder, store, self._reading)
        self._deletions = Settling(settle_seconds)
        self._conflicts = Conflicts(store, self._writer, Settling(settle_seconds))
        self._collections = Collections(store.entries, self._writer, Settling(settle_seconds))
        self._index = Index(store, folder, self._writer)
        self._ignored = IgnoredFiles(store, self._writer)

    async def prepare(self, replica: UUID) -> None:
        """Makes the folder ready. A folder without the replica's mark is taken only while no file is known."""
        if not await self._store.has_files():
            await asyncio.to_thread(self._folder.identify, replica)
        await asyncio.to_thread(self._folder.check, replica)
        await asyncio.to_thread(self._folder.clean)

    async def run(self, replica: UUID) -> Report:
        """One pass. Raises FolderUnavailable, LeaseLostError, and what the database raises."""
        state = await self._survey(replica)
        await self._ignored.erase_again(state, self._collections.known)
        self._collections.claim(state)
        new = await self._match(state)
        gone = await self._compare(state)
        # First what people wrote into files of conflicts: one of these may become the document's text.
        has_conflicts = bool(state.lost or state.conflicts)
        if has_conflicts:
            await self._conflicts.run(state)
        if self._deletions.is_over(state, {state.bases[document].path for document in gone}):
            if has_conflicts:
                gone = await self._conflicts.promote(state, gone)
            if gone or any(base.waits for base in state.bases.values()):
                await self._bury(state, gone)
        if has_conflicts:
            await self._conflicts.end_deleted(state)
        for start in range(0, len(new), BATCH):
            await self._add(state, new[start : start + BATCH])
        await self._collections.run(state)
        await self._ignored.note(state)
        await self._index.run(state)
        return state.report

    async def _survey(self, replica: UUID) -> PassState:
        """The state of both sides. Raises FolderUnavailable."""
        await asyncio.to_thread(self._folder.check, replica)
        listing = await asyncio.to_thread(self._folder.list)
        known = await self._store.files()
        has_hashes = any(entry.hash is not None for entry in listing.files.values())
        noted = _noted(known) if has_hashes else {}
        files = await asyncio.to_thread(self._reading.files, listing, noted)
        # Once more: if the folder was unmounted meanwhile, nothing is gone.
        await asyncio.to_thread(self._folder.check, replica)
        expected = {base.path: base.conflict or base.document for base in known}
        expected |= await self._collections.load()
        if listing.unread:
            files.unknown.update(path for path in expected if listing.is_unknown(path))
        if listing.is_young:
            # What is not listed yet is not gone; unless it is listed under another path.
            named = {
                one for file in files.known.values() for one in (file.id, file.conflict, file.collection)
            }
            files.unknown.update(
                path for path, one in expected.items() if path not in listing.files and one not in named
            )
        state = PassState(
            listing,
            files,
            {base.document: base for base in known if base.conflict is None},
            {base.conflict: base for base in known if base.conflict is not None},
            expected,
        )
        report = state.report
        if files.pause is not None:
            report.waits, report.pause = True, files.pause
        nameless = [written(path) for path in listing.unread if not is_text(path)]
        report.unnamed = listing.left_out
        report.left_out |= dict.fromkeys(nameless, SkipReason.NAME)
        report.left_out |= dict.fromkeys(files.unread, SkipReason.NO_TEXT)
        report.left_out |= dict.fromkeys(files.failed, SkipReason.UNREADABLE)
        return state

    async def _match(self, state: PassState) -> list[str]:
        """Matches files with documents and conflicts, also moved ones. Returns the other files."""
        files = state.files
        state.lost = await self._store.conflicts()
        state.lost_paths = decision.match(
            {path: file.conflict for path, file in files.known.items() if file.conflict is not None}
            | {base.path: base.conflict for base in state.conflicts.values() if base.path in files.unknown},
            {conflict: base.path for conflict, base in state.conflicts.items()},
            {conflict: base.user for conflict, base in state.conflicts.items()}
            | {conflict: one.user for conflict, one in state.lost.items() if not one.deleted},
        ).known
        theirs = set(state.lost_paths.values())
        named = {path: file.id for path, file in files.known.items() if path not in theirs}
        paths = {document: base.path for document, base in state.bases.items()}
        # A file that cannot be read now stays whose it was.
        named |= {path: document for document, path in paths.items() if path in files.unknown}
        # A document that was erased is known by its file, wherever that is by now.
        owners = {document: base.user for document, base in state.bases.items()}
        unknown = {document for document in named.values() if document is not None} - owners.keys()
        if unknown:
            owners |= await self._store.owners(unknown)
        matches = decision.match(named, paths, owners)
        await self._store.write(MOVE, list(matches.moved.items()), False)
        state.report.counts["moved"] += len(matches.moved)
        state.paths = matches.known
        return matches.new

    async def _compare(self, state: PassState) -> dict[UUID, datetime]:
        """Compares each changed document with its file. Returns the documents of missing files."""
        changed = [
            document
            for document, base in state.bases.items()
            if (file := state.known(document)) is None or file.hash != base.file
        ]
        changed += [document for document in state.paths if document not in state.bases]
        due = await self._store.to_compare(changed)
        gone: dict[UUID, datetime] = {}
        for start in range(0, len(due), BATCH):
            some = due[start : start + BATCH]
            rows = await self._store.documents(some)
            await self._store.entries.learn_homes(state.homes, _new_users(rows.values(), state))
            results = _Results()
            for document in some:
                await self._compare_one(state, document, rows.get(document), results)
            await self._finish(state, results)
            gone |= results.gone
        return gone

    async def _finish(self, state: PassState, results: _Results) -> None:
        await self._store.note(results.noted)
        await self._store.write(FORGET, results.forgotten)
        await self._store.write(MOVE, list(results.given.items()), True)
        rows, refused = await accepted(partial(self._store.write, TAKE), results.edits)
        taken = {row[0] for row in rows}
        state.report.counts["taken"] += len(taken)
        state.report.counts["conflicts"] += sum(e.lost for e in results.edits if e.document in taken)
        # Their front matter is written in the next pass, or they are compared with the row as it is by then.
        state.report.again |= len(results.edits) > len(refused) or bool(results.given)
        state.report.left_out |= {edit.path: SkipReason.REFUSED for edit, _ in refused}

    async def _compare_one(
        self, state: PassState, document: UUID, row: Document | None, results: _Results
    ) -> None:
        file, path = state.known(document), state.paths.get(document, "")
        if path in state.files.unknown:
            if row is None and (other := state.files.unread.get(path)) is not None:
                # The document was erased, and its file is no text by now.
                await self._remove(state, document, path, other, results)
            return
        said = None if file is None else await self._writer.read(state, path, file, read)
        if file is not None and said is None:
            return  # it has changed since it was read: the next pass sees what it is
        match _action(state, document, row, said):
            case Action.NOTHING | Action.NOTE | Action.WRITE as action if row and row.row is RowState.THERE:
                await self._write(state, row, action, results)
            case Action.TAKE | Action.TAKE_BOTH as action if row and file and said:
                _note_edit(state, row, results, path, file, said, lost=action is Action.TAKE_BOTH)
            case Action.BURY if row:
                results.gone[document] = row.version
            case Action.REMOVE if file:
                await self._remove(state, document, path, file, results, for_good=row is None)
            case Action.FORGET:
                results.forgotten.append((document, None))

    async def _remove(
        self,
        state: PassState,
        document: UUID,
        path: str,
        file: FileText,
        results: _Results,
        *,
        for_good: bool = True,
    ) -> None:
        if await self._writer.remove(state, path, replaces=file.hash, for_good=for_good):
            results.forgotten.append((document, None))
            state.report.counts["removed"] += 1
            state.report.left_out.pop(path, None)

    async def _write(self, state: PassState, row: Document, action: Action, results: _Results) -> None:
        assert row.text is not None
        base, file, path = state.bases.get(row.id), state.known(row.id), state.paths.get(row.id)
        if path is not None and file is not None and base is not None and base.user != row.user:
            # It was given to another user.
            to = _path(row, state)
            state.taken.add(key(to))
            if await self._writer.move(state, path, to, replaces=file.hash):
                results.given[row.id] = to
                state.report.counts["moved"] += 1
            return
        if path is None:
            known = base is not None and base.user == row.user and base.path not in state.listing.files
            path = base.path if base and known else _path(row, state)
            state.taken.add(key(path))
        content = write(row.front, row.text)
        hashed = sha256(content).digest()
        if file and base and action is not Action.WRITE and (base.version, row.id) == (row.version, file.id):
            hashed = file.hash  # only a person changed lines of the front matter that are memoryd's
        if file is None or file.hash != hashed:
            replaces = None if file is None else file.hash
            if not await self._writer.write(state, path, content, replaces=replaces):
                return
            state.report.counts["written"] += 1
        now = row.text.digest()
        began = None if base is None else decision.began_from(base.base, base.began, now=now)
        results.noted.append(Base(path, row.id, None, row.user, now, hashed, row.version, began))

    async def _bury(self, state: PassState, gone: Mapping[UUID, datetime]) -> None:
        """Deletes the documents of missing files, each given with the version that was compared; or asks a person first."""
        bases = state.bases
        confirmed = {document: version for document, version in gone.items() if bases[document].confirmed}
        others = {document: version for document, version in gone.items() if document not in confirmed}
        asked: list[str] = []
        recent = await self._store.recently_buried(decision.RECENT_SECONDS) if others else 0
        if decision.ask_first(len(others) + recent, of=len(bases) + recent):
            asked, others = [bases[document].path for document in others], {}
        await self._store.ask_confirmation([*asked, *(bases[document].path for document in confirmed)])
        state.report.asked = len(asked)
        for some, is_confirmed in ((confirmed, True), (others, False)):
            buried = await self._store.write(BURY, list(some.items()), is_confirmed)
            state.report.counts["deleted"] += len(buried)

    async def _add(self, state: PassState, new: Sequence[str]) -> None:
        additions = []
        for path in new:
            file = state.files.known[path]
            if (said := await self._writer.read(state, path, file, read)) is not None:
                columns = _columns(said.text(title_of(path)), path, file, state)
                additions.append((path, user_of(path), source_of(path), *columns, said.began))
        added, refused = await accepted(partial(self._store.write, ADD), additions)
        state.report.left_out |= {one[0]: SkipReason.REFUSED for one, _ in refused}
        state.report.counts["added"] += len(added)
        state.report.again |= bool(added)


def _noted(known: Sequence[Base]) -> dict[bytes, FileText]:
    counts = Counter(base.file for base in known)
    return {
        base.file: FileText(base.file, base.document if base.conflict is None else None, base.conflict)
        for base in known
        if counts[base.file] == 1
    }


def _new_users(rows: Iterable[Document], state: PassState) -> Iterator[UUID | None]:
    """The users whose folders may get a file."""
    for row in rows:
        base = state.bases.get(row.id)
        if row.id not in state.paths or base is None or base.user != row.user:
            yield row.user


def _path(row: Document, state: PassState) -> str:
    home = None if row.user is None else state.homes[row.user]
    return path_for(row.title, row.source, home, folder=row.folder, taken=state.taken)


def _action(state: PassState, document: UUID, row: Document | None, said: DocumentText | None) -> Action:
    base, path = state.bases.get(document), state.paths.get(document, "")
    title = title_of(path) if row is None else row.title
    theirs = None if said is None else said.text(title).digest()
    ours = None if row is None or row.text is None else row.text
    action = decision.decide(
        RowState.GONE if row is None else row.row,
        base=None if base is None else base.base,
        theirs=theirs,
        ours=None if ours is None else ours.digest(),
    )
    if action is Action.BURY and state.is_unseen(base):
        return Action.WRITE
    if row is not None and row.is_of_chunks and action in (Action.TAKE, Action.TAKE_BOTH):
        state.report.left_out[path] = SkipReason.CHUNKS
        return Action.LEAVE
    if action is not Action.TAKE or base is None or said is None or ours is None or theirs == ours.digest():
        return action
    is_lost = decision.is_old(said.began, base=base.base, before=base.began, row=ours)
    return Action.TAKE_BOTH if is_lost else action


def _note_edit(
    state: PassState,
    row: Document,
    results: _Results,
    path: str,
    file: FileText,
    said: DocumentText,
    *,
    lost: bool,
) -> None:
    text, base = said.text(row.title), state.bases.get(row.id)
    began = decision.began_of(said.began, before=None if base is None else base.began)
    columns = _columns(text, path, file, state)
    results.edits.append(Edit(path, row.id, row.version, lost, *columns, began))


def _columns(
    text: Text, path: str, file: FileText, state: PassState
) -> tuple[str, str, str, datetime, bytes, bytes]:
    modified = state.listing.files[path].modified
    return text.title, text.body, text.front_matter, modified, text.digest(), file.hash
