import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { Command, Launch } from './service.ts'

const file = join(import.meta.dirname, '..', '..', 'compose.yaml')

/** The variable that names another image than compose.yaml does: HAPAX_MYSQL_IMAGE. */
export function imageVariable(service: string): string {
  return `HAPAX_${service.toUpperCase()}_IMAGE`
}

/** Whether a Docker engine responds and Compose is installed. */
export function composeAnswers(): boolean {
  return ['info', 'compose version'].every(
    (args) => spawnSync('docker', args.split(' '), { timeout: 10_000 }).status === 0,
  )
}

/** Runs one service of compose.yaml, as a separate project. */
export function composeLaunch(service: string, port: number): Launch {
  const variable = `HAPAX_${service.toUpperCase()}_PORT=${port}`
  const compose: Command = ['env', variable, 'docker', 'compose', '--file', file, '--project-name', `hapax-${port}`]
  return {
    prepare: [[...compose, 'up', '--detach', '--wait', service]],
    cleanup: [[...compose, 'down', '--volumes', '--timeout', '0']],
  }
}
