import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { parse } from 'yaml'
import { metricNamed } from '../../scripts/dashboard/metrics.ts'
import { services } from '../../scripts/services/all.ts'
import { parsePromql } from '../support/board.ts'
import { read, root } from '../support/pages.ts'

/** What users may record. */
const THRESHOLD = 'hapax:threshold'

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

interface RuleFile {
  readonly groups: readonly { readonly rules: readonly Alert[] }[]
}

const file: RuleFile = parse(read('dashboards/alerts.yaml'))
const alerts = file.groups.flatMap(({ rules }) => rules)
const names = [...new Set(alerts.map(({ alert }) => alert))]

describe('alerts', () => {
  it('exist for what people should know', () => {
    expect(names).toEqual([
      'OutboxStuck',
      'NoWorker',
      'HeldKeys',
      'FailedGrowing',
      'EffectUnknown',
      'DuplicateSurge',
      'DeliveriesRejected',
      'RetryStorm',
      'RelayDown',
      'LagHigh',
      'CommitUnknown',
      'HorizonTooShort',
      'CleanupBehind',
      'StateStale',
    ])
  })

  test.for(alerts)('$alert ($labels.severity) says how urgent it is, what happened and where to read on', (alert) => {
    expect(alert.labels).toEqual({ severity: expect.stringMatching(/^(?:page|ticket)$/), library: 'hapax' })
    expect(alert.annotations).toEqual({
      summary: expect.stringMatching(/.{10}/),
      description: expect.stringMatching(/.{40}/),
      runbook_url: `node_modules/hapax/docs/observability.md#${alert.alert.toLowerCase()}`,
    })
  })

  test.for(names)('%s has a paragraph in docs/observability.md', (name) => {
    const [, text = ''] = read('docs/observability.md').split(`\n### ${name}\n`)
    const [paragraph = ''] = text.split(/\n##/)
    expect(paragraph.length).toBeGreaterThan(200)
    // How to look, or what to do: with a command.
    expect(paragraph).toMatch(/`(?:npx )?hapax [a-z]/)
  })

  test.for(alerts)('$alert ($labels.severity) reads metrics and labels that exist, and keeps the job', ({ expr }) => {
    const { selectors: all, labels } = parsePromql(expr)
    const selectors = all.filter(({ metric }) => metric !== THRESHOLD)
    expect(selectors.length).toBeGreaterThan(0)
    const known = new Set([
      'cluster',
      'namespace',
      'job',
      'instance',
      'le',
      ...selectors.flatMap(({ metric }) => metricNamed(metric).labels),
    ])
    expect(labels.filter((label) => !known.has(label))).toEqual([])
    expect(labels).toEqual(expect.arrayContaining(['cluster', 'namespace', 'job']))
    for (const { metric, matchers } of selectors) {
      expect(metricNamed(metric).labels).toEqual(expect.arrayContaining(Object.keys(matchers)))
    }
  })

  it('are tested, firing and silent', () => {
    const { tests }: { tests: readonly { readonly name: string }[] } = parse(read('dashboards/alerts.test.yaml'))
    const cases = tests.map(({ name }) => name)
    const has = (alert: string, words: RegExp): boolean =>
      cases.some((name) => name.startsWith(`${alert} `) && words.test(name))
    expect(names.filter((name) => !has(name, /fires/))).toEqual([])
    expect(names.filter((name) => !has(name, /silent/))).toEqual([])
  })
})

interface Container {
  readonly profiles?: readonly string[]
  readonly volumes?: readonly string[]
}

describe('compose.yaml', () => {
  const { services: containers }: { services: Readonly<Record<string, Container>> } = parse(read('compose.yaml'))

  it('starts Prometheus and Grafana only where their profile is asked for', () => {
    const watching = Object.entries(containers).filter(([, { profiles }]) => profiles !== undefined)
    expect(watching.map(([name, { profiles }]) => [name, profiles])).toEqual([
      ['prometheus', ['observability']],
      ['grafana', ['observability']],
    ])
    for (const { name, otherwise } of services) {
      if (otherwise.includes('container')) expect(containers[name]?.profiles).toBeUndefined()
    }
  })

  it('mounts files that exist, where the settings look for them', () => {
    const mounts = Object.values(containers).flatMap(({ volumes = [] }) => volumes.map((volume) => volume.split(':')))
    expect(mounts.length).toBeGreaterThan(4)
    expect(mounts.filter(([from = '']) => !existsSync(join(root, from)))).toEqual([])
    const to = mounts.map(([, path]) => path)
    const { rule_files: rules }: { rule_files: readonly string[] } = parse(read('dashboards/prometheus.yaml'))
    expect(to).toEqual(expect.arrayContaining(rules.map((name) => `/etc/prometheus/${name}`)))
    const { providers }: { providers: readonly { options: { path: string } }[] } = parse(
      read('dashboards/grafana/dashboards.yaml'),
    )
    expect(to).toEqual(expect.arrayContaining(providers.map(({ options }) => `${options.path}/hapax.json`)))
  })

  it('gives Grafana the Prometheus beside it', () => {
    const { datasources } = parse(read('dashboards/grafana/datasources.yaml'))
    expect(datasources).toEqual([
      expect.objectContaining({ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }),
    ])
  })
})
