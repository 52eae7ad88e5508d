import { AsyncLocalStorage } from 'node:async_hooks'
import { HapaxError } from '../base/index.ts'

/** A call to the outside world, and the attempt that makes it. */
interface Calling {
  readonly attempt: object
  readonly effect: string
}

/** To notice a call that uses the context of its own handler. Only effects touch it. */
const calling: AsyncLocalStorage<Calling> = new AsyncLocalStorage()

/** Makes a call of this attempt. */
export function inCall<T>(attempt: object, effect: string, call: () => T): T {
  return calling.run({ attempt, effect }, call)
}

/** A retry that finds a call done does not make it again: what was asked for inside it would be missing then. */
export function refuseInCall(attempt: object, use: string): void {
  const inside = calling.getStore()
  if (inside?.attempt !== attempt) return
  const what = `ctx.${use} was used inside the call of '${inside.effect}', where a retry would miss it`
  throw new HapaxError('reentrant', `${what}: use it before the effect, or after it`, {
    fields: { effect: inside.effect },
  })
}
