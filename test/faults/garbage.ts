// Bytes that no server would send, by the protocol that they are sent in.

type Named = readonly (readonly [what: string, bytes: Buffer])[]

export function garbage(kind: string): Named {
  if (kind === 'postgres') return POSTGRES
  return kind === 'rabbitmq' ? RABBITMQ : REDIS
}

const ASCII = (text: string): Buffer => Buffer.from(text, 'latin1')

/** A message of PostgreSQL: its letter, a length, which may be a lie, and what comes then. */
function letter(name: string, body: Buffer, length = body.length + 4): Buffer {
  const head = Buffer.alloc(5)
  head.write(name)
  head.writeInt32BE(length, 1)
  return Buffer.concat([head, body])
}

const POSTGRES: Named = [
  ['a length of nothing', letter('T', Buffer.alloc(0), 0)],
  ['a length of one', letter('D', Buffer.alloc(0), 1)],
  ['columns that are fewer than none', letter('T', Buffer.from([255, 255]))],
  ['columns that end too early', letter('T', Buffer.from([0, 3, 65]))],
  ['a way to log in that nobody knows', letter('R', Buffer.from([0, 0, 0, 99]))],
  ['a row of its own', letter('D', Buffer.from([0, 1, 0, 0, 0, 1, 65]))],
]

/** A frame of AMQP. */
function frame(type: number, channel: number, payload: Buffer): Buffer {
  const head = Buffer.from([type, 0, channel, 0, 0, 0, payload.length])
  return Buffer.concat([head, payload, Buffer.from([0xce])])
}

const RABBITMQ: Named = [
  ['a channel that is not open', frame(1, 77, Buffer.from([0, 20, 0, 11]))],
  ['a method that nobody knows', frame(1, 1, Buffer.from([0, 99, 0, 99]))],
  ['a frame that is empty', frame(1, 1, Buffer.alloc(0))],
  ['an answer to no question', frame(1, 1, Buffer.from([0, 20, 0, 11, 0, 0, 0, 0]))],
  ['a body without a message', frame(3, 1, Buffer.alloc(5))],
  ['a frame that does not end', Buffer.from([1, 0, 1, 0, 0, 0, 1, 5, 0])],
  ['a frame of four gigabytes', Buffer.from([1, 0, 1, 255, 255, 255, 255])],
]

const REDIS: Named = [
  ['a type that nobody knows', ASCII('~~~\r\n')],
  ['answers to no question', ASCII('+OK\r\n+OK\r\n')],
  ['a list of four thousand million', ASCII('*4294967296\r\n')],
  ['a length that is no number', ASCII('$x\r\n')],
]
