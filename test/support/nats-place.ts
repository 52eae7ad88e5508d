import { type NatsPlace, natsPlace as placeAt } from '../../src/conformance/brokers/nats.ts'
import { requireServer } from './servers.ts'

export { type NatsPlace, waitingIn } from '../../src/conformance/brokers/nats.ts'

/** Settings under which losses are noticed soon: for tests that wait for that. */
export const HASTY = { heartbeatMs: 3_000, timeoutMs: 15_000 } as const

/** Settings under which a machine that stands still for some seconds is not taken for a loss. */
export const PATIENT = { heartbeatMs: 60_000, timeoutMs: 60_000 } as const

/** A stream of a test's own, on the shared server unless another one is named. */
export function natsPlace(server: string = requireServer('nats')): Promise<NatsPlace> {
  return placeAt(server)
}
