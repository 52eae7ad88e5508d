import assert from 'node:assert/strict'
import type { Writes } from '../contracts/index.ts'
import { isJson, type MessageType, type StoredMessage } from '../message/index.ts'

/** A message that was published, as its readers will get it. */
export interface PublishedMessage {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly key?: string
  readonly subject?: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON is parsed, text is a string, all else is bytes. */
  readonly data: unknown
}

/** Collects what was published and committed. */
export class PublishedMessages {
  readonly all: PublishedMessage[] = []

  add(writes: Writes): void {
    for (const { message } of [...(writes.outbox ?? []), ...(writes.local?.rows ?? [])]) this.all.push(seen(message))
  }

  clear(): void {
    this.all.length = 0
  }

  /** The first of this type whose data contain these; fails, and lists what there was, if there is none. */
  expect(type: string | MessageType<never, unknown>, data?: unknown): PublishedMessage {
    const name = typeof type === 'string' ? type : type.type
    const found = this.all.find((each) => each.type === name && (data === undefined || contains(each.data, data)))
    if (found !== undefined) return found
    const shown = this.all.map((each) => `  ${each.type} ${JSON.stringify(each.data)}`).join('\n')
    throw new assert.AssertionError({
      message:
        `expected a message ${name} to be published and committed` +
        `${data === undefined ? '' : ` with ${JSON.stringify(data)}`}, got ${shown === '' ? 'none' : `\n${shown}`}`,
      actual: this.all.filter((each) => each.type === name).map((each) => each.data),
      expected: data,
      operator: 'partialDeepStrictEqual',
    })
  }
}

function contains(actual: unknown, part: unknown): boolean {
  try {
    assert.partialDeepStrictEqual(actual, part)
    return true
  } catch {
    return false
  }
}

function seen({ id, source, type, key, attributes, data }: StoredMessage): PublishedMessage {
  const { subject, headers, datacontenttype }: Attributes = JSON.parse(attributes)
  return {
    id,
    source,
    type,
    ...(key === null ? {} : { key }),
    ...(subject === undefined ? {} : { subject }),
    ...(headers === undefined ? {} : { headers }),
    data: dataOf(data, datacontenttype),
  }
}

interface Attributes {
  readonly subject?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly datacontenttype?: string
}

function dataOf(bytes: Uint8Array, contentType: string | undefined): unknown {
  if (bytes.length === 0) return undefined
  if (isJson(contentType)) return JSON.parse(Buffer.from(bytes).toString())
  return contentType?.startsWith('text/') ? Buffer.from(bytes).toString() : bytes
}
