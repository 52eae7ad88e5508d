import { memoryBroker } from 'hapax/memory-broker'
import type { BrokerHarness } from 'hapax/testing'
import { runBrokerCases } from '../support/broker-suite.ts'

const none = () => Promise.reject(new Error('ruled out by `cannot`'))

const harness: BrokerHarness = {
  name: 'memory',
  cannot: {
    'cutting links': 'there are no links in one process',
    'freezing links': 'there are no links in one process',
    unroutable: 'a topic that nobody reads forgets what it gets',
    counting: 'it does not show what waits',
    'too large': 'it takes any size',
    'plain client': 'there is no client but hapax',
  },

  async open() {
    const broker = memoryBroker()
    return {
      destination: ({ encode } = {}) => broker.topic('shop', encode === undefined ? {} : { encode }),
      subscription: async (group, { single = false } = {}) => broker.queue(group, { topic: 'shop', single }),
      untouched: async () => ({
        destination: broker.topic('new'),
        subscription: broker.queue('untouched', { topic: 'new' }),
      }),
      send: none,
      receive: none,
      waiting: none,
      cut: none,
      away: none,
      back: none,
      freeze: none,
      thaw: none,
      largestBytes: 0,
      close: async () => {},
    }
  },
}

runBrokerCases(harness)
