import { expect, it } from 'vitest'
import { failedWhere, filterWords } from '../../src/cli/commands/failed/where.ts'

it('takes the origin alone, and beside a name that has the same', () => {
  expect(failedWhere({ origin: 'outbox', type: 't' })).toEqual({ origin: 'outbox', type: 't' })
  expect(failedWhere({ origin: 'inbox', consumer: 'billing' })).toEqual({ origin: 'inbox', consumer: 'billing' })
  expect(filterWords({ origin: 'outbox', type: 't' })).toBe('--origin outbox --type t')
})

it('refuses an origin that a name does not have, and two names', () => {
  expect(() => failedWhere({ origin: 'outbox', consumer: 'billing' })).toThrow('expected --origin inbox')
  expect(() => failedWhere({ consumer: 'billing', relay: 'default' })).toThrow('got both')
})
