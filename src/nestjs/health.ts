import { Inject, Injectable } from '@nestjs/common'
import { asError, messageOf } from '../base/index.ts'
import type { HapaxRunner } from './runner.ts'
import { getRunnerToken } from './tokens.ts'

/** What terminus takes as the result of an indicator. */
export type HapaxHealthResult<Key extends string> = Record<Key, State>

type State = { readonly status: 'up' | 'down' } & Readonly<Record<string, unknown>>

/**
 * A health indicator for `@nestjs/terminus` 11 and 12: `health.check([() => hapaxHealth.check('hapax')])`. Up while the worker runs, the
 * database has heard from it lately, and its handlers get connections; without a worker, while the database replies.
 */
export class HapaxHealth {
  readonly #runner: HapaxRunner

  constructor(runner: HapaxRunner) {
    this.#runner = runner
  }

  async check<const Key extends string>(key: Key): Promise<HapaxHealthResult<Key>> {
    const state = await this.#state()
    return Object.fromEntries([[key, state]]) as HapaxHealthResult<Key>
  }

  async #state(): Promise<State> {
    const { worker } = this.#runner
    if (worker === undefined) return this.#ofStore()
    const { consumers, relays } = worker.serving
    const facts = { consumers, relays: relays.map(({ name }) => name) }
    return worker.ready ? { status: 'up', ...facts } : { status: 'down', message: 'the worker is not ready', ...facts }
  }

  async #ofStore(): Promise<State> {
    try {
      await this.#runner.reach()
      return { status: 'up' }
    } catch (error) {
      return { status: 'down', message: messageOf(asError(error)) }
    }
  }
}
Injectable()(HapaxHealth)
Inject(getRunnerToken())(HapaxHealth, undefined, 0)
