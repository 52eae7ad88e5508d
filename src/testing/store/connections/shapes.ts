import assert from 'node:assert/strict'
import type { Param, Result, Statement, TransactionOptions } from '../../../contracts/index.ts'
import { gate } from '../../wait.ts'
import type { Case } from '../case.ts'
import type { TestConnection } from '../harness.ts'
import type { Tx, World } from '../world.ts'

const PLAIN: TransactionOptions = { classify: () => 'other', doomOf: () => undefined }

const TEXTS = [
  '',
  `it's "quoted" and \`ticked\``,
  String.raw`back\slash \n \' \0`,
  'what? and ??',
  '$1 $2 $$ $tag$',
  ':name ::text @p1 %s %%',
  'zero width \u200b, é, 日本, 👩‍👩‍👧',
  'two\nlines\r\n\t',
  '-- no comment /* nor this */ ;',
]
const BYTES = Uint8Array.from({ length: 512 }, (_, index) => index & 0xff)

/** The connection under the store, with its table. */
class Under {
  readonly #beneath: TestConnection<Tx, Tx>

  constructor(world: World) {
    const { beneath } = world.database
    assert.ok(beneath)
    this.#beneath = beneath
  }

  get connection(): TestConnection<Tx, Tx>['connection'] {
    return this.#beneath.connection
  }

  get table(): string {
    return this.#beneath.table
  }

  /** An `insert` of rows, one for each list of values. */
  insert(...rows: readonly (readonly [id: number, label: string | null, bytes?: Uint8Array | null])[]): Statement {
    const params: Param[] = rows.flatMap(([id, label, bytes = null]) => [id, label, bytes])
    const value = (n: number): string => this.#beneath.value(n)
    const tuples = rows.map((_, row) => `(${[1, 2, 3].map((column) => value(row * 3 + column)).join(', ')})`)
    return { text: `insert into ${this.table} (id, label, bytes) values ${tuples.join(', ')}`, params }
  }

  /** `$` stands for the value. */
  with(text: string, ...params: readonly Param[]): Statement {
    let n = 0
    return { text: text.replaceAll('shapes', this.table).replaceAll('$', () => this.#beneath.value(++n)), params }
  }

  async labels(): Promise<unknown[]> {
    const { rows } = await this.connection.query(this.with('select label from shapes order by id'), 60_000)
    return rows.map(({ label }) => label)
  }

  /** Runs statements in one transaction; the last of them before COMMIT. */
  async run(
    first: readonly Statement[],
    last: readonly Statement[] | undefined,
  ): Promise<readonly (readonly Result[])[]> {
    let written: readonly Result[] = []
    const opened = await this.connection.transaction(PLAIN, {
      first,
      body: async (_tx, value) => ({
        value,
        last,
        committed: (answers) => {
          written = answers
        },
      }),
    })
    return [opened, written]
  }
}

const affected = (answers: readonly Result[] = []): number[] => answers.map((each) => each.affected)

export const shapes: readonly Case[] = (
  [
    {
      name: 'a result tells how many rows a statement has written, wherever in the transaction it is',
      run: async (world) => {
        const under = new Under(world)
        const statements = [
          under.insert([1, 'a'], [2, 'b']),
          under.with(`update shapes set label = 'same' where id < 10`),
          under.with(`update shapes set label = 'same' where id < 10`),
          under.with(`update shapes set label = $ where id = $`, 'none', 99),
          under.with('delete from shapes where id = $', 1),
          under.with('delete from shapes where id = 99'),
        ]
        const expected = [2, 2, 2, 0, 1, 0]
        const [first] = await under.run(statements, [])
        assert.deepEqual(affected(first), expected)
        await under.connection.query(under.with('delete from shapes'), 60_000)
        const [, last] = await under.run([], statements)
        assert.deepEqual(affected(last), expected)
        assert.deepEqual(await under.labels(), ['same'])
      },
    },
    {
      name: 'a result has the rows by their columns, and none where there are none, with and without values',
      run: async (world) => {
        const under = new Under(world)
        const [answers = []] = await under.run(
          [
            under.insert([1, 'a'], [2, null]),
            under.with('select id, label from shapes order by id'),
            under.with('select id, label from shapes where id > $ order by id', 1),
            under.with('select id from shapes where id = $', 99),
            under.with('select id from shapes where id = 99'),
          ],
          [],
        )
        const rows = answers.slice(1).map((each) => each.rows.map(({ id, label }) => [Number(id), label]))
        assert.deepEqual(rows, [
          [
            [1, 'a'],
            [2, null],
          ],
          [[2, null]],
          [],
          [],
        ])
      },
    },
    {
      name: 'K3: texts and bytes come back as they are, whatever they look like',
      run: async (world) => {
        const under = new Under(world)
        const rows = TEXTS.map((text, id) => [id, text, BYTES.subarray(id)] as const)
        await under.run([under.insert(...rows)], [])
        const { rows: found } = await under.connection.query(
          under.with('select id, label, bytes from shapes where id >= $ order by id', 0),
          60_000,
        )
        assert.deepEqual(
          found.map(({ label }) => label),
          TEXTS,
        )
        for (const { id, bytes } of found) {
          assert.ok(bytes instanceof Uint8Array, `bytes are bytes, not ${typeof bytes}`)
          assert.ok(Buffer.from(bytes).equals(BYTES.subarray(Number(id))))
        }
      },
    },
    {
      name: 'H17: a number beyond 2^53 that is given as text is written and found as it is',
      run: async (world) => {
        const under = new Under(world)
        const big = '9223372036854775807'
        await under.run([under.insert([1, 'a']), under.with('update shapes set big = $ where id = 1', big)], [])
        const found = await under.connection.query(under.with('select id from shapes where big = $', big), 60_000)
        const other = under.with('select id from shapes where big = $', '9223372036854775806')
        assert.equal(found.rows.length, 1)
        assert.equal((await under.connection.query(other, 60_000)).rows.length, 0)
      },
    },
    {
      name: 'I4: a transaction without last statements rolls back, and resolves with its value',
      run: async (world) => {
        const under = new Under(world)
        const [opened] = await under.run([under.insert([1, 'a'])], undefined)
        assert.deepEqual(affected(opened), [1])
        assert.deepEqual(await under.labels(), [])
      },
    },
    {
      name: 'I4: a last statement that fails stops those behind it and the commit',
      run: async (world) => {
        const under = new Under(world)
        const twice = [under.insert([1, 'a']), under.insert([1, 'again']), under.insert([2, 'b'])]
        await assert.rejects(under.run([], twice))
        await assert.rejects(under.run(twice, []))
        assert.deepEqual(await under.labels(), [])
        await under.run(twice.slice(0, 1), twice.slice(2))
        assert.deepEqual(await under.labels(), ['a', 'b'])
      },
    },
    {
      name: 'A11: an abort ends the transaction, rejects with its reason, and leaves nothing',
      run: async (world) => {
        const under = new Under(world)
        const controller = new AbortController()
        const reason = new Error('enough')
        const forever = gate()
        const running = under.connection.transaction(
          { ...PLAIN, signal: controller.signal },
          {
            first: [under.insert([1, 'a'])],
            body: async () => {
              controller.abort(reason)
              await forever.passed
              return { value: undefined, last: [] }
            },
          },
        )
        await assert.rejects(running, reason)
        forever.open()
        await under.run([under.insert([2, 'b'])], [])
        assert.deepEqual(await under.labels(), ['b'])
      },
    },
    {
      name: 'statements at once are committed together, and come back in their order',
      run: async (world) => {
        const under = new Under(world)
        const answers = await under.connection.atOnce(PLAIN, [
          under.insert([1, 'a']),
          under.with('select label from shapes where id = $', 1),
        ])
        assert.deepEqual(answers[1]?.rows, [{ label: 'a' }])
        const failing = under.connection.atOnce(PLAIN, [under.insert([2, 'b']), under.insert([1, 'again'])])
        await assert.rejects(failing)
        assert.deepEqual(await under.labels(), ['a'])
      },
    },
  ] satisfies readonly Case[]
).map((each) => ({ ...each, needs: ['a connection'] }))
