import { Consumer, NetworkError } from '@platformatic/kafka'
import { expect, it } from 'vitest'
import { forgetLostCoordinators } from '../../src/brokers/kafka/link.ts'

it('tells a consumer of Kafka that a broker which has left could not be reached, not that its metadata is old', async () => {
  const consumer = new Consumer({ clientId: 'unit', bootstrapBrokers: ['127.0.0.1:1'], groupId: 'billing' })
  forgetLostCoordinators(consumer, { NetworkError })
  const error = await new Promise<Error>((resolve) => {
    consumer.connections.get(undefined as never, (failed) => resolve(failed as Error))
  })
  // The client looks for another coordinator after an error of the network, unless it says that the metadata is old.
  expect(error).toMatchObject({ code: 'PLT_KFK_NETWORK', canRetry: true, message: 'the broker has left the cluster' })
  expect(error).not.toHaveProperty('hasStaleMetadata')
  await consumer.close()
})
