import { closeSync, openSync, realpathSync, statfsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { expected, HapaxError, WriterQueue } from '../../../../base/index.ts'

/** What statfs(2) of Linux returns for file systems of other hosts: SQLite's locks and shared memory fail on them. */
const NETWORK_FILE_SYSTEMS: Readonly<Record<number, string>> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'CIFS',
  4266872130: 'SMB2',
  22092: 'NCP',
  1397113167: 'AFS',
  1937076805: 'Coda',
  12805120: 'Ceph',
  198183888: 'Lustre',
}

const queues = new Map<string, WeakRef<WriterQueue>>()
const queuesOfHandles = new WeakMap<object, WriterQueue>()

/** The one queue of a database file in this process, whatever name the file is reached by. */
export function queueOf(path: string): WriterQueue {
  const key = realpathSync(path)
  const known = queues.get(key)?.deref()
  if (known !== undefined) return known
  const queue = new WriterQueue()
  queues.set(key, new WeakRef(queue))
  return queue
}

/** The one queue of a handle whose file is not known: a client of a remote database, or one in memory. */
export function queueFor(handle: object): WriterQueue {
  const known = queuesOfHandles.get(handle)
  if (known !== undefined) return known
  const queue = new WriterQueue()
  queuesOfHandles.set(handle, queue)
  return queue
}

/**
 * The file that a connection has opened. If it is deleted or replaced, it exists only as long as processes have it open, and their later
 * commits are lost with it. So the path is checked periodically, and no transaction begins while it leads to another file.
 */
export class OpenedFile {
  readonly #path: string
  readonly #identity: string
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    // Through its links, because they may come to lead elsewhere.
    this.#path = resolve(path)
    this.#identity = identityOf(this.#path) ?? expected('path', 'an existing file', path)
  }

  /** Throws if the path leads to another file, or to none. Rate-limited, because a check costs some microseconds. */
  assertThere(): void {
    const now = performance.now()
    if (now - this.#lookedAt < LOOK_MS) return
    const found = identityOf(this.#path)
    if (found !== this.#identity)
      throw fileGone(this.#path, found === undefined ? 'deleted' : 'replaced by another one')
    this.#lookedAt = now
  }
}

function identityOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found && `${found.dev} ${found.ino}`
}

function fileGone(path: string, how: string): HapaxError {
  const what = `the database file ${path} was ${how} while it was open`
  const todo =
    'no transaction begins on it, because its commits would be lost: put the file back or restart this process'
  return new HapaxError('store-unavailable', `${what}; ${todo}`, { fields: { path } })
}

/** How often a path is checked. */
const LOOK_MS = 500

/** Makes sure that the file is there, and where SQLite can be trusted with it. */
export function prepareFile(path: string): void {
  const directory = dirname(path)
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    expected('path', 'in a directory that exists', path)
  }
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) expected('path', 'a file, not a directory', path)
  refuseNetwork(path, statfsSync(directory).type)
  // It holds payloads. SQLite gives the files beside it the mode of this one; one that is there keeps its own.
  closeSync(openSync(path, 'a', 0o600))
}

/** Refuses the type of a file system if it is one of another host. */
export function refuseNetwork(path: string, type: number): void {
  const network = NETWORK_FILE_SYSTEMS[type >>> 0]
  if (network !== undefined) expected('path', `on a disk of this host, not on ${network}`, path)
}
