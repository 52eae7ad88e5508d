import { RabbitmqPlace as Place } from '../../src/conformance/brokers/rabbitmq.ts'
import { requireServer } from './servers.ts'

export type RabbitmqPlace = Place

/** An exchange of a test's own, on the shared server unless another one is named. */
export const RabbitmqPlace = {
  open: (url: string = requireServer('rabbitmq')): Promise<Place> => Place.open(url),
}
