import type { ChannelModel } from 'amqplib'

// Publishes messages that amqplib would not write: their headers are raw bytes chosen by the test.

const FRAME_END = 0xce
const CONTENT_TYPE_AND_HEADERS = 0xa000

/** One entry of an AMQP table: a name, the letter of its type, and its bytes. */
export function field(name: string, type: string, value: Uint8Array): Buffer {
  return Buffer.concat([shortText(name), Buffer.from(type, 'latin1'), value])
}

export function longText(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as Uint8Array)
  return Buffer.concat([number(bytes.length, 4), bytes])
}

/** A table in a table in a table, so many levels deep. */
export function nested(depth: number): Buffer {
  let table: Buffer = Buffer.alloc(0)
  for (let level = 0; level < depth; level++) table = field('n', 'F', longText(table))
  return table
}

/** The attributes of a message as hapax reads them, as entries of a table. */
export function attributeFields(attributes: Readonly<Record<string, string>>): Buffer {
  return Buffer.concat(
    Object.entries(attributes).map(([name, value]) => field(`cloudEvents_${name}`, 'S', longText(value))),
  )
}

/** Publishes on a separate channel, with a table of headers that is sent unchanged. */
export async function publishRaw(
  connection: ChannelModel,
  to: { readonly exchange: string; readonly routingKey: string },
  headers: Uint8Array,
  body: Uint8Array,
): Promise<void> {
  const channel = await connection.createConfirmChannel()
  const { ch } = channel as unknown as { ch: number }
  const publish = [
    number(60, 2),
    number(40, 2),
    number(0, 2),
    shortText(to.exchange),
    shortText(to.routingKey),
    number(0, 1),
  ]
  const confirmed = new Promise<void>((resolve, reject) => {
    channel.once('ack', () => resolve())
    channel.once('nack', () => reject(new Error('the server refused the message')))
    channel.once('error', reject)
    channel.once('close', () => reject(new Error('the channel was closed')))
  })
  const { stream } = connection.connection as unknown as { stream: NodeJS.WritableStream }
  // The channel is used for this message alone, so the confirmation is its own.
  ;(channel as unknown as { unconfirmed: unknown[] }).unconfirmed.push(false)
  stream.write(Buffer.concat([frame(1, ch, publish), headerFrame(ch, headers, body.length), frame(3, ch, [body])]))
  await confirmed
  await channel.close()
}

/** The frame that carries the properties of a message. */
export function headerFrame(channel: number, headers: Uint8Array, bodyBytes = 0): Buffer {
  const head = [number(60, 2), number(0, 2), number(0, 4), number(bodyBytes, 4), number(CONTENT_TYPE_AND_HEADERS, 2)]
  return frame(2, channel, [...head, shortText('application/json'), longText(headers)])
}

function frame(type: number, channel: number, parts: readonly Uint8Array[]): Buffer {
  const payload = Buffer.concat(parts)
  return Buffer.concat([number(type, 1), number(channel, 2), number(payload.length, 4), payload, number(FRAME_END, 1)])
}

function shortText(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([number(bytes.length, 1), bytes])
}

function number(value: number, width: 1 | 2 | 4): Buffer {
  const bytes = Buffer.alloc(width)
  bytes.writeUIntBE(value, 0, width)
  return bytes
}
