import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { asError, messageOf } from '../base/index.ts'
import { CliError } from './io/errors.ts'
import type { Io } from './io/io.ts'
import { loadSources } from './sources.ts'

/** What a configuration file exports, before it is checked. */
export interface Config {
  readonly name: string
  readonly config: {
    readonly store?: unknown
    readonly broker?: unknown
    readonly hapax?: unknown
    readonly worker?: unknown
  }
}

/** The names that a configuration file may have; the first that is there counts. */
export const CONFIG_NAMES: readonly string[] = [
  'hapax.config.ts',
  'hapax.config.mts',
  'hapax.config.js',
  'hapax.config.mjs',
]

/** Reads the given configuration file, or the one in this directory; undefined if there is none. */
export async function readConfig(io: Io, given?: string): Promise<Config | undefined> {
  const name = given ?? CONFIG_NAMES.find((each) => existsSync(resolve(io.cwd, each)))
  if (name === undefined) return undefined
  const file = resolve(io.cwd, name)
  if (!existsSync(file)) throw new CliError('usage', `there is no configuration file ${name}`)
  loadSources()
  const { default: config } = await import(pathToFileURL(file).href).catch((error: unknown) => {
    throw new CliError('config', `${name} could not be loaded: ${messageOf(asError(error))}`)
  })
  return { name, config: config ?? {} }
}

/** A setting from the environment. A configuration file that is named on the command line takes precedence. */
export function fromEnvironment(config: string | undefined, name: string, io: Io): string | undefined {
  return config === undefined ? io.env[name] || undefined : undefined
}
