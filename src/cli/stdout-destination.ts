import type { Confirmation, Destination, OutgoingMessage } from '../core/broker.ts'
import { isJson } from '../core/intake.ts'
import { jsonText } from './io.ts'

const CONFIRMED: Confirmation = { status: 'confirmed' }

/** Prints each message as one line of JSON, a CloudEvent in its structured form: to look at, or to pipe. */
export function stdoutDestination(out: { write(text: string): unknown }): Destination {
  return {
    name: 'stdout',
    features: { keepsOrder: true },
    publish: (messages) => {
      for (const message of messages) out.write(`${jsonText(cloudEvent(message))}\n`)
      return messages.map(() => Promise.resolve(CONFIRMED))
    },
    close: () => Promise.resolve(),
  }
}

/** CloudEvents allows only small letters and digits in names: headers become extensions of their own name. */
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
    return { data: isJson(contentType) ? JSON.parse(text) : text }
  } catch {
    return { data_base64: Buffer.from(data).toString('base64') }
  }
}

function extensions(headers: Readonly<Record<string, string>>): object {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase().replaceAll(/[^a-z0-9]/g, ''), value])
  return Object.fromEntries(named.filter(([name]) => name !== ''))
}
