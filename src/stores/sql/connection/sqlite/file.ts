import { closeSync, openSync, realpathSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { expected, WriterQueue } from '../../../../base/index.ts'

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
