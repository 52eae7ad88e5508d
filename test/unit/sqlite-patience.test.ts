import { expect, it } from 'vitest'
import { Patience, queueFor } from '../../src/stores/sql/index.ts'

const busy = (): Error => Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' })

it('waits for the turn in this process, in the order of arrival', async () => {
  const queue = queueFor({})
  const first = await new Patience().turn(queue)
  const seen: string[] = []
  const waiting = ['second', 'third'].map(async (name) => {
    const turn = await new Patience().turn(queue)
    seen.push(name)
    turn.end()
  })
  expect(seen).toEqual([])
  first.end()
  await Promise.all(waiting)
  expect(seen).toEqual(['second', 'third'])
})

it('lets short turns in before those that may be long', async () => {
  const queue = queueFor({})
  const first = await new Patience().turn(queue)
  const seen: string[] = []
  const wait = async (name: string, ahead: boolean): Promise<void> => {
    const turn = await new Patience().turn(queue, ahead)
    seen.push(name)
    turn.end()
  }
  const waiting = [wait('long', false), wait('short', true), wait('long too', false), wait('short too', true)]
  first.end()
  await Promise.all(waiting)
  expect(seen).toEqual(['short', 'short too', 'long', 'long too'])
})

it('has one queue for a handle', () => {
  const handle = {}
  expect(queueFor(handle)).toBe(queueFor(handle))
  expect(queueFor({})).not.toBe(queueFor(handle))
})

it.each([
  ['as the driver throws it', busy()],
  ['wrapped', new Error('Failed query', { cause: busy() })],
  ['without its code', new Error('SQLITE_BUSY: database is locked')],
])('tries again what another process keeps from happening: an error %s', async (_, error) => {
  let attempts = 0
  const value = await new Patience().untilDone(async () => {
    attempts += 1
    if (attempts < 4) throw error
    return 'done'
  })
  expect([value, attempts]).toEqual(['done', 4])
})

it('tries nothing again that fails otherwise', async () => {
  let attempts = 0
  const failing = new Patience().untilDone(async () => {
    attempts += 1
    throw Object.assign(new Error('UNIQUE constraint failed'), { code: 'SQLITE_CONSTRAINT_UNIQUE' })
  })
  await expect(failing).rejects.toThrow('UNIQUE')
  expect(attempts).toBe(1)
})

it('ends with the lock timeout or the signal', async () => {
  const never = async (): Promise<never> => Promise.reject(busy())
  await expect(new Patience(20).untilDone(never)).rejects.toMatchObject({ code: 'busy' })
  const queue = queueFor({})
  const turn = await new Patience().turn(queue)
  await expect(new Patience(20).turn(queue)).rejects.toMatchObject({ code: 'busy' })
  turn.end()
  const controller = new AbortController()
  const aborted = new Patience(undefined, controller.signal).untilDone(never)
  controller.abort(new Error('deadline'))
  await expect(aborted).rejects.toThrow('deadline')
})
