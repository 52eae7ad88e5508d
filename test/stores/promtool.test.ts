import { describe, expect, it } from 'vitest'
import { noPrivateServer } from '../support/private-server.ts'
import { promtool } from '../support/promtool.ts'

describe.skipIf(noPrivateServer('prometheus') !== undefined)('promtool', () => {
  it('accepts the alert rules, and the settings that load them', async () => {
    expect(await promtool(['check', 'rules', '--lint=all', '--lint-fatal', 'dashboards/alerts.yaml'])).toMatchObject({
      code: 0,
    })
    expect(await promtool(['check', 'config', 'dashboards/prometheus.yaml'])).toMatchObject({ code: 0 })
  })

  it('sees each alert fire, and stay silent, in the cases of dashboards/alerts.test.yaml', {
    timeout: 300_000,
  }, async () => {
    const { code, said } = await promtool(['test', 'rules', 'dashboards/alerts.test.yaml'])
    expect(said).toContain('SUCCESS')
    expect(code).toBe(0)
  })
})
