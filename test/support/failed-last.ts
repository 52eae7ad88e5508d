import { relative } from 'node:path'
import type { Reporter, TestModule, TestRunEndReason, Vitest } from 'vitest/node'

/** How many files may end without a line about it: a long run without any output looks stuck. */
const FILES_PER_LINE = 25
/** How many files are listed by the time that they took. */
const SLOWEST = 15

/**
 * Repeats the names of what failed as the very last lines, because a log that somebody else keeps may be cut. Where passing files are not
 * listed, it also tells now and then how far the run has come, and at the end which files took longest.
 */
export class FailedLast implements Reporter {
  readonly #progress: boolean
  #root = ''
  #files = 0
  #ended = 0
  #failed = 0

  constructor({ progress }: { readonly progress: boolean }) {
    this.#progress = progress
  }

  onInit({ config }: Vitest): void {
    this.#root = config.root
  }

  onTestRunStart(files: readonly unknown[]): void {
    this.#files = files.length
    this.#ended = 0
    this.#failed = 0
  }

  onTestModuleEnd(module: TestModule): void {
    this.#ended += 1
    if (!module.ok()) this.#failed += 1
    if (!this.#progress || this.#ended % FILES_PER_LINE > 0) return
    console.log(`${this.#ended} of ${this.#files} files have ended, ${this.#failed} failed`)
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    unhandled: readonly { readonly message: string }[],
    _reason: TestRunEndReason,
  ): void {
    const failed = [
      ...modules.flatMap((module) => this.#failedIn(module)),
      ...unhandled.map(({ message }) => `an error that no test caught: ${message.split('\n')[0]}`),
    ]
    if (this.#progress && modules.length > SLOWEST) console.log(this.#slowest(modules))
    if (failed.length > 0) console.log(['Failed:', ...failed.map((name) => `  ${name}`), ''].join('\n'))
  }

  /** For `longest` of runs.ts: the files that should start first. */
  #slowest(modules: readonly TestModule[]): string {
    const all = modules.map((module) => ({ module, seconds: module.diagnostic().duration / 1_000 }))
    const slowest = all.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST)
    const lines = slowest.map(
      ({ module, seconds }) => `  ${seconds.toFixed(0)} s ${relative(this.#root, module.moduleId)}`,
    )
    return ['The slowest files:', ...lines].join('\n')
  }

  #failedIn(module: TestModule): readonly string[] {
    const file = relative(this.#root, module.moduleId)
    const parts = [...module.children.allSuites()].filter((suite) => suite.errors().length > 0)
    const names = [...parts, ...module.children.allTests('failed')].map(({ fullName }) => `${file} > ${fullName}`)
    return module.errors().length > 0 ? [file, ...names] : names
  }
}
