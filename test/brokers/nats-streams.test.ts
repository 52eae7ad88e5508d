import { connect } from '@nats-io/transport-node'
import { nats } from 'hapax/nats'
import { expect, it } from 'vitest'
import { message, publish } from '../../src/testing/broker/world.ts'
import { natsPlace, PATIENT } from '../support/nats-place.ts'

it('D5: the reply of another stream does not confirm a message, which is not in the requested stream', async () => {
  await using place = await natsPlace()
  // Another subscriber takes the message's subject, and replies as JetStream does.
  const plain = await connect({ servers: place.proxy.url })
  await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.elsewhere`] })
  const answers = plain.subscribe(`${place.prefix}.>`, {
    callback: (_, request) => void request.respond(JSON.stringify({ stream: 'ANOTHER', seq: 7 })),
  })
  await plain.flush()
  const destination = nats({ url: place.proxy.url, ...PATIENT }).stream(place.stream, { declare: 'none' })
  try {
    const [sent] = await publish(destination, [message('a')])
    expect(sent).toMatchObject({ status: 'failed', error: { code: 'unroutable' } })
    expect((await place.manager.streams.info(place.stream)).state.messages).toBe(0)
  } finally {
    await destination.close()
    answers.unsubscribe()
    await plain.close()
  }
})
