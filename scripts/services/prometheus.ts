import { join } from 'node:path'
import { findPrograms } from './programs.ts'
import { type Instance, LOOPBACK, type Startable } from './service.ts'

/** The settings that it reads; a test writes its own into this file (`files` of `privateServer`). */
const PROMETHEUS_SETTINGS = 'prometheus.yaml'

export const prometheus: Startable = {
  title: 'Prometheus',
  name: 'prometheus',
  debianPackages: ['prometheus'],
  url: (port, address = LOOPBACK) => `http://${address}:${port}`,

  find() {
    const programs = findPrograms(['prometheus', 'promtool'], ['/usr/bin', '/usr/local/bin'])
    if (programs === undefined) return undefined
    return {
      from: programs.prometheus,
      user: 'prometheus',
      launch: (instance) => ({
        files: { [PROMETHEUS_SETTINGS]: 'global: {}' },
        prepare: [],
        // Killed at once: the data is thrown away.
        server: { command: [programs.prometheus, ...settings(instance)], stop: 'SIGKILL' },
      }),
    }
  },

  async ping(url) {
    const reply = await fetch(`${url}/-/ready`, { signal: AbortSignal.timeout(5_000) })
    if (!reply.ok) throw new Error(`it replied ${reply.status}`)
    const info = await fetch(`${url}/api/v1/status/buildinfo`, { signal: AbortSignal.timeout(5_000) })
    const { data } = (await info.json()) as { data: { version: string } }
    return `Prometheus ${data.version}`
  },
}

function settings({ directory, port, address }: Instance): string[] {
  return [
    `--config.file=${join(directory, PROMETHEUS_SETTINGS)}`,
    `--storage.tsdb.path=${join(directory, 'data')}`,
    `--web.listen-address=${address}:${port}`,
  ]
}
