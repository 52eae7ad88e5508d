import { asError, HapaxError, messageOf, unreached } from '../../base/index.ts'

/** Why there is no link, and what to look at. */
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
    /Stream isn't writeable|Connection is closed|ECONNRESET|EPIPE|Protocol error/,
    'it ended the connection at once; is it Redis that listens there?',
  ],
] as const

/** Redis took too long. */
export function late(ms: number): HapaxError {
  return new HapaxError('broker-timeout', `Redis did not answer within ${ms} ms`)
}

/** The link was lost, or there is none. */
export function unavailable(cause?: unknown): HapaxError {
  const why = cause === undefined ? 'the link to Redis was lost' : `Redis is not there: ${messageOf(asError(cause))}`
  return new HapaxError('broker-unavailable', why, { cause })
}

/** What a link failed with, as an error of hapax: what is none yet means that the link is gone. */
export function brokerError(error: unknown): HapaxError {
  return error instanceof HapaxError ? error : unavailable(error)
}

/** What is wrong with the server, not with what was asked for. */
const UNWELL: ReadonlyMap<string, 'broker-blocked' | 'broker-unavailable'> = new Map([
  ['OOM', 'broker-blocked'],
  ['MISCONF', 'broker-blocked'],
  ['LOADING', 'broker-unavailable'],
  ['BUSY', 'broker-unavailable'],
  ['READONLY', 'broker-unavailable'],
  ['MASTERDOWN', 'broker-unavailable'],
  ['NOREPLICAS', 'broker-unavailable'],
])

/** The error that Redis answered, if it was Redis: such an answer begins with a word in capitals. */
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

/** The first word of the error that Redis answered: NOGROUP, WRONGTYPE … */
export function replyOf(error: unknown): string | undefined {
  const reply = refusal(error)?.fields['reply']
  return typeof reply === 'string' ? reply : undefined
}
