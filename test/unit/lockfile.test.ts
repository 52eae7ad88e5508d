import { expect, it } from 'vitest'
import lockfile from '../../package-lock.json' with { type: 'json' }
import { leftOut } from '../../scripts/complete-lockfile.ts'

it('holds the packages of every platform (else run: node scripts/complete-lockfile.ts)', () => {
  expect(leftOut(lockfile)).toEqual([])
})

it('names no registry', () => {
  expect(Object.values(lockfile.packages).filter((entry) => 'resolved' in entry)).toEqual([])
})
