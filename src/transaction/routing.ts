// Where a message goes: to a relay, or to the consumers on the same database.

import { noOthers } from '../base/index.ts'
import {
  checkPlace,
  type MessageAttributes,
  type Place,
  type StoredMessage,
  unpackAttributes,
} from '../message/index.ts'
import { LOCAL } from './waiting.ts'

/** Decides where a message goes, if neither its publish nor its type says it. Undefined: as `createHapax` says. */
export type Route = (message: MessageAttributes) => Place | undefined

/** What `createHapax` says about it. */
export interface RoutingOptions {
  readonly delivery: 'relay' | 'local'
  /** The relay of messages that name none. */
  readonly relay: string
  readonly route: Route | undefined
}

/**
 * The relay of a message, or `LOCAL`. The publish comes first, then the type, then the route. Who says only that it goes to a relay
 * leaves the name to those that come after.
 */
export function relayOf(
  hapax: RoutingOptions,
  type: Place,
  options: Place,
  message: StoredMessage,
): string | typeof LOCAL {
  const { relay, delivery } = hapax
  const said = saidBy(options) ?? saidBy(type) ?? saidBy(routed(hapax, message))
  if (said === UNNAMED) return type.relay ?? routed(hapax, message).relay ?? relay
  return said ?? (delivery === 'local' ? LOCAL : relay)
}

function saidBy({ delivery, relay }: Place): string | typeof LOCAL | typeof UNNAMED | undefined {
  if (relay !== undefined) return relay
  if (delivery === undefined) return undefined
  return delivery === 'local' ? LOCAL : UNNAMED
}

/** To a relay, whichever. */
const UNNAMED: unique symbol = Symbol('a relay')

function routed({ route }: RoutingOptions, message: StoredMessage): Place {
  const place: Place | PromiseLike<unknown> | undefined = route?.(unpackAttributes(message))
  if (place === undefined) return NOWHERE
  // Refused below; what becomes of it must not end the process.
  if (place instanceof Promise) place.catch(() => {})
  noOthers('what route returns', place, ['delivery', 'relay'])
  checkPlace(place)
  return place
}

const NOWHERE: Place = {}
