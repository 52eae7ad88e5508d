import { safeJson } from '../../base/index.ts'
import type { Confirmation, Destination } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { isJson } from '../../message/index.ts'
import type { Io } from './io.ts'
import { exactJson } from './payload.ts'

const CONFIRMED: Confirmation = { status: 'confirmed' }

/** Prints each message as one line of JSON, a CloudEvent in structured form: to read, or to pipe. */
export function stdoutDestination(out: Pick<Io['out'], 'write'>): Destination {
  return {
    name: 'stdout',
    features: { keepsOrder: true },
    prepare: () => Promise.resolve(),
    publish: (messages, signal, settle) => {
      for (const [index, message] of messages.entries()) print(out, message, signal, (sent) => settle(index, sent))
    },
    close: () => Promise.resolve(),
  }
}

/** Confirms a message once it has left this process: what is only buffered would be lost with it. */
function print(
  out: Pick<Io['out'], 'write'>,
  message: OutgoingMessage,
  signal: AbortSignal,
  settle: (sent: Confirmation) => void,
): void {
  let settled = false
  const settleOnce = (sent: Confirmation): void => {
    signal.removeEventListener('abort', abort)
    if (!settled) settle(sent)
    settled = true
  }
  const away = (error: Error): void => settleOnce({ status: 'unavailable', error })
  const abort = (): void => away(new Error('stdout was not read in time'))
  signal.addEventListener('abort', abort, { once: true })
  out.write(`${safeJson(cloudEvent(message))}\n`, (error) => (error ? away(error) : settleOnce(CONFIRMED)))
}

/** Headers become extensions. CloudEvents allows only lower-case letters and digits in their names. */
function cloudEvent({ data, headers = {}, ...message }: OutgoingMessage): object {
  const { key, correlationId, causationId, datacontenttype = 'application/json', ...attributes } = message
  return {
    ...extensions(headers),
    specversion: '1.0',
    ...attributes,
    datacontenttype,
    ...(key !== undefined && { partitionkey: key }),
    ...(correlationId !== undefined && { correlationid: correlationId }),
    ...(causationId !== undefined && { causationid: causationId }),
    ...(data.length > 0 && payload(data, datacontenttype)),
  }
}

/** JSON as it is, text as a string, anything else as base64. */
function payload(data: Uint8Array, contentType: string): object {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(data)
    return { data: isJson(contentType) ? exactJson(text) : text }
  } catch {
    return { data_base64: Buffer.from(data).toString('base64') }
  }
}

function extensions(headers: Readonly<Record<string, string>>): object {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase().replaceAll(/[^a-z0-9]/g, ''), value])
  return Object.fromEntries(named.filter(([name]) => name !== ''))
}
