import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { faketime } from '../../scripts/services/faketime.ts'
import { noPrivateServer, type PrivateServer, privateServer } from './private-server.ts'

/** A server whose clock a test can set while it runs. The clock of the test process is unaffected. */
export interface ServerWithClock extends AsyncDisposable {
  readonly url: string
  /** Sets the offset of its clock from that of the machine. */
  setClock(offsetMs: number): void
}

/** Why it is unavailable here; undefined: it is available. */
export function noServerWithClock(name: 'postgres' | 'mysql'): string | undefined {
  return noPrivateServer(name) ?? (faketime.find() === undefined ? 'libfaketime is not installed here' : undefined)
}

/** Starts a private server under libfaketime, which reads the time from a file. */
export async function serverWithClock(name: 'postgres' | 'mysql'): Promise<ServerWithClock> {
  const library = faketime.find()?.from
  const server: PrivateServer = await privateServer(name, {
    files: { [FILE]: '+0' },
    under: (directory) => [
      'env',
      `LD_PRELOAD=${library}`,
      `FAKETIME_TIMESTAMP_FILE=${join(directory, FILE)}`,
      'FAKETIME_NO_CACHE=1',
      'FAKETIME_DONT_FAKE_MONOTONIC=1',
    ],
  })
  const path = join(server.directory, FILE)
  return {
    url: server.url,
    setClock: (offsetMs) => {
      const seconds = offsetMs / 1000
      // Renamed, so that it is never read half-written.
      writeFileSync(`${path}.new`, `${seconds < 0 ? '' : '+'}${seconds}`)
      renameSync(`${path}.new`, path)
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

const FILE = 'clock'
