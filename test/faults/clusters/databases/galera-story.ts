import { type Connection, createConnection } from 'mysql2/promise'
import { LinkProxy } from '../../../../src/conformance/brokers/link-proxy.ts'
import { openGalera } from '../../../support/clusters/galera.ts'
import { openNetwork } from '../../../support/clusters/network.ts'
import type { PrivateServer } from '../../../support/private-server.ts'
import type { Rows } from '../../../support/replicated.ts'
import { type StoryOptions, type Told, tellStory } from './story.ts'

export interface GaleraFault {
  /** Whether all processes of the shop write to one node, or each to another. */
  readonly writers: 'one node' | 'several nodes'
  readonly fault: 'kill' | 'partition'
}

/** Three nodes, of which one that the shop writes to is lost and comes back; its address moves to another one meanwhile. */
export async function loseNode({ writers, fault }: GaleraFault, options: StoryOptions = {}): Promise<Told> {
  await using network = await openNetwork(3)
  await using cluster = await openGalera(network.hosts)
  const [founder, lost, other] = cluster.nodes
  const host = network.hosts[1]
  if (founder === undefined || lost === undefined || other === undefined || host === undefined)
    throw new Error('expected three nodes')
  await using front = await LinkProxy.open(lost.url)
  return await tellStory(
    {
      store: 'mysql',
      urls: [front.url, writers === 'one node' ? front.url : founder.url],
      prepare: (text) => ask(founder, text),
      ask: (text) => askAll(founder, text),
      fail: async () => {
        if (fault === 'kill') await lost.kill()
        else host.isolate()
        front.moveTo(other.url)
        if (fault === 'kill') front.cut()
      },
      comeBack: async () => {
        if (fault === 'kill') await lost.start()
        else host.heal()
        front.moveTo(lost.url)
      },
    },
    options,
  )
}

/** Asks a node when it has what the others have acknowledged. */
async function askAll(server: PrivateServer, text: string): Promise<Rows> {
  return await ask(server, text, 'set wsrep_sync_wait = 1')
}

export async function ask(server: PrivateServer, text: string, setting = 'do 1'): Promise<Rows> {
  const client = await openClient(server)
  try {
    await client.query(setting)
    return (await client.query(text))[0] as unknown as Rows
  } finally {
    await client.end()
  }
}

export async function openClient({ url }: PrivateServer): Promise<Connection> {
  const client = await createConnection({ uri: url, connectTimeout: 60_000 })
  client.on('error', () => {})
  return client
}
