import assert from 'node:assert/strict'
import type { Case } from '../case.ts'
import { draft } from '../operations/world.ts'
import { assertOutcome, assertRejects, Pong, type World } from '../world.ts'

const unmigrated = { open: { migrated: false }, needs: ['migrations'] } as const

const applied = async (world: World): Promise<readonly boolean[]> =>
  (await world.store.schema.migrations()).map((migration) => migration.applied)

export const migrations: readonly Case[] = [
  {
    name: 'migrate creates the schema, and finds nothing to do the second time',
    ...unmigrated,
    run: async (world) => {
      assert.ok((await applied(world)).every((each) => !each))
      const made = await world.store.schema.migrate()
      assert.ok(made.length > 0)
      assert.deepEqual(await world.store.schema.migrate(), [])
      assert.ok((await applied(world)).every(Boolean))
      await world.store.schema.ready()
      assertOutcome(await world.reader().deliver('a'), 'processed')
    },
  },
  {
    name: 'H2: instances that migrate at once apply each migration once',
    ...unmigrated,
    needs: ['migrations', 'another store'],
    run: async (world) => {
      const stores = [world.store, await world.database.another(), await world.database.another(), world.store]
      const made = await Promise.all(stores.map((store) => store.schema.migrate()))
      const versions = made.flat().map(({ version }) => version)
      assert.deepEqual(versions, [...new Set(versions)])
      assert.equal(versions.length, (await world.store.schema.migrations()).length)
    },
  },
  {
    name: 'H1: a schema that another version made is noticed',
    needs: ['migrations', 'another store'],
    run: async (world) => {
      await world.database.drift()
      const other = await world.database.another()
      await assertRejects(other.schema.ready(), 'schema-drift')
      await assertRejects(other.schema.migrations(), 'schema-drift')
      await assertRejects(other.schema.migrate(), 'schema-drift')
    },
  },
  {
    name: 'refuses a schema that a newer version made incompatible, including for the first message and publish',
    needs: ['migrations', 'another store'],
    run: async (world) => {
      await world.database.newer(1000)
      const other = await world.database.another()
      await assertRejects(other.schema.ready(), 'schema-newer')
      await assertRejects(other.schema.migrations(), 'schema-newer')
      await assertRejects(other.schema.migrate(), 'schema-newer')
      const audit = { actor: 'ada', action: 'change' } as const
      await assertRejects(other.failed.retry('1-1', audit), 'schema-newer')
      await assertRejects(other.failed.discard('1-1', audit), 'schema-newer')
      await assertRejects(other.operations.begin(draft(), audit), 'schema-newer')
      await assertRejects(other.admin.clean({ kind: 'audit', dryRun: false }, 1, 1), 'schema-newer')
      await assertRejects(other.sent.purge(['1-1']), 'schema-newer')
      const storing = world.reader(undefined, { name: 'storing', receive: 'store' })
      await assertRejects(storing.deliver('a'), 'schema-newer')
      const reader = world.reader()
      await assertRejects(reader.deliver('a'), 'schema-newer')
      const { hapax } = reader
      await assertRejects(world.worker(reader), 'schema-newer')
      await assertRejects(
        hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 })),
        'schema-newer',
      )
      assert.deepEqual(reader.calls, [])
      assert.deepEqual(await world.database.outbox(), [])
      const [finding] = await hapax.doctor()
      assert.equal(finding?.level, 'error')
      assert.match(finding.message, /migration 1000/)
    },
  },
  {
    name: 'runs on a schema to which a newer version only added, and does not migrate it',
    needs: ['migrations', 'another store'],
    run: async (world) => {
      await world.database.newer((await world.store.schema.migrations()).length)
      const other = await world.database.another()
      await other.schema.ready()
      assert.deepEqual(await other.schema.migrate(), [])
      const reader = world.reader()
      assertOutcome(await reader.deliver('a'), 'processed')
      assertOutcome(await reader.deliver('a'), 'duplicate')
    },
  },
  {
    name: 'without its tables everything rejects with an error that says what to do',
    ...unmigrated,
    run: async (world) => {
      await assertRejects(world.store.schema.ready(), 'schema-missing')
      const reader = world.reader()
      await assertRejects(reader.deliver('a'), 'schema-missing')
      const { hapax } = reader
      const reported: Error[] = []
      hapax.events.on('worker-error', ({ error }) => reported.push(error))
      await assertRejects(world.worker(reader), 'schema-missing')
      assert.deepEqual(reported, [])
      await assertRejects(
        hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 })),
        'schema-missing',
      )
      await assertRejects(hapax.status(), 'schema-missing')
      assert.deepEqual(reader.calls, [])
    },
  },
]
