import type { ExternalContextCreator } from '@nestjs/core'
import { expected, HapaxError } from '../base/index.ts'
import type { Consumer, Leased, Source } from '../contracts/index.ts'
import type { Found } from './discovery.ts'
import type { OpenHapax, Settings } from './options.ts'
import { throughNest } from './pipeline.ts'

/** A consumer of either kind. */
export type AnyConsumer = Consumer<unknown> | Leased<unknown>

/** A consumer, and what a worker is given of it. */
export interface Registered {
  readonly consumer: AnyConsumer
  readonly consumed: AnyConsumer | Source<unknown>
}

/** Makes the consumers that the methods name, and registers the methods with them. */
export function register(
  hapax: OpenHapax,
  found: readonly Found[],
  settings: Settings,
  external: ExternalContextCreator,
): ReadonlyMap<string, Registered> {
  const names = new Set(found.map(({ consumer }) => consumer))
  for (const name of settings.consumers.keys()) refuseEmpty(name, names, settings)
  const registered = new Map<string, Registered>()
  for (const name of new Set([...settings.consumers.keys(), ...names])) {
    const own = found.filter(({ consumer }) => consumer === name)
    refuseSecond(name, own)
    const { from, source, ...options } = settings.consumers.get(name) ?? {}
    const consumer = make(hapax, name, own, options)
    for (const each of own) add(consumer, each, settings, external)
    registered.set(name, { consumer, consumed: from === undefined ? consumer : consumer.from(from, source) })
  }
  return registered
}

/** A misspelt name would have a consumer without handlers, which fails every message. */
function refuseEmpty(name: string, names: ReadonlySet<string>, { consumers }: Settings): void {
  if (names.has(name) || typeof consumers.get(name)?.unknown === 'function') return
  expected('consumers', `options of consumers with handlers (${[...names].join(', ') || 'none'})`, name)
}

function refuseSecond(consumer: string, found: readonly Found[]): void {
  const first = new Map<string, Found>()
  for (const each of found) {
    const { type } = each.type
    const other = first.get(type)
    if (other !== undefined) {
      const what = `expected one handler of ${type} in consumer ${consumer}, got ${other.label} and ${each.label}`
      throw new HapaxError('duplicate-handler', what)
    }
    first.set(type, each)
  }
}

function make(hapax: OpenHapax, name: string, found: readonly Found[], options: object): AnyConsumer {
  const leased = found.find(({ kind }) => kind === 'leased')
  const other = found.find(({ kind }) => kind !== 'leased')
  if (leased !== undefined && other !== undefined) {
    const what = `expected all handlers of consumer ${name} to be leased or none, got ${leased.label} and ${other.label}`
    throw new HapaxError('invalid-option', what)
  }
  if (leased !== undefined) return hapax.leased(name, options)
  if (hapax.consumer !== undefined) return hapax.consumer(name, options)
  const what = `expected the handlers of consumer ${name} to be leased, got ${other?.label}`
  throw new HapaxError('invalid-option', `${what}: this store has no transactions`)
}

function add(consumer: AnyConsumer, found: Found, settings: Settings, external: ExternalContextCreator): void {
  const call = throughNest(external, found, settings.enhancers)
  if (found.kind === 'many' && consumer.kind === 'transactional') consumer.onMany(found.type, call, found.options)
  else consumer.on(found.type, call, found.options)
}
