import { asError, fieldOf, HapaxError, reasonOf, unreached } from '../../base/index.ts'

/** The reason that the server gives when it closes a channel or a connection. */
export interface ServerClose {
  /** 404, 406 and so on. */
  readonly code: number
  /** Whether a published message is the reason. */
  readonly published: boolean
  /** The reply text of the server. */
  readonly sentence: string
}

/** The reason of the server in an error of `amqplib`; undefined if the error did not come from the server. */
export function serverClose(error: unknown): ServerClose | undefined {
  const code = fieldOf(error, 'code')
  const published = fieldOf(error, 'classId') === 60 && fieldOf(error, 'methodId') === 40
  const { message } = asError(error)
  const known = typeof code === 'number' ? code : Number(HANDSHAKE.exec(message)?.[1])
  if (!(known >= 300 && known < 600)) return undefined
  return { code: known, published, sentence: SENTENCE.exec(message)?.[1] ?? message }
}

const HANDSHAKE = /^Handshake terminated by server: (\d+)/
const SENTENCE = /with message "(.*)"$/s

/** Whether `amqplib` refused a call because the channel or the connection is closed. */
export function isClosed(error: unknown): boolean {
  return asError(error).name === 'IllegalOperationError'
}

/** An error of `amqplib` as a HapaxError. `what` says what was tried, or what was lost. */
export function brokerError(what: string, error: unknown): HapaxError {
  if (error instanceof HapaxError) return error
  const closed = serverClose(error)
  const code = closed === undefined ? codeOf(error) : CODES.get(closed.code)
  const detail = closed?.sentence ?? reasonOf(error)
  return new HapaxError(code ?? 'broker-unavailable', `${what}: ${detail}`, {
    cause: error,
    ...(closed === undefined ? {} : { fields: { replyCode: closed.code } }),
  })
}

/** Why there is no connection, and what to check. */
export function connectError(what: string, thrown: unknown): HapaxError {
  const { code, fields } = brokerError(what, thrown)
  const detail = serverClose(thrown)?.sentence ?? reasonOf(thrown)
  const reason = MEANINGS.find(([sign]) => sign.test(detail))?.[1] ?? unreached(detail)
  return new HapaxError(code, `${what}: ${reason}`, { cause: thrown, fields })
}

const MEANINGS = [
  [/ACCESS_REFUSED.*Login was refused/, 'it refuses the user or the password (ACCESS_REFUSED): check both'],
  // The server closes the connection in reply to the opening of an unknown virtual host.
  [/got <ConnectionClose/, 'it has no such virtual host, or the user may not use it: check the path of the URL'],
  [/Socket closed abruptly/, 'it ended the connection at once; is it RabbitMQ that listens there?'],
] as const

/** What reply codes mean while declaring or consuming. All others are interruptions. */
const CODES: ReadonlyMap<number, 'broker-refused' | 'topology-mismatch'> = new Map([
  [403, 'broker-refused'],
  [404, 'topology-mismatch'],
  [405, 'broker-refused'],
  [406, 'topology-mismatch'],
  [530, 'broker-refused'],
  [540, 'broker-refused'],
] as const)

/** The code for an error without a reply code: refused if the virtual host was, else unavailable. */
function codeOf(error: unknown): 'broker-refused' | 'broker-unavailable' {
  return asError(error).message.includes('got <ConnectionClose') ? 'broker-refused' : 'broker-unavailable'
}
