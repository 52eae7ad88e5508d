import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { until } from '../../src/testing/wait.ts'

/** The number of a series; undefined if there is none. */
export function numberOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

/** `hapax metrics --listen` as a process. */
interface Exporter extends AsyncDisposable {
  scrape(): Promise<string>
  /** A scrape that says that the store is up: on a busy machine the first sample may be given up. */
  scrapeUp(): Promise<string>
  stop(): Promise<number | null>
}

/** Runs `hapax metrics --listen` as a process that samples every second. */
export async function exporterOf(argv: readonly string[]): Promise<Exporter> {
  const main = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')
  const given = ['metrics', '--listen', '127.0.0.1:0', '--every', '1s', ...argv]
  const args = ['--conditions=hapax-source', '--no-warnings', main, ...given]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = once(child, 'close')
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const base = (): string | undefined => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0]
  await until(
    () => base() !== undefined || child.exitCode !== null,
    () => `it listens: ${said}`,
  )
  const scrape = async (): Promise<string> => (await fetch(`${base()}/metrics`, { redirect: 'error' })).text()
  return {
    scrape,
    scrapeUp: async () => {
      let text = ''
      await until(async () => {
        text = await scrape()
        return numberOf(text, 'hapax_store_up') === 1
      })
      return text
    },
    stop: async () => {
      child.kill('SIGTERM')
      await ended
      return child.exitCode
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
