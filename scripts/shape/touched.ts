import { Session } from 'node:inspector'
import { relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Tells which files below a folder ran: those in which at least one function was called since the last call. */
export class Touched {
  readonly #root: string
  readonly #session = new Session()

  /** Begins to count; modules that are loaded later are counted from their first call on. */
  constructor(root: string) {
    this.#root = root
    this.#session.connect()
    this.#session.post('Profiler.enable')
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  }

  /** The files since the last call, relative to the root. Synchronous, so that nothing runs between an event and the count. */
  take(): ReadonlySet<string> {
    const files = new Set<string>()
    this.#session.post('Profiler.takePreciseCoverage', (error, { result }) => {
      if (error !== null) throw error
      for (const { url, functions } of result) {
        const isCalled = functions.some(({ ranges }) => ranges.some(({ count }) => count > 0))
        const path = isCalled && url.startsWith('file:') ? relative(this.#root, fileURLToPath(url)) : '..'
        if (!path.startsWith('..')) files.add(path.replaceAll(sep, '/'))
      }
    })
    return files
  }

  [Symbol.dispose](): void {
    this.#session.disconnect()
  }
}
