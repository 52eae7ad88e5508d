import { DatabaseSync, StatementSync } from 'node:sqlite'
import type { LinkTap } from '../../../src/conformance/brokers/link-proxy.ts'

/** What a piece of work asked of its store. */
export interface Counts {
  /** Requests that the client waits for. */
  readonly roundTrips: number
  /** Statements that the server ran. */
  readonly statements: number
}

/** Counts from here on. */
export interface Counter {
  read(): Counts
}

/** A counter, and what it sees of each connection. */
interface WireCounter extends Counter {
  tap(): LinkTap
}

/**
 * Reads the messages of the client on the wire. A flight of statements ends with one Sync, and a script is one Query; the
 * client waits once for each.
 */
export function postgresCounter(): WireCounter {
  const seen = { roundTrips: 0, statements: 0 }
  const count = (type: string): void => {
    if (type === 'Q' || type === 'S') seen.roundTrips += 1
    if (type === 'Q' || type === 'E') seen.statements += 1
  }
  return {
    read: () => ({ ...seen }),
    tap: () =>
      tapOf((bytes, first) => {
        // The very first message of a client has no type.
        const at = first ? 0 : 1
        if (bytes.length < at + 4) return undefined
        const length = at + bytes.readUInt32BE(at)
        if (bytes.length < length) return undefined
        if (!first) count(String.fromCharCode(bytes[0] ?? 0))
        return length
      }),
  }
}

/** Commands that have no reply: COM_QUIT, COM_STMT_CLOSE. */
const UNANSWERED = [0x01, 0x19]
const COM_STMT_PREPARE = 0x16

/** Each command is a round trip; those that only prepare a statement run none. Several statements in one command count as one. */
export function mysqlCounter(): WireCounter {
  const seen = { roundTrips: 0, statements: 0 }
  return {
    read: () => ({ ...seen }),
    tap: () =>
      tapOf((bytes) => {
        if (bytes.length < 4) return undefined
        const length = 4 + bytes.readUIntLE(0, 3)
        if (bytes.length < length) return undefined
        const command = bytes[4] ?? 0
        // Commands start a new sequence; the login does not.
        if (bytes[3] === 0 && !UNANSWERED.includes(command)) {
          seen.roundTrips += 1
          if (command !== COM_STMT_PREPARE) seen.statements += 1
        }
        return length
      }),
  }
}

/** Each command of the client, which is an array of RESP. */
export function redisCounter(): WireCounter {
  const seen = { roundTrips: 0, statements: 0 }
  return {
    read: () => ({ ...seen }),
    tap: () =>
      tapOf((bytes) => {
        const length = respLength(bytes)
        if (length === undefined) return undefined
        seen.roundTrips += 1
        seen.statements += 1
        return length
      }),
  }
}

/** The length of a command: `*2\r\n$3\r\nGET\r\n$1\r\na\r\n`; undefined while it is incomplete. */
function respLength(bytes: Buffer): number | undefined {
  let at = bytes.indexOf('\r\n')
  if (at < 0) return undefined
  const parts = Number(bytes.toString('latin1', 1, at))
  at += 2
  for (let part = 0; part < parts; part++) {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return undefined
    at = end + 2 + Number(bytes.toString('latin1', at + 1, end)) + 2
  }
  return at <= bytes.length ? at : undefined
}

/** Cuts what the client sends into frames; `take` returns the length of the first one, undefined while it is incomplete. */
function tapOf(take: (bytes: Buffer, first: boolean) => number | undefined): LinkTap {
  let rest: Buffer = Buffer.alloc(0)
  let first = true
  return {
    sent(chunk) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      for (let length = take(rest, first); length !== undefined; length = take(rest, first)) {
        rest = rest.subarray(length)
        first = false
      }
    },
    received: () => {},
    ended: () => {},
  }
}

/** Every run of a statement in this process. SQLite has no round trips. */
export function sqliteCounter(): Counter {
  let statements = 0
  for (const [prototype, names] of [
    [StatementSync.prototype, ['run', 'get', 'all', 'iterate']],
    [DatabaseSync.prototype, ['exec']],
  ] as const) {
    for (const name of names) {
      const original: unknown = Reflect.get(prototype, name)
      if (typeof original !== 'function') throw new Error(`expected node:sqlite to have ${name}`)
      Reflect.set(prototype, name, function counted(this: unknown, ...args: unknown[]): unknown {
        statements += 1
        return Reflect.apply(original, this, args)
      })
    }
  }
  return { read: () => ({ roundTrips: 0, statements }) }
}
