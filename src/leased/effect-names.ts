import { HapaxError } from '../base/index.ts'

/** The names of the effects of one attempt. One name is one call: a second one would get the result of the first. */
export class EffectNames {
  readonly #taken = new Set<string>()
  #refused: HapaxError | undefined

  /** The first use of a name that was refused: whatever the handler makes of it, something was not called. */
  get refused(): HapaxError | undefined {
    return this.#refused
  }

  /** Takes a name, or says why it cannot be had. */
  take(name: string): HapaxError | undefined {
    if (!this.#taken.has(name)) {
      this.#taken.add(name)
      return undefined
    }
    const error = reused(name)
    this.#refused ??= error
    return error
  }

  /** The call certainly did not happen, so that it may be made once more under its name. */
  free(name: string): void {
    this.#taken.delete(name)
  }
}

function reused(name: string): HapaxError {
  const what = `expected each call to have a name of its own, got '${name}' a second time in one attempt`
  return new HapaxError('reused-effect', `${what}: in a loop, name what is called, as in '${name}:' + to`, {
    fields: { effect: name },
  })
}
