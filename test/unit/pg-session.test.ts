import { describe, expect, it } from 'vitest'
import { leavesBehind } from '../../src/stores/sql/connection/pg-session.ts'

describe('K10: a statement that leaves something behind in its session', () => {
  it.each([
    `select set_config('app.tenant', $1, false)`,
    `select set_config('app.tenant', coalesce($1, 'none'), false)`,
    `select set_config('app.tenant', $1, false), (select true)`,
    `set app.tenant = 'a'`,
    'select pg_advisory_lock(1)',
    'create temp table t (a integer)',
  ])('is told: %s', (text) => {
    expect(leavesBehind(text)).toBe(true)
  })

  it.each([
    `select set_config('app.tenant', $1, true)`,
    `select set_config('app.tenant', coalesce($1, 'none'), true)`,
    `select set_config('app.user', current_setting('app.tenant'), is_local => true)`,
    `set local app.tenant = 'a'`,
    'select pg_advisory_xact_lock(1)',
    'create temp table t (a integer) on commit drop',
  ])('is no other one: %s', (text) => {
    expect(leavesBehind(text)).toBe(false)
  })
})
