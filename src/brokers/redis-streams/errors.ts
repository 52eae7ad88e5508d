import { asError, HapaxError, messageOf, unreached } from '../../base/index.ts'

/** Why there is no connection, and what to check. */
export function connectError(cause: unknown, at: string): HapaxError {
  const { code, fields, message } = cause instanceof HapaxError ? cause : (refusal(cause) ?? unavailable(cause))
  const reason =
    MEANINGS.find(([sign]) => sign.test(message))?.[1] ?? unreached(message.replace(/^Redis is not there: /, ''))
  return new HapaxError(code, `could not connect to Redis${at}: ${reason}`, { cause, fields })
}

const MEANINGS = [
  [/WRONGPASS|NOAUTH/, 'it refuses the user or the password (WRONGPASS, NOAUTH): check both'],
  [/DB index/, 'it has no database of this number: check the path of the URL, or the setting databases of the server'],
  [
    /Stream isn't writeable|Connection is closed|ECONNRESET|EPIPE|Protocol error|Unknown RESP type/,
    'it ended the connection at once; is it Redis that listens there?',
  ],
] as const

/** The error for a reply that took too long. */
export function late(ms: number): HapaxError {
  return new HapaxError('broker-timeout', `Redis did not answer within ${ms} ms`)
}

/** The error for a link that was lost, or could not be opened. */
export function unavailable(cause?: unknown): HapaxError {
  const why = cause === undefined ? 'the link to Redis was lost' : `Redis is not there: ${messageOf(asError(cause))}`
  return new HapaxError('broker-unavailable', why, { cause })
}

/** An error of a link as a HapaxError. Any other error means that the link is gone. */
export function brokerError(error: unknown): HapaxError {
  return error instanceof HapaxError ? error : unavailable(error)
}

/** Errors that are about the state of the server and not about the command. */
const UNWELL: ReadonlyMap<string, 'broker-blocked' | 'broker-unavailable'> = new Map([
  ['OOM', 'broker-blocked'],
  ['MISCONF', 'broker-blocked'],
  ['LOADING', 'broker-unavailable'],
  ['BUSY', 'broker-unavailable'],
  ['READONLY', 'broker-unavailable'],
  ['MASTERDOWN', 'broker-unavailable'],
  ['NOREPLICAS', 'broker-unavailable'],
  ['MOVED', 'broker-unavailable'],
  ['ASK', 'broker-unavailable'],
  ['TRYAGAIN', 'broker-unavailable'],
  ['CLUSTERDOWN', 'broker-unavailable'],
])

/** An error reply of Redis as a HapaxError; undefined for other errors. Error replies begin with a word in capitals. */
export function refusal(error: unknown): HapaxError | undefined {
  if (error instanceof HapaxError) return error.fields['reply'] === undefined ? undefined : error
  const message = error instanceof Error ? messageOf(error) : ''
  const reply = /^([A-Z][A-Z0-9]*) /.exec(message)?.[1]
  if (reply === undefined) return undefined
  return new HapaxError(UNWELL.get(reply) ?? 'broker-refused', `Redis answered: ${message}`, {
    cause: error,
    fields: { reply },
  })
}

/** The first word of an error reply: NOGROUP, WRONGTYPE … */
export function replyOf(error: unknown): string | undefined {
  const reply = refusal(error)?.fields['reply']
  return typeof reply === 'string' ? reply : undefined
}
