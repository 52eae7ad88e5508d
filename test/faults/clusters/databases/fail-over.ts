import { until } from '../../../../src/testing/wait.ts'
import { type Host, openNetwork } from '../../../support/clusters/network.ts'
import { type Replicated, replicated } from '../../../support/replicated.ts'
import { type StoryOptions, type Told, tellStory } from './story.ts'

/** What happens to the primary: it is killed, it reaches nobody, or clients still reach it while its standby does not. */
type Fault = 'kill' | 'partition' | 'split'

export interface FailOver {
  readonly store: 'postgres' | 'mysql'
  readonly synchronous: boolean
  readonly fault: Fault
  /** What becomes of links to the old primary when the address moves. */
  readonly links: 'cut' | 'stay'
  /** How many orders are taken that the standby never gets, before the fault. @default 0 */
  readonly lag?: number
  /** Where the shop finds the database. @default the address that moves */
  readonly url?: (servers: Replicated) => string
}

/** A primary fails, its standby is promoted, and the address moves; later the old primary comes back as it was. */
export async function failOver(what: FailOver, options: StoryOptions = {}): Promise<Told> {
  const { store, synchronous, fault, links, lag = 0, url = (servers) => servers.url } = what
  await using network = await openNetwork(2)
  const [one, two] = network.hosts
  if (one === undefined || two === undefined) throw new Error('expected two hosts')
  await using servers = await replicated(store, { synchronous, hosts: [one, two] })
  return await tellStory(
    {
      store,
      urls: [url(servers), url(servers)],
      prepare: servers.onPrimary,
      // The tables may not have reached it yet.
      ask: servers.onReplica,
      fail: async () => {
        if (lag > 0) await fallBehind(servers, one, lag)
        if (fault === 'kill') await servers.primary.kill()
        else one.isolate(fault === 'partition' ? 'everybody' : 'other hosts')
        // Whatever the network does from here on, nothing more reaches the standby.
        if (lag > 0 && fault === 'kill') one.heal()
        await servers.promote()
        servers.move(links)
      },
      comeBack: async () => {
        if (fault === 'kill') await servers.primary.start()
        else one.heal()
      },
    },
    options,
  )
}

/** Cuts the standby off until the primary has so many more orders. */
async function fallBehind(servers: Replicated, primary: Host, orders: number): Promise<void> {
  primary.isolate('other hosts')
  const placed = async (): Promise<number> =>
    Number((await servers.onPrimary('select count(*) as n from orders'))[0]?.['n'])
  const wanted = (await placed()) + orders
  await until(async () => (await placed()) >= wanted, 'the standby to fall behind')
}
