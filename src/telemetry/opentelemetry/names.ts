// The names of OpenTelemetry's conventions for messaging. Written down here, because the package that has them is no API to depend on.

import type { Attributes } from '@opentelemetry/api'
import type { Facts, MessageFacts, Operation } from '../../base/index.ts'

/** What the conventions call an operation. */
interface Name {
  readonly name: string
  readonly type: string
}

/** `publish` writes to the database; it is the relay that sends. */
const OPERATIONS: Readonly<Partial<Record<Operation, Name>>> = {
  publish: { name: 'publish', type: 'create' },
  relay: { name: 'send', type: 'send' },
  receive: { name: 'receive', type: 'receive' },
  process: { name: 'process', type: 'process' },
  handle: { name: 'handle', type: 'process' },
  settle: { name: 'settle', type: 'settle' },
}

/**
 * The system, under its new name and the old one, which tools still read. `OTEL_SEMCONV_STABILITY_OPT_IN=messaging` leaves out the old
 * one; it is read once, as by every other instrumentation.
 */
export function systemNames(optIn: string = process.env['OTEL_SEMCONV_STABILITY_OPT_IN'] ?? ''): readonly string[] {
  const onlyNew = optIn.split(',').some((each) => each.trim() === 'messaging')
  return onlyNew ? ['messaging.system.name'] : ['messaging.system.name', 'messaging.system']
}

/** Makes the attributes of operations, of which there are few kinds: each is made once. */
export class Named {
  readonly #systemNames: readonly string[]
  readonly #known = new Map<string, Attributes>()

  constructor(systems: readonly string[]) {
    this.#systemNames = systems
  }

  /** Whatever an operation has in common with all others of its kind. Fit for metrics: no ids, no types. */
  of(operation: Operation, { system, destination, consumer }: Facts): Attributes {
    // Messages of the outbox have a type instead of a destination, which must not be a label.
    const place = operation === 'publish' ? '' : (destination ?? '')
    const key = `${operation}\n${system}\n${place}\n${consumer ?? ''}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const { name = operation, type = operation } = OPERATIONS[operation] ?? {}
    const made: Attributes = { 'messaging.operation.name': name, 'messaging.operation.type': type }
    for (const systemName of this.#systemNames) made[systemName] = system
    if (place !== '') made['messaging.destination.name'] = place
    if (consumer !== undefined) made['messaging.consumer.group.name'] = consumer
    this.#known.set(key, made)
    return made
  }
}

/** The name of a span: what is done, and where. */
export function spanName(operation: Operation, { destination, effect, scope }: Facts): string {
  const what = OPERATIONS[operation]?.name ?? operation
  const where = operation === 'effect' ? effect : operation === 'http' ? scope : destination
  return where === undefined ? what : `${what} ${where}`
}

/** What tells one message of several from the others. No more than that: a group may have hundreds. */
export function linkAttributes({ id, attempt = 1 }: MessageFacts): Attributes {
  return attempt === 1 ? { 'messaging.message.id': id } : { 'messaging.message.id': id, 'hapax.attempt': attempt }
}

/** What the span of one message says about it. */
export function messageAttributes({ id, source, type, key, bytes, attempt }: MessageFacts): Attributes {
  return {
    'messaging.message.id': id,
    'messaging.message.body.size': bytes,
    'cloudevents.event_source': source,
    'cloudevents.event_type': type,
    ...(key !== undefined && { 'hapax.message.key': key }),
    ...(attempt !== undefined && { 'hapax.attempt': attempt }),
  }
}
