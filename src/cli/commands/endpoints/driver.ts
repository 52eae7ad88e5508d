import { fieldOf } from '../../../base/index.ts'
import type { EndpointDestination } from '../../../contracts/index.ts'
import { readConfig } from '../../config.ts'
import type { Io } from '../../io/io.ts'
import type { StoreOptions } from '../../store.ts'

/**
 * What checks addresses and sends test events: the destination of the relay that the configuration file exports, in its worker or as its
 * broker, or one with the usual settings.
 */
export async function driverOf(options: StoreOptions, io: Io, relay: string): Promise<EndpointDestination> {
  const found = await readConfig(io, options.config)
  const served = fieldOf(found?.config.worker, 'endpoints')
  const own: unknown = served instanceof Map ? served.get(relay) : found?.config.broker
  if (isDriver(own)) return own
  const { webhooks } = await import('../../../http/webhooks/index.ts')
  return webhooks()
}

// A configuration file may bring its own copy of hapax, so it is told by its parts.
function isDriver(value: unknown): value is EndpointDestination {
  return fieldOf(value, 'kind') === 'endpoints' && typeof fieldOf(value, 'deliver') === 'function'
}
