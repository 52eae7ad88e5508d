import { mysql } from 'hapax/mysql'
import { describe, expect, it } from 'vitest'
import { until } from '../../../src/testing/wait.ts'
import { noGalera, openGalera } from '../../support/clusters/galera.ts'
import { noNetwork, openNetwork } from '../../support/clusters/network.ts'
import { noPrivateServer } from '../../support/private-server.ts'
import { ask, type GaleraFault, loseNode, openClient } from './databases/galera-story.ts'
import { full, nothingWrong, STORY_MS, summary } from './databases/story.ts'

const missing = noNetwork() ?? noPrivateServer('mysql') ?? noGalera()

const all: readonly GaleraFault[] = (['several nodes', 'one node'] as const).flatMap((writers) =>
  (['kill', 'partition'] as const).map((fault) => ({ writers, fault })),
)
const waitsForOthers = `select 1 from information_schema.processlist where info like '%wsrep_sync_wait%' and id <> connection_id()`
const cases = full ? all : all.slice(0, 1)

describe.skipIf(missing)('galera', () => {
  it.for(cases)(
    'nothing is lost, doubled or inverted with writers on $writers, one of which is lost: $fault',
    {
      timeout: STORY_MS,
    },
    async (fault, { annotate }) => {
      const told = await loseNode(fault, { timeoutMs: 20_000, rounds: full ? 3 : 1 })
      await annotate(summary(told))
      expect(told.count).toMatchObject(nothingWrong)
    },
  )

  it('a worker finds the tables that another node has made, on a node that lags behind', {
    timeout: STORY_MS,
  }, async () => {
    await using network = await openNetwork(2)
    await using cluster = await openGalera(network.hosts)
    const [first, second] = cluster.nodes
    if (first === undefined || second === undefined) throw new Error('expected two nodes')
    await using stack = new AsyncDisposableStack()
    const [here, there] = [first, second].map(({ url }) => {
      const store = mysql({ url })
      stack.defer(() => store.close())
      return store
    })
    const lagging = await openClient(second)
    stack.defer(() => lagging.end())
    await lagging.query('flush tables with read lock')
    await here?.schema.migrate()
    const ready = there?.schema.ready()
    await until(async () => (await ask(second, waitsForOthers)).length > 0)
    await lagging.query('unlock tables')
    await expect(ready).resolves.toBeDefined()
  })
})
